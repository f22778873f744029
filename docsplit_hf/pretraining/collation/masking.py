"""Masking for masked language modeling, as a pure function of one sequence and a random generator."""

from __future__ import annotations

import numpy as np

IGNORED_LABEL = -100  # what torch's cross entropy leaves out, and transformers' loss with it


def mask_tokens(
    tokens: np.ndarray,
    maskable: np.ndarray,
    mask_token_id: int,
    vocab_size: int,
    probability: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Mask tokens as BERT does: each is chosen with ``probability``; of the chosen, 80 % become the mask token, 10 % a
    random token, and 10 % stay as they are (Devlin et al. 2019, section 3.1).

    ``maskable``: which of the ``(n,)`` tokens may be chosen, all but the special tokens. Random tokens are drawn from
    ``range(vocab_size)``. Returns the masked copy and the labels, -100 where no token was chosen, ``(n,)`` each.
    """
    chosen = np.flatnonzero(maskable & (rng.random(len(tokens)) < probability))
    labels = np.full_like(tokens, IGNORED_LABEL)
    labels[chosen] = tokens[chosen]
    kind = rng.random(len(chosen))
    masked = tokens.copy()
    masked[chosen[kind < 0.8]] = mask_token_id
    replaced = chosen[kind >= 0.9]
    masked[replaced] = rng.integers(vocab_size, size=len(replaced))
    return masked, labels
