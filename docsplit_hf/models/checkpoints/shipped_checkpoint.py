"""The checkpoint that ships: its name, its folder, and its name in files that others read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig

DEFAULT_CHECKPOINT = "docsplit-small-en"
DEFAULT_FOLDER = Path(__file__).absolute().with_name(DEFAULT_CHECKPOINT)
# Arguments of a run that trains it further: on two CPU cores, minutes for a few thousand documents.
DEFAULT_RECIPE = {"max_length": 128, "learning_rate": 5e-4, "num_train_epochs": 1, "warmup_steps": 10}


def default_checkpoint() -> str:
    """The folder of the checkpoint that ships, for ``SentenceTransformer``, ``AutoModel`` and ``AutoTokenizer``.

    What docsplit_hf itself loads needs no folder: the checkpoint is its default, and ``"docsplit-small-en"`` is its
    name.

    Raises:
        FileNotFoundError: If this installation came without it.
    """
    if not (DEFAULT_FOLDER / "model.safetensors").is_file():
        raise FileNotFoundError(
            f"The checkpoint {DEFAULT_CHECKPOINT}, which ships with docsplit_hf, is not in {DEFAULT_FOLDER.parent}: "
            "install docsplit_hf again, or name another model."
        )
    return str(DEFAULT_FOLDER)


def name_in_config(config: PretrainedConfig) -> None:
    """Replace the folder of the checkpoint that ships by its name: configurations are copied into cards and models."""
    if config.name_or_path and Path(config.name_or_path) == DEFAULT_FOLDER:
        config.name_or_path = DEFAULT_CHECKPOINT


def name_in_adapter(folder: str | Path) -> None:
    """The same in a saved adapter, if it is one. Before it is saved, peft would look for the name on the Hub."""
    path = Path(folder) / "adapter_config.json"
    if not path.is_file():
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("base_model_name_or_path") == str(DEFAULT_FOLDER):
        content["base_model_name_or_path"] = DEFAULT_CHECKPOINT
        path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
