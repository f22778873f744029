"""Masking for masked language modelling, as a pure function of one sequence and a random generator."""

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

    Args:
        tokens: Token ids, shape ``(n,)``.
        maskable: Which tokens may be chosen, booleans of shape ``(n,)``: all but the special tokens.
        mask_token_id: The id of the mask token.
        vocab_size: Random tokens are drawn from ``range(vocab_size)``.
        probability: The chance of each maskable token to be chosen, between 0 and 1.
        rng: The source of randomness.

    Returns:
        The masked copy of the tokens and the labels, both of shape ``(n,)``; the label is the original token where one
        was chosen and -100 elsewhere.

    Example:

        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> mask_tokens(np.array([5, 6, 7]), np.array([True, True, False]), 1, 10, 1.0, rng)
        (array([1, 6, 7]), array([   5,    6, -100]))
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
