"""Choose the prompt that an encoder reads before each text, among those that its checkpoint was published with."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from .sentence_transformers_files import read_json

logger = logging.getLogger(__name__)

FILE = "config_sentence_transformers.json"
CLASSIFICATION = "classification"  # the usual name of a prompt for classification, in upper or lower case
# The prompts of released checkpoints whose files state none, as their authors describe them, by their names.
RELEASED_PROMPTS = {
    r"(multilingual-)?e5-(small|base|large)(-v2)?": "query: ",
    r"nomic-embed-text-v1(\.5)?": "classification: ",
}


def choose_prompt(
    name: str, prompt: str | None = None, prompt_name: str | None = None, revision: str | None = None
) -> str:
    """Choose the prompt of a checkpoint.

    Args:
        name: A folder, or a model on the Hub.
        prompt: The prompt itself, ``""`` for none. None: one of the checkpoint's.
        prompt_name: The name of one of the checkpoint's prompts. None: the one for classification, or else the default.
        revision: The branch, tag or commit on the Hub.

    Returns:
        The prompt; ``""`` if there is none.

    Raises:
        ValueError: If both arguments are given, the checkpoint has no prompt of that name, or its file is damaged.
    """
    if prompt is not None:
        if prompt_name is not None:
            raise ValueError(f"prompt={prompt!r} and prompt_name={prompt_name!r} are given: leave one of them out.")
        return prompt
    content: dict[str, Any] = read_json(name, FILE, revision=revision) or {}
    prompts = content.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise ValueError(f"{FILE} of {name} has prompts that are not texts with names: {prompts!r}. Repair it.")
    default = content.get("default_prompt_name")
    if default is not None and default not in list(prompts):
        raise ValueError(f"{FILE} of {name} has the default prompt {default!r}, and no prompt of that name. Repair it.")
    if prompt_name is not None:
        if prompt_name not in prompts:
            known = ", ".join(map(repr, prompts)) or "none"
            raise ValueError(
                f"{name} has no prompt {prompt_name!r}. It has {known}; prompt= takes the text of another."
            )
        return prompts[prompt_name] or ""
    chosen = next((known for known in prompts if known.lower() == CLASSIFICATION), default)
    if chosen is not None:
        if prompts[chosen]:
            logger.info("%s reads its prompt %r before each text: %r.", name, chosen, prompts[chosen])
        return prompts[chosen] or ""
    if unused := [known for known, text in prompts.items() if text]:
        logger.warning(
            "%s has the prompts %s, none of them for classification or by default: it reads texts without a prompt. "
            "prompt_name chooses one.",
            name,
            ", ".join(unused),
        )
        return ""
    names = (pattern for pattern in RELEASED_PROMPTS if re.fullmatch(pattern, Path(name).name))
    released = RELEASED_PROMPTS.get(next(names, ""), "")
    if released:
        logger.warning("%s states no prompt. It reads %r before each text, as its authors do.", name, released)
    return released
