"""The files by which sentence-transformers loads a checkpoint, with the embeddings of ``DocumentEncoder``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    (folder / "2_Normalize").mkdir(exist_ok=True)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    content = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    _write_json(folder / "modules.json", content)


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
