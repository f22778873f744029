"""Check a checkpoint's files before a model is built, with errors that name the damaged file.

A folder may come from a stranger, or from an interrupted download. Without these checks, errors would not name the
file, and a damaged configuration could make transformers build a hundred million layers.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING

REMEDY = "Download or copy the folder again."
ANOTHER_ENCODER = "take one whose classes are in transformers and sentence-transformers."
TOKENIZER = "tokenizer.json"
# JSON files that transformers reads, and the type of their content.
JSON_FILES = {
    "config.json": dict,
    TOKENIZER: dict,
    "tokenizer_config.json": dict,
    "special_tokens_map.json": dict,
    "added_tokens.json": dict,
    "generation_config.json": dict,
}
# Settings of a model's size, under their names in the architectures of transformers, and limits for them, far above the
# sizes of any released encoder.
LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "encoder_layers", "num_decoder_layers")
WIDTHS = ("hidden_size", "d_model", "dim", "n_embd", "embedding_size", "retrieval_dimension")
INNER_WIDTHS = ("intermediate_size", "d_ff", "hidden_dim", "ffn_dim", "encoder_ffn_dim")
HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head", "encoder_attention_heads", "num_key_value_heads")
VOCABULARIES = ("vocab_size", "type_vocab_size", "max_position_embeddings", "n_positions")
MOST_LAYERS = 1_000
MOST_SHARED_LAYERS = 48  # as in ALBERT, which has more layers than tensors: all layers share one set of weights
MOST_HEADS = 4_096
WIDEST = 2**20
LARGEST_VOCABULARY = 2**24
# The least and the largest allowed value of each.
LIMITS = (
    dict.fromkeys(LAYERS, (0, MOST_LAYERS))
    | dict.fromkeys(WIDTHS + INNER_WIDTHS, (1, WIDEST))
    | dict.fromkeys(HEADS, (1, MOST_HEADS))
    | dict.fromkeys(VOCABULARIES, (0, LARGEST_VOCABULARY))
)
NESTED = ("encoder_config", "text_config", "encoder")  # configurations within a configuration


class DamagedFilesError(ValueError):
    """A file of a checkpoint is damaged, or asks for something that is impossible or not done."""


class WeightsSize(NamedTuple):
    """The size of the weights, according to the headers of their files."""

    tensors: int  # number of tensors
    numbers: int  # number of elements of all tensors


def check_checkpoint_folder(folder: str | Path) -> None:
    """Refuse a folder with a damaged file, or with a configuration that does not fit its weights."""
    folder = Path(folder)
    if not folder.is_dir():  # it is a name on the Hub
        return
    for name, kind in JSON_FILES.items():
        if (folder / name).is_file():
            _check_json(folder / name, kind)
    sizes = [_size_of_weights(path) for path in sorted(folder.glob("*.safetensors"))]
    total = WeightsSize(sum(size.tensors for size in sizes), sum(size.numbers for size in sizes)) if sizes else None
    path = folder / "config.json"
    if not path.is_file():
        return
    config = json.loads(path.read_text(encoding="utf-8"))
    architectures = config.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise DamagedFilesError(
            f"{path} is damaged: 'architectures' is {architectures!r}, not a list of names. {REMEDY}"
        )
    if not isinstance(config.get("docsplit") or {}, dict):
        raise DamagedFilesError(f"{path} is damaged: 'docsplit' is {config['docsplit']!r}, not a dictionary. {REMEDY}")
    check_sizes(path, config, total)


def refuse_own_code(name: str | Path, config: Mapping[str, Any]) -> None:
    """Refuse a configuration whose model is code in the checkpoint's repository, and not a class of transformers."""
    model_type = config.get("model_type")
    if config.get("auto_map") and model_type not in CONFIG_MAPPING:
        raise DamagedFilesError(
            f"{name} is of the type {model_type!r}, which is code in its repository (trust_remote_code). "
            f"docsplit_hf runs no code of a checkpoint: {ANOTHER_ENCODER}"
        )


@contextlib.contextmanager
def errors_name_config(name: str | Path) -> Iterator[None]:
    """Replace errors of transformers within the context by one that names a checkpoint's config.json."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, StrictDataclassError, TypeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DamagedFilesError(
            f"No model can be made of {name}: config.json is damaged or belongs to other weights. {REMEDY} ({reason})"
        ) from error


def check_sizes(place: str | Path, config: Mapping[str, Any], weights: WeightsSize | None = None) -> None:
    """Refuse a configuration with impossible sizes, or, if ``weights`` are known, with sizes that do not fit them."""
    for name in config:
        least, largest = LIMITS.get(name, (0, 0))
        value = config[name]
        if name not in LIMITS or type(value) is not int:
            continue  # transformers refuses other types by the name of the setting
        if not least <= value <= largest:
            raise DamagedFilesError(f"{place} has {name}={value}: it must be from {least} to {largest:,}. {REMEDY}")
        if weights is None:
            continue
        if name in LAYERS and value > max(weights.tensors, MOST_SHARED_LAYERS):
            raise DamagedFilesError(
                f"{place} has {name}={value}, and the weights are {weights.tensors} tensors. {REMEDY}"
            )
        if name in WIDTHS + INNER_WIDTHS and value > weights.numbers:
            raise DamagedFilesError(
                f"{place} has {name}={value}, and the weights are {weights.numbers:,} numbers. {REMEDY}"
            )
    for name in NESTED:
        if isinstance(config.get(name), Mapping):
            check_sizes(place, config[name], weights)


def _check_json(path: Path, kind: type) -> None:
    """Refuse a file that is not JSON, or whose content is of another type."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFilesError(f"{path} is damaged, it is not JSON: {error}. {REMEDY}") from error
    if not isinstance(content, kind):
        raise DamagedFilesError(
            f"{path} is damaged: it holds a {type(content).__name__}, not a {kind.__name__}. {REMEDY}"
        )
    if path.name != TOKENIZER:
        return
    for name, part in (("model", dict), ("added_tokens", list)):
        if not isinstance(content.get(name), part):
            found = type(content[name]).__name__ if name in content else "nothing"
            raise DamagedFilesError(f"{path} is damaged: {name!r} is {found}, not a {part.__name__}. {REMEDY}")


def _size_of_weights(path: Path) -> WeightsSize:
    """Read the size of the weights in a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]
    except SafetensorError as error:
        raise DamagedFilesError(f"{path} is damaged ({path.stat().st_size:,} bytes; {error}). {REMEDY}") from error
    return WeightsSize(len(shapes), sum(map(math.prod, shapes)))
