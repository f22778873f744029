"""Loading a model's configuration, with an error that names the model."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, PretrainedConfig

from ..data.paths import refuse_mistyped_path


def load_config(name: str, **hub_arguments: Any) -> PretrainedConfig:
    """Load the configuration of a model on the Hub or in a folder.

    Args:
        name: The model's name or folder.
        **hub_arguments: ``revision``, ``cache_dir``, ``token``, ... as for ``AutoConfig``.

    Returns:
        The configuration.

    Raises:
        OSError: If there is no such model, or the Hub cannot be reached.
        FileNotFoundError: At once, if the name is a mistyped path.

    Example:

        >>> load_config("google-bert/bert-base-uncased").model_type  # doctest: +SKIP
        'bert'
    """
    refuse_mistyped_path(name)
    try:
        return AutoConfig.from_pretrained(name, **hub_arguments)
    except OSError as error:
        raise OSError(
            f"The model {name!r} could not be loaded: it is not a folder with a config.json here, and it was not found "
            f"on the Hub or the Hub could not be reached. Check the spelling. ({str(error).splitlines()[0]})"
        ) from error
