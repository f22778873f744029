"""The checkpoint that ships: what it is called, where it lies, and what is said of it in files that others read."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .replacement import finish_replacement

if TYPE_CHECKING:
    from transformers import PretrainedConfig

DEFAULT_CHECKPOINT = "docsplit-small-en"
DEFAULT_FOLDER = Path(__file__).absolute().with_name(DEFAULT_CHECKPOINT)
# Arguments of a run that goes on from it, and that two CPU cores end in minutes on a few thousand documents.
DEFAULT_RECIPE = {"max_length": 128, "learning_rate": 5e-4, "num_train_epochs": 1, "warmup_steps": 10}


def default_checkpoint() -> str:
    """The folder of the checkpoint that ships with docsplit_hf, for everything that loads a model from a folder.

    What docsplit_hf itself loads needs no folder: the checkpoint is its default, and ``"docsplit-small-en"`` is its
    name.

    Returns:
        The folder, for ``SentenceTransformer``, ``AutoModel`` and ``AutoTokenizer``.

    Raises:
        FileNotFoundError: If this installation came without it.

    Example:

        >>> Path(default_checkpoint()).name
        'docsplit-small-en'
    """
    if not (DEFAULT_FOLDER / "model.safetensors").is_file():
        raise FileNotFoundError(
            f"The checkpoint {DEFAULT_CHECKPOINT}, which ships with docsplit_hf, is not in {DEFAULT_FOLDER.parent}: "
            "install docsplit_hf anew, or name another model."
        )
    return str(DEFAULT_FOLDER)


def resolve_checkpoint(name: str | None = None) -> str:
    """What a checkpoint is loaded from. A save to it that was interrupted is finished first.

    Args:
        name: A model on the Hub, a folder, or ``"docsplit-small-en"``. None: the checkpoint that ships.

    Returns:
        The folder of the checkpoint that ships, if it is meant; otherwise the name as it is. A folder here goes before
        the checkpoint of the same name, as it does before a model on the Hub.

    Raises:
        FileNotFoundError: If the name is almost that of the checkpoint that ships, or it is missing.

    Example:

        >>> resolve_checkpoint("google-bert/bert-base-uncased")
        'google-bert/bert-base-uncased'
        >>> resolve_checkpoint() == resolve_checkpoint("docsplit-small-en") == default_checkpoint()
        True
        >>> resolve_checkpoint("docsplit-small")
        Traceback (most recent call last):
        FileNotFoundError: There is no model 'docsplit-small'. The one that ships is called 'docsplit-small-en'.
    """
    if name is None:
        return default_checkpoint()
    name = os.fspath(name)
    if Path(name).exists():
        finish_replacement(name)
        return name
    if name == DEFAULT_CHECKPOINT:
        return default_checkpoint()
    if "/" not in name and difflib.get_close_matches(name, [DEFAULT_CHECKPOINT], cutoff=0.85):
        raise FileNotFoundError(f"There is no model {name!r}. The one that ships is called {DEFAULT_CHECKPOINT!r}.")
    return name


def name_in_config(config: PretrainedConfig) -> None:
    """Let a configuration say the name of the checkpoint that ships, not where it lies on this machine.

    Configurations are copied into model cards and into other configurations.

    Args:
        config: The configuration of a model that has just been loaded.

    Example:

        >>> from transformers import BertConfig
        >>> config = BertConfig(name_or_path=str(DEFAULT_FOLDER))
        >>> name_in_config(config)
        >>> config.name_or_path
        'docsplit-small-en'
    """
    if config.name_or_path and Path(config.name_or_path) == DEFAULT_FOLDER:
        config.name_or_path = DEFAULT_CHECKPOINT


def name_in_adapter(folder: str | Path) -> None:
    """The same in the folder of an adapter, whose base model is looked for on other machines too.

    Not before it is saved: peft looks for a base model that is no folder on the Hub.

    Args:
        folder: A folder that was just saved to; nothing happens if there is no ``adapter_config.json``.

    Example:

        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> path = folder / "adapter_config.json"
        >>> _ = path.write_text(json.dumps({"base_model_name_or_path": str(DEFAULT_FOLDER), "r": 8}))
        >>> name_in_adapter(folder)
        >>> json.loads(path.read_text())
        {'base_model_name_or_path': 'docsplit-small-en', 'r': 8}
    """
    path = Path(folder) / "adapter_config.json"
    if not path.is_file():
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("base_model_name_or_path") == str(DEFAULT_FOLDER):
        content["base_model_name_or_path"] = DEFAULT_CHECKPOINT
        path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
