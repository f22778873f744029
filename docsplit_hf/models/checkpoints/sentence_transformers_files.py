"""The files by which sentence-transformers loads a checkpoint, with the embeddings of ``DocumentEncoder``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save_file
from torch import nn

from .atomic_replacement import open_to_readers

if TYPE_CHECKING:
    from transformers import PretrainedConfig


SENTENCE_TRANSFORMERS_POOLING = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "last": "lasttoken"}


def save_sentence_transformers_files(folder: str | Path, config: PretrainedConfig) -> None:
    """Write what ``SentenceTransformer(folder)`` needs, by ``config.docsplit``.

    In a folder with an adapter only the settings are written, for ``DocumentEncoder`` to read: sentence-transformers
    would put the adapter on an encoder without a head, where its names do not fit.
    """
    folder = Path(folder)
    own = SENTENCE_TRANSFORMERS_POOLING[config.docsplit["pooling"]]
    pooling = {f"pooling_mode_{name}": name == own for name in SENTENCE_TRANSFORMERS_POOLING.values()}
    _write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": config.hidden_size, **pooling})
    length = {"max_seq_length": config.docsplit["max_length"], "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", length)
    if (folder / "adapter_config.json").exists():
        return
    _write_modules(folder, ["", "1_Pooling", "2_Normalize"])


def save_dense_module(folder: str | Path, layer: nn.Linear) -> None:
    """Put a dense layer, and one more normalization, behind what ``save_sentence_transformers_files`` wrote."""
    dense = Path(folder, "3_Dense")
    activation = f"{nn.Identity.__module__}.{nn.Identity.__name__}"
    sizes = {"in_features": layer.in_features, "out_features": layer.out_features, "bias": True}
    _write_json(dense / "config.json", sizes | {"activation_function": activation})
    save_file({f"linear.{name}": tensor for name, tensor in layer.state_dict().items()}, dense / "model.safetensors")
    open_to_readers(dense)
    _write_modules(Path(folder), ["", "1_Pooling", "2_Normalize", dense.name, "4_Normalize"])


def _write_modules(folder: Path, paths: list[str]) -> None:
    """``modules.json``, and the folders that it names; the kind of a module is in its folder's name."""
    content = []
    for number, path in enumerate(paths):
        (folder / path).mkdir(exist_ok=True)
        kind = path.partition("_")[2] or "Transformer"
        content.append(
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        )
    _write_json(folder / "modules.json", content)


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
