"""How released checkpoints pool that do not say it themselves."""

from __future__ import annotations

from transformers import PretrainedConfig

# By the beginning of a name on the Hub: the pooling of the authors' own code.
RELEASED = {
    "facebook/contriever": "mean",
    "facebook/mcontriever": "mean",
    "Contrastive-Tension/": "mean",
    "princeton-nlp/unsup-simcse-": "cls",  # its MLP head is for training only
}


def released_pooling(name: str, config: PretrainedConfig | None) -> str | None:
    """The pooling that a checkpoint was released for, told from its name or its class; None if it is not known."""
    if "Contriever" in (getattr(config, "architectures", None) or ()):  # wherever it lies
        return "mean"
    return next((pooling for start, pooling in RELEASED.items() if name.startswith(start)), None)
