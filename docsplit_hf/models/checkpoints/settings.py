"""What the files of a checkpoint say about it: how it pools, and its maximum length."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HFValidationError
from transformers import PretrainedConfig

from .released_pooling import released_pooling
from .sentence_transformers_files import SENTENCE_TRANSFORMERS_POOLING

logger = logging.getLogger(__name__)

KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


def checkpoint_settings(
    name: str,
    config: PretrainedConfig | None,
    revision: str | None = None,
    with_projection: bool = False,
    **hub_arguments: Any,
) -> dict[str, str | int | None]:
    """``pooling`` and ``max_length``, as far as a checkpoint says: in ``config.docsplit``, or as sentence-transformers.

    Of some released checkpoints that say nothing the pooling is known. ``config`` is None for an adapter, whose base
    model may have been trained otherwise. What sentence-transformers would do to the embeddings and is not known here
    is an error; dense layers are known with ``with_projection``.
    """
    saved = getattr(config, "docsplit", None)
    if saved:
        unknown = sorted(set(saved) - {"pooling", "max_length"})
        if unknown:  # a misspelled name: the default would be taken
            raise ValueError(f"config.docsplit of {name} has {unknown[0]!r}, and knows pooling and max_length alone.")
        _check_length(f"config.docsplit of {name} has max_length", saved.get("max_length"))
        return dict(saved)
    settings: dict[str, str | int | None] = {}
    files = {"revision": revision} | hub_arguments
    pooling = read_json(name, f"{_pooling_folder(name, with_projection, files)}/config.json", **files)
    if pooling is not None:
        settings["pooling"] = _pooling_mode(name, pooling)
    elif known := released_pooling(name, config):
        logger.warning("%s does not say how it pools. It was trained with %r: that is its default here.", name, known)
        settings["pooling"] = known
    length = (read_json(name, "sentence_bert_config.json", **files) or {}).get("max_seq_length")
    _check_length(f"sentence_bert_config.json of {name} has max_seq_length", length)
    return settings | ({"max_length": length} if length else {})


def find_file(name: str, file: str, **hub_arguments: Any) -> Path | None:
    """A file of a folder, or of a repository on the Hub; None if there is no such file."""
    if Path(name).is_dir():
        path = Path(name, file)
        return path if path.is_file() else None
    try:
        return Path(hf_hub_download(name, file, **hub_arguments))
    except EntryNotFoundError:  # also where the Hub cannot be asked, and the cache has no such file
        return None
    except HFValidationError as error:
        raise OSError(str(error)) from error


def read_json(name: str, file: str, kind: type = dict, **hub_arguments: Any) -> Any:
    """What a JSON file of a checkpoint holds; None if there is no such file.

    Also None, with a warning, where the Hub cannot be reached.
    """
    try:
        path = find_file(name, file, **hub_arguments)
    except OSError as error:
        logger.warning("Could not look for %s of %s: %s", file, name, " ".join(str(error).split()))
        return None
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} of {name} is not JSON: {error}. Download it again, or repair it.") from error
    if not isinstance(content, kind):
        raise ValueError(f"{file} of {name} holds a {type(content).__name__} instead of a {kind.__name__}: repair it.")
    return content


def module_folders(name: str, kind: str, **hub_arguments: Any) -> list[str]:
    """The folders of the modules of one kind (``"Pooling"``, ``"Dense"``) of sentence-transformers, in their order."""
    modules = _modules(name, hub_arguments)
    folders = [str(module.get("path")) for module in modules if _kind(module) == kind]
    for folder in folders:
        if not re.fullmatch(r"\w+", folder):
            raise ValueError(f"{name} keeps its {kind} in {folder!r}, which is not the name of a folder inside it.")
    return folders


def module_kinds(name: str, **hub_arguments: Any) -> list[str]:
    """The kinds of the modules of sentence-transformers, in their order."""
    return [_kind(module) for module in _modules(name, hub_arguments)]


def normalizes_first(kinds: list[str]) -> bool:
    """Whether embeddings are brought to norm 1 between the pooling and the first dense layer."""
    return "Dense" in kinds and kinds[: kinds.index("Dense")] == ["Transformer", "Pooling", "Normalize"]


def _check_length(place: str, length: Any) -> None:
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
        raise ValueError(f"{place}={length!r}, which is no length: correct it, or leave it out.")


def _modules(name: str, hub_arguments: dict[str, Any]) -> list[dict[str, Any]]:
    modules = read_json(name, "modules.json", kind=list, **hub_arguments) or []
    for module in modules:
        if not isinstance(module, dict):
            raise ValueError(f"modules.json of {name} holds {module!r} where a module should be: repair it.")
    return modules


def _kind(module: dict[str, Any]) -> str:
    return str(module.get("type", "")).rpartition(".")[2]


def _pooling_folder(name: str, with_projection: bool, hub_arguments: dict[str, Any]) -> str:
    known = ("Transformer", "Pooling", "Dense", "Normalize") if with_projection else KNOWN_MODULES
    modules = _modules(name, hub_arguments)
    for module in modules:
        if _kind(module) not in known:
            raise ValueError(
                f"{name} sends its embeddings through {module.get('type')!r}, which is not known here: the embeddings "
                "would not be the same. Use sentence-transformers for it."
            )
    kinds = [_kind(module) for module in modules]
    if normalizes_first(kinds):
        kinds.remove("Normalize")
    order = [known.index(kind) for kind in kinds]
    if order != sorted(order):
        raise ValueError(
            f"{name} sends its embeddings through {', '.join(map(_kind, modules))}, in this order, and here it is "
            f"{', '.join(known)}: the embeddings would not be the same. Use sentence-transformers for it."
        )
    return (module_folders(name, "Pooling", **hub_arguments) or ["1_Pooling"])[-1]


def _pooling_mode(name: str, pooling: dict[str, Any]) -> str:
    # sentence-transformers 6 writes one name or a list of names; before, it wrote a flag for each.
    modes = pooling.get("pooling_mode") or [
        key.removeprefix("pooling_mode_") for key, on in pooling.items() if key.startswith("pooling_mode_") and on
    ]
    modes = [modes] if isinstance(modes, str) else modes
    known = {theirs: ours for ours, theirs in SENTENCE_TRANSFORMERS_POOLING.items()}
    known |= {mode: mode for mode in ("cls", "mean", "max")}
    if len(modes) != 1 or modes[0] not in known:
        raise ValueError(f"{name} pools by {modes}, which is not known here: choose a pooling yourself.")
    return known[modes[0]]
