"""The code blocks of a page, each in its turn and all in one folder; of commands those of the README run."""

import contextlib
import csv
import functools
import io
import json
import math
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from .conftest import make_text
from .end_to_end.forked import finish_script, start_script, start_server

ROOT = Path(__file__).parents[1]
FOLDER = "folder of the page"
PRINTED = "printed by the last block"
# Options that leave a command as it is, and do less of it.
LESS = {
    "train": ["--num_train_epochs=1"],
    "evaluate": ["--repeats=2"],
    "pretrain": ["--max_steps=2", "--per_device_train_batch_size=8"],
}
# int8 is quantized and tried on fewer texts, which no page shows.
FEWER_TEXTS = {"CALIBRATION_TEXTS": 8, "MEASUREMENT_TEXTS": 2}
EMBEDDED = {}  # by all that it depends on: the embedding of a chunk of a text, of whichever page
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def enter_folder(namespace):
    """Make a folder with what pages suppose to be there, and go into it."""
    import docsplit_hf  # here and below, since the process that hands tests out imports this file, too
    from docsplit_hf.encoding.backends.openvino import engine

    folder, patch = Path(tempfile.mkdtemp()), pytest.MonkeyPatch()
    namespace[FOLDER] = folder, patch
    patch.chdir(folder)
    for name, count in FEWER_TEXTS.items():
        patch.setattr(engine, name, count)
    embed_once(patch)
    texts = [make_text(number, sentences=4 + number % 5) for number in range(48)]
    kinds = ["river" if "river" in text else "other" for text in texts]
    with open("labeled.csv", "w", newline="") as labeled, open("new.csv", "w", newline="") as new:
        csv.writer(labeled).writerows([["body", "kind"], *zip(texts, kinds, strict=True)])
        csv.writer(new).writerows([["body"], *([text] for text in texts)])
    with open("test.csv", "w", newline="") as test:
        csv.writer(test).writerows(
            [["body", "kind"], *((f"{text} Again.", kind) for text, kind in zip(texts, kinds, strict=True))]
        )
    with open("labeled.jsonl", "w") as labeled:
        labeled.writelines(
            json.dumps({"text": text, "label": kind}) + "\n" for text, kind in zip(texts, kinds, strict=True)
        )
    Path("documents").mkdir()
    for number, text in enumerate(texts):
        Path("documents", f"{number}.txt").write_text(f"{text} {text[::-1]}")
    with open("labels.csv", "w", newline="") as labels:
        rows = [(f"{number}.txt", kind) for number, kind in enumerate(kinds)]
        few = [row for kind in ("river", "other") for row in [row for row in rows if row[1] == kind][:5]]
        csv.writer(labels).writerows([["file", "kind"], *few])
    Path("documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    Path("output").mkdir()
    Path("output", "pretrain").symlink_to(docsplit_hf.default_checkpoint())


def leave_folder(namespace):
    folder, patch = namespace[FOLDER]
    patch.undo()
    shutil.rmtree(folder)


def embed_once(patch):
    """Have pipelines embed a text once in this process: many pages read the same documentation of packages."""
    import torch

    from docsplit_hf.encoding import classifier_embedder
    from docsplit_hf.encoding.checkpoints.fingerprint import encoder_fingerprint
    from docsplit_hf.encoding.portable.run_encoder import engine_of

    embed_chunks = classifier_embedder.embed_chunks
    names = ("pooling", "retrieval_pooling", "normalize", "decouple", "truncate_dim")

    def embed(model, tokenizer, chunks, options, **rest):
        encoder = model.base_model
        chunks = list(chunks)
        given = {"model": model, "tokenizer": tokenizer, "options": options, **rest}
        config = model.config
        is_plain = not (config.num_labels or config.decouple or engine_of(encoder) or options.bf16)
        if not is_plain or any(chunk.token_type_ids is not None for chunk in chunks):
            yield from embed_chunks(chunks=chunks, **given)
            return
        how = encoder_fingerprint(encoder, tokenizer, of={name: getattr(config, name) for name in names})
        keys = [(how, chunk.input_ids.tobytes()) for chunk in chunks]
        new = [chunk for key, chunk in zip(keys, chunks, strict=True) if key not in EMBEDDED]
        for group, (found, _) in embed_chunks(chunks=new, **given):
            for chunk, row in zip(group, found, strict=True):
                EMBEDDED[how, chunk.input_ids.tobytes()] = row
        if chunks:
            rows = torch.stack([EMBEDDED[key] for key in keys])
            yield chunks, [rows, rows.new_empty(len(rows), 0)]

    patch.setattr(classifier_embedder, "embed_chunks", embed)


def run_python(example):
    """Run a block of Python; what it prints is kept for the block of text that shows it."""
    line = example.line + example.parsed.line_offset
    code = compile("\n" * line + example.parsed, example.path, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, example.namespace)
    example.namespace[PRINTED] = printed.getvalue()


def check_output(example):
    compare(example.parsed, example.namespace[PRINTED])


def compare(shown, printed):
    """Compare what is shown with what was printed: ``...`` is anything, and numbers may be a tenth off."""
    pattern = "".join(
        f"({NUMBER})" if re.fullmatch(NUMBER, part) else re.sub(r"(\\?\s)+", r"\\s+", re.escape(part))
        for part in re.split(f"({NUMBER})", shown.strip())
    ).replace(r"\.\.\.", ".*?")
    match = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    assert match, f"shown:\n{shown}\nprinted:\n{printed}"
    for expected, number in zip(re.findall(NUMBER, shown), match.groups(), strict=True):
        assert math.isclose(float(expected), float(number), rel_tol=0.1, abs_tol=0.02), f"{number} in\n{printed}"


def check_commands(example):
    """Parse the commands of the examples; those of the README run as well."""
    from .commands import commands_in, launched, parse

    for command in commands_in(f"```bash\n{example.parsed}```\n"):
        assert not command[0].startswith("-"), f"{command} is a part of a command"
        for word in command[1:]:
            if word.endswith((".py", ".yaml")) and "/" in word:
                assert (ROOT / word).exists(), word
        scripts = [word for word in command if word.startswith("examples/run_")]
        assert not scripts or command[0] == "accelerate", f"{scripts} is a command: docsplit ..."
        if command[0] in ("docsplit", "accelerate") or command[:3] == ["python", "-m", "experiments"]:
            parse(command)
        if command[0] == "accelerate":
            command = launched(command)
        if command[0] == "docsplit" and Path(example.path).name == "README.md":
            run(*command[1:], *LESS.get(command[1], []))


@functools.cache
def datasets_cache():
    return tempfile.TemporaryDirectory()  # gone with the process


def run(command, *arguments):
    """Run a command in the folder of the page."""
    start_server(Path(datasets_cache().name))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        script = Path(folder, "docsplit")
        script.write_text("from docsplit_hf.__main__ import main\n\nmain()\n")  # as an installation has it
        finish_script(start_script(script, command, *arguments, log=log), log)
