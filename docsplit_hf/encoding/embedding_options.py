"""EmbeddingOptions: the options of a call that embeds texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backends.torch_backend import BFloat16


@dataclass(frozen=True)
class EmbeddingOptions:
    """Options of a call that embeds texts. None: the default of the model or of the device.

    Args:
        max_length: Longest input in tokens, special tokens included.
        max_tokens_per_batch: Most tokens in one forward pass, padding included.
        batch_size: Most chunks of texts in one forward pass.
        bf16: Whether torch computes in bfloat16; ``"auto"``: if the hardware has it. None: as the model was loaded.
        long_documents: Strategy for texts longer than ``max_length``.
        max_passages: Most passages that are read of a text.
        show_progress: Whether to show a progress bar.
        progress_delay: Seconds before the progress bar appears.
    """

    max_length: int | None = None
    max_tokens_per_batch: int | None = None
    batch_size: int | None = None
    bf16: BFloat16 = None
    long_documents: str | None = None
    max_passages: int | None = None
    show_progress: bool = False
    progress_delay: float = 0.0
