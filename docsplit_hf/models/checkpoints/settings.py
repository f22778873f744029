"""What a checkpoint says about itself: how it pools, and how much it reads."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig
from transformers.utils import cached_file

from ..portable.pooling import SENTENCE_TRANSFORMERS_POOLING

logger = logging.getLogger(__name__)

KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


def checkpoint_settings(
    name: str, config: PretrainedConfig | None, revision: str | None = None, with_projection: bool = False
) -> dict[str, str | int | None]:
    """The pooling and the maximum length of a checkpoint: DocSplit's own, or else those of sentence-transformers.

    Args:
        name: A model on the Hub or a folder.
        config: The model's configuration, whose ``config.docsplit`` goes first. None for an adapter: the configuration
            at hand is that of its base model, which may have been trained otherwise.
        revision: The branch, tag or commit on the Hub.
        with_projection: Whether the caller sends the embeddings through the checkpoint's dense layers, if it has any.

    Returns:
        ``pooling`` and ``max_length``, as far as the checkpoint states them.

    Raises:
        ValueError: If sentence-transformers would do something to the embeddings that is not known here, or a file of
            it does not hold what it should.

    Example:

        >>> from transformers import BertConfig
        >>> config = BertConfig(docsplit={"pooling": "mean", "max_length": 64})
        >>> checkpoint_settings("any name", config)
        {'pooling': 'mean', 'max_length': 64}
    """
    saved = getattr(config, "docsplit", None)
    if saved:
        unknown = sorted(set(saved) - {"pooling", "max_length"})
        if unknown:  # a misspelt one: the default would be taken for it
            raise ValueError(f"config.docsplit of {name} has {unknown[0]!r}, and knows pooling and max_length alone.")
        _check_length(f"config.docsplit of {name} has max_length", saved.get("max_length"))
        return dict(saved)
    settings: dict[str, str | int | None] = {}
    pooling = read_json(name, f"{_pooling_folder(name, revision, with_projection)}/config.json", revision)
    if pooling is not None:
        settings["pooling"] = _pooling_mode(name, pooling)
    length = (read_json(name, "sentence_bert_config.json", revision) or {}).get("max_seq_length")
    _check_length(f"sentence_bert_config.json of {name} has max_seq_length", length)
    return settings | ({"max_length": length} if length else {})


def read_json(name: str, file: str, revision: str | None = None, kind: type = dict) -> Any:
    """Read a JSON file of a repository on the Hub or of a folder.

    Args:
        name: A model on the Hub or a folder.
        file: The file's path in it.
        revision: The branch, tag or commit on the Hub.
        kind: What the file must hold: ``dict`` or ``list``.

    Returns:
        What the file holds; None if there is no such file. Where the Hub cannot be reached, so that nobody knows
        whether there is one, None too, and a warning is logged.

    Raises:
        ValueError: If the file is not JSON, or holds something else.

    Example:

        >>> import tempfile
        >>> read_json(tempfile.mkdtemp(), "config.json") is None
        True
    """
    path: Path | str | None
    if Path(name).is_dir():
        path = Path(name, file)
    else:
        try:
            path = cached_file(name, file, revision=revision, _raise_exceptions_for_missing_entries=False)
        except OSError as error:
            logger.warning("Could not look for %s of %s: %s", file, name, str(error).splitlines()[0])
            return None
    if path is None or not Path(path).is_file():
        return None
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} of {name} is not JSON: {error}. Download it anew, or repair it.") from error
    if not isinstance(content, kind):
        raise ValueError(f"{file} of {name} holds a {type(content).__name__} instead of a {kind.__name__}: repair it.")
    return content


def module_folders(name: str, kind: str, revision: str | None = None) -> list[str]:
    """The folders in which sentence-transformers keeps the modules of one kind.

    Args:
        name: A model on the Hub or a folder.
        kind: ``"Pooling"``, ``"Dense"``, ...
        revision: The branch, tag or commit on the Hub.

    Returns:
        Their names inside the repository, in the order of the modules.

    Raises:
        ValueError: If one is not the name of a folder inside the repository.

    Example:

        >>> import tempfile
        >>> module_folders(tempfile.mkdtemp(), "Dense")
        []
    """
    modules = _modules(name, revision)
    folders = [str(module.get("path")) for module in modules if _kind(module) == kind]
    for folder in folders:
        if not re.fullmatch(r"\w+", folder):
            raise ValueError(f"{name} keeps its {kind} in {folder!r}, which is not the name of a folder inside it.")
    return folders


def _check_length(place: str, length: Any) -> None:
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
        raise ValueError(f"{place}={length!r}, which is no length: correct it, or leave it out.")


def _modules(name: str, revision: str | None) -> list[dict[str, Any]]:
    modules = read_json(name, "modules.json", revision, list) or []
    for module in modules:
        if not isinstance(module, dict):
            raise ValueError(f"modules.json of {name} holds {module!r} where a module should be: repair it.")
    return modules


def _kind(module: dict[str, Any]) -> str:
    return str(module.get("type", "")).rpartition(".")[2]


def _pooling_folder(name: str, revision: str | None, with_projection: bool) -> str:
    known = ("Transformer", "Pooling", "Dense", "Normalize") if with_projection else KNOWN_MODULES
    modules = _modules(name, revision)
    for module in modules:
        if _kind(module) not in known:
            raise ValueError(
                f"{name} sends its embeddings through {module.get('type')!r}, which is not known here: the embeddings "
                "would not be the same. Use sentence-transformers for it."
            )
    order = [known.index(_kind(module)) for module in modules]
    if order != sorted(order):
        raise ValueError(
            f"{name} sends its embeddings through {', '.join(map(_kind, modules))}, in this order, and here it is "
            f"{', '.join(known)}: the embeddings would not be the same. Use sentence-transformers for it."
        )
    return (module_folders(name, "Pooling", revision) or ["1_Pooling"])[-1]


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
