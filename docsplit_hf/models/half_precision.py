"""A checkpoint in half the bytes: float16 on disk, float32 wherever it is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from .checkpoints.permissions import open_to_readers
from .inference.encoder import DocumentEncoder

WEIGHTS = "model.safetensors"
# Beside weights, configuration and tokenizer: what sentence-transformers reads.
LENGTH = "sentence_bert_config.json"
SETTINGS = ("modules.json", LENGTH, "1_Pooling/config.json")
LEAST_COSINE = 0.9999
# Where transformers 5.23 found a tokenizer on this machine, which it writes beside what a tokenizer is.
INCIDENTAL = ("is_local", "local_files_only", "name_or_path")


def save_in_half_precision(
    source: str | Path, folder: str | Path, texts: list[str], max_length: int | None = None
) -> float:
    """Copy a checkpoint of ``ContrastiveTrainer`` with weights of float16, and compare what both make of some texts.

    The configuration says float32, so that ``AutoModel``, ``SentenceTransformer`` and ``pipeline``, which go by it,
    read the weights as float32: in float16 a CPU is slow, and training would get lost. Only what loading needs is
    copied, and the tokenizer is told how much the model reads. Files of the same names in the folder are replaced,
    others stay.

    Args:
        source: The folder of the checkpoint, its weights in one file.
        folder: The folder to write to, which may exist.
        texts: What to compare the embeddings of.
        max_length: How many tokens the copy reads by default. None: as many as the checkpoint.

    Returns:
        The least cosine of the embeddings of a text by both.

    Raises:
        FileNotFoundError: If the source is no such checkpoint.
        ValueError: If a weight is beyond the range of float16, a cosine is below 0.9999, or the model has not so many
            positions.

    Example:

        >>> from docsplit_hf.models.checkpoints.default import default_checkpoint
        >>> import tempfile
        >>> copy = Path(tempfile.mkdtemp())
        >>> save_in_half_precision(default_checkpoint(), copy, ["A text."]) > 0.9999
        True
        >>> sorted(path.name for path in copy.iterdir())[-3:]
        ['sentence_bert_config.json', 'tokenizer.json', 'tokenizer_config.json']
    """
    source, folder = Path(source), Path(folder)
    for name in ("config.json", WEIGHTS, *SETTINGS):
        if not (source / name).is_file():
            raise FileNotFoundError(
                f"{source} has no {name}: give what examples/run_pretrain.py saved; of an adapter, its merged/."
            )
    weights = {name: tensor.to(torch.float16) for name, tensor in load_file(source / WEIGHTS).items()}
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{name} has a weight beyond the range of float16: this checkpoint cannot be halved.")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    open_to_readers(folder)
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
