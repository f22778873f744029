"""What runs an encoder in place of its own forward, such as a compiled copy of it.

It is known to this process and this encoder alone: copies, checkpoints and pickles are of the encoder itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from torch import nn
from transformers.utils import ModelOutput

Engine = Callable[..., ModelOutput]

_engines: WeakKeyDictionary[nn.Module, Engine] = WeakKeyDictionary()


def set_engine(encoder: nn.Module, engine: Engine | None) -> None:
    """Have ``run_encoder`` call ``engine`` with what it would have called the encoder with; None: the encoder again."""
    if engine is None:
        _engines.pop(encoder, None)
    else:
        _engines[encoder] = engine


def engine_of(encoder: nn.Module) -> Engine | None:
    """What runs the encoder, if it does not run itself."""
    engine = _engines.get(encoder)
    if engine is not None and encoder.training:
        raise ValueError(
            f"{type(encoder).__name__} runs as a compiled copy, which does not learn: load it without backend= to "
            "train it, and compile it afterwards."
        )
    return engine


@contextlib.contextmanager
def without_engine(encoder: nn.Module) -> Iterator[None]:
    """Within it, the encoder runs itself."""
    engine = _engines.pop(encoder, None)
    try:
        yield
    finally:
        set_engine(encoder, engine)
