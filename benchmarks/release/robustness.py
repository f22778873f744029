"""Damage the folder of a classifier on purpose, and count the outcomes for a user.

    python -m benchmarks.release.robustness --kills 100 --flips 300

Kills: a process that saves a classifier over another one, an edit or a fit is killed at a random moment. The folder
must then load as exactly one of the two, and the next save must leave no other files. Limits: a limit on the size of a
file stops the saving. Flips: one bit of one file is flipped. Loading must fail, or all answers must be unchanged.

The model is a BERT of 30,000 random weights, since only the writing and reading of files is tested.
"""

import argparse
import contextlib
import io
import json
import logging
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError
from transformers import BertConfig, BertModel

from docsplit_hf import KNNClassifier, KNNClassifierPipeline
from docsplit_hf.apps.pipelines import copied
from docsplit_hf.encoding.small_bert import train_small_bert_tokenizer
from docsplit_hf.storage.atomic_replacement import finish_save

SUBJECTS = [("apple", "garden"), ("iron", "mine"), ("pear", "basket"), ("stone", "river")] * 10
TEXTS = [f"The {thing} of number {i} lies in the {place}." for i, (thing, place) in enumerate(SUBJECTS)]
LABELS = ["fruit", "mineral"] * 20
DOCUMENTS = [text.replace("The", "A").replace("number", "size") for text in TEXTS]


def make_pipeline(seed: int) -> KNNClassifierPipeline:
    """A classifier with examples, documents and fitted experts; all of them, and the weights, differ by seed."""
    torch.manual_seed(seed)
    tokenizer = train_small_bert_tokenizer(TEXTS, vocab_size=200)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    model = KNNClassifier.around(BertModel(config), id2label={0: "fruit", 1: "mineral"}, max_length=32 + seed)
    pipe = KNNClassifierPipeline(model=model, tokenizer=tokenizer, device="cpu")
    pipe.add_examples(TEXTS[seed:], LABELS[seed:])
    pipe.calibrate()
    pipe.add_documents(DOCUMENTS[seed:20])
    with contextlib.redirect_stdout(io.StringIO()):
        pipe.fit(held_out_texts=DOCUMENTS[20 + seed :], held_out_labels=LABELS[20 + seed :], show_progress=False)
    return pipe


def answers(folder: Path) -> str:
    """The complete answers of the classifier in a folder, as JSON."""
    pipe = transformers.pipeline("docsplit-knn", model=str(folder), device="cpu")
    ask = partial(pipe, TEXTS[:8], top_k=None, return_neighbors=3)
    found = [ask()]
    if pipe.datastore.fitted is not None:
        found.append(ask(explain=True, return_documents=3))
        found.append(ask(method="knn"))
    return json.dumps(found)


def files(folder: Path) -> list[str]:
    """The files of a classifier's folder, without the checksums in the names of datastore files."""
    return sorted({str(path.relative_to(folder)).split("-")[0] for path in folder.rglob("*") if path.is_file()})


def judge(folder: Path, states: dict[str, str]) -> str:
    """The state of a folder after a disturbance, before and after an interrupted save is finished."""
    try:
        found = answers(folder)
        finish_save(folder)
        again = answers(folder)
    except (ValueError, OSError) as error:
        return f"unusable: {type(error).__name__}: {str(error)[:200]}"
    return states.get(found, "mixed") if found == again else "changed by finish_save"


def save_limited(pipe: KNNClassifierPipeline, folder: Path, limit: int) -> None:
    """Save with a limit on the size of files in bytes, for a process of its own."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with contextlib.suppress(OSError, SafetensorError):
        pipe.save_pretrained(folder)


def make_versions() -> dict[str, list[KNNClassifierPipeline]]:
    """The new and the old classifier of each kind of save: another encoder, an edit of the examples, a fit."""
    old = make_pipeline(0)
    edited = copied(old)
    edited.add_examples(["The pear of number 41 lies in the garden."], ["fruit"])
    fitted = copied(old)
    with contextlib.redirect_stdout(io.StringIO()):
        fitted.fit(held_out_texts=DOCUMENTS[22:], held_out_labels=LABELS[22:], show_progress=False)
    return {"saved": [make_pipeline(1), old], "saved an edit": [edited, old], "saved a fit": [fitted, old]}


def disturbed_saves(kills: int, limits: int, rng: random.Random) -> None:
    """Kill a process that saves, and stop one by a limit on the size of files."""
    for kind, pipes in make_versions().items():
        disturb(kind, pipes, kills, limits if kind == "saved" else 0, rng)


def disturb(kind: str, pipes: list[KNNClassifierPipeline], kills: int, limits: int, rng: random.Random) -> None:
    """Disturb saves of a new classifier over an old one."""
    fork = multiprocessing.get_context("fork")
    new, old = pipes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "classifier")
        states = {}
        for pipe, state in ((old, "old"), (new, "new")):
            begin = time.monotonic()
            process = fork.Process(target=pipe.save_pretrained, args=(folder,))
            process.start()
            process.join()
            seconds = time.monotonic() - begin
            states[answers(folder)] = state
        expected = files(folder)
        largest = max(path.stat().st_size for path in folder.rglob("*"))
        for title, count in ((f"killed while it {kind}", kills), ("stopped by ulimit -f", limits)):
            outcomes: Counter[str] = Counter()
            for _ in range(count):
                old.save_pretrained(folder)
                if files(folder) != expected:
                    outcomes[f"left behind: {sorted(set(files(folder)) ^ set(expected))}"] += 1
                if title.startswith("killed"):
                    process = fork.Process(target=new.save_pretrained, args=(folder,))
                    process.start()
                    time.sleep(rng.uniform(0, 1.2 * seconds))
                    process.kill()
                else:
                    limit = rng.randrange(int(1.2 * largest))
                    process = fork.Process(target=save_limited, args=(new, folder, limit))
                    process.start()
                process.join()
                outcomes[judge(folder, states)] += 1
            report(title, outcomes)


def flipped_bits(flips: int, pattern: str, rng: random.Random) -> None:
    """Flip one bit of one file, each file of a pattern in turn."""
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "classifier")
        make_pipeline(0).save_pretrained(folder)
        expected = answers(folder)
        paths = sorted(path for path in folder.glob(pattern) if path.is_file())
        for flip in range(flips):
            path = paths[flip % len(paths)]
            content = path.read_bytes()
            damaged = bytearray(content)
            damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            try:
                outcome = "identical" if answers(folder) == expected else f"silently different: {path.name}"
            except Exception:  # any exception counts: the damage was noticed
                outcome = "found"
            outcomes[outcome] += 1
            path.write_bytes(content)
    report("with a flipped bit", outcomes)


def report(title: str, outcomes: Counter[str]) -> None:
    """Print one line; exit with an error if a classifier was broken or changed silently."""
    if outcomes.total():
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        print(f"{outcomes.total()} {title}: {counts}", flush=True)
    if set(outcomes) - {"old", "new", "found", "identical"}:
        sys.exit("A classifier was left broken, or its answers changed with no warning.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="Kills of each kind of save. Default: %(default)s.")
    parser.add_argument("--limits", type=int, help="Saves under a limit on the size of files. Default: as --kills.")
    parser.add_argument("--flips", type=int, default=60, help="Bits to flip. Default: %(default)s.")
    parser.add_argument("--files", default="**/*", help="Whose bits are flipped. Default: all, %(default)s.")
    parser.add_argument("--seed", type=int, default=0, help="Of moments and bits. Default: %(default)s.")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)  # forked processes have no other threads
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    rng = random.Random(options.seed)
    disturbed_saves(options.kills, options.kills if options.limits is None else options.limits, rng)
    flipped_bits(options.flips, options.files, rng)


if __name__ == "__main__":
    main()
