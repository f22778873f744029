r"""Make a trained checkpoint the one that ships: float16 on disk, loaded in float32, without other files.

    python -m benchmarks.release.checkpoint output/student-with-head --max_length 512

It writes into the folder that docsplit_hf loads by default. It ends with an error if the folder is larger than 25 MB,
or if the embeddings differ from the checkpoint's. The card is written by hand, with the numbers of its results.json.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from docsplit_hf import DocumentEncoder, load_package_documentation
from docsplit_hf.encoding.checkpoints.checkpoint import DEFAULT_FOLDER
from docsplit_hf.storage.atomic_replacement import apply_umask_to_weights

MOST_BYTES = 25_000_000
PACKAGES = ("accelerate",)  # their documentation is embedded for the comparison
WEIGHTS = "model.safetensors"
# Files of sentence-transformers, beside weights, configuration and tokenizer.
LENGTH = "sentence_bert_config.json"
SETTINGS = ("modules.json", LENGTH, "1_Pooling/config.json")
LEAST_COSINE = 0.9999
# Entries of transformers 5.23 about the place of a tokenizer and about truncation by a teacher, which are removed.
INCIDENTAL = ("is_local", "local_files_only", "name_or_path", "max_length", "stride", "truncation_strategy")


def save_in_half_precision(
    source: str | Path, folder: str | Path, texts: list[str], max_length: int | None = None
) -> float:
    """Copy a checkpoint of ``ContrastiveTrainer`` in float16; return the least cosine between old and new embeddings.

    The dtype of the configuration is float32, so that ``AutoModel``, ``SentenceTransformer`` and ``pipeline`` load the
    weights in float32: in float16 a CPU is slow, and training diverges. Only the files for loading are copied.
    ``max_length``: the default maximum length of the copy in tokens; None: the checkpoint's.
    """
    source = Path(source)
    folder = Path(folder)
    for name in ("config.json", WEIGHTS, *SETTINGS):
        if not (source / name).is_file():
            raise FileNotFoundError(
                f"{source} has no {name}: give what docsplit pretrain saved; of an adapter, its merged/."
            )
    weights = {name: tensor.to(torch.float16) for name, tensor in load_file(source / WEIGHTS).items()}
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{name} has a weight beyond the range of float16: this checkpoint cannot be halved.")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    apply_umask_to_weights(folder)
    for name in SETTINGS:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source / name, folder / name)
    config = json.loads((source / "config.json").read_text(encoding="utf-8")) | {"dtype": "float32"}
    if max_length is not None:
        config["docsplit"]["max_length"] = max_length
        _write_json(folder / LENGTH, json.loads((source / LENGTH).read_text()) | {"max_seq_length": max_length})
    _write_json(folder / "config.json", config)
    _save_tokenizer(source, folder, config.get("max_position_embeddings"))
    halved = DocumentEncoder.from_pretrained(str(folder), device="cpu")
    whole = DocumentEncoder.from_pretrained(str(source), device="cpu", max_length=halved.max_length)
    cosines = (whole.encode(texts, show_progress=False) * halved.encode(texts, show_progress=False)).sum(axis=1)
    least = float(np.min(cosines))
    if not least >= LEAST_COSINE:
        raise ValueError(
            f"In float16 an embedding has a cosine of {least:.6f} with what it was, less than {LEAST_COSINE}: keep "
            f"{source} as it is."
        )
    return least


def _save_tokenizer(source: Path, folder: Path, positions: int | None) -> None:
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.model_max_length = min(tokenizer.model_max_length, positions or tokenizer.model_max_length)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    _write_json(path, {key: value for key, value in content.items() if key not in INCIDENTAL})


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("source", type=Path, help="The folder of the checkpoint, as docsplit pretrain leaves it.")
    add("--max_length", type=int, help="How many tokens are read by default. Default: as many as in training.")
    add("--folder", type=Path, default=DEFAULT_FOLDER, help="Where to write. Default: into the package.")
    options = parser.parse_args()
    texts = load_package_documentation(PACKAGES, test_size=100)["test"]["text"][:]
    least = save_in_half_precision(options.source, options.folder, texts, options.max_length)
    sizes = {path: path.stat().st_size for path in sorted(options.folder.rglob("*")) if path.is_file()}
    for path, size in sizes.items():
        print(f"{size:12,}  {path.relative_to(options.folder)}")
    total = sum(sizes.values())
    print(f"{total:12,}  bytes. Least cosine with the embeddings of {options.source}: {least:.6f}")
    if total > MOST_BYTES:
        raise SystemExit(f"{options.folder} is to have at most {MOST_BYTES:,} bytes: train a smaller model.")


if __name__ == "__main__":
    main()
