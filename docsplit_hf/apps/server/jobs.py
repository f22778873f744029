"""Jobs: texts of a request that wait and are read together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...classifier.call_options import READING_OPTIONS, CallOptions, ReadingOptions

if TYPE_CHECKING:
    from ...classifier.answering import PredictedTexts
    from .states import State

BYTES_PER_TOKEN = 4  # an estimate, for the time before texts are tokenized
SLICE_TEXTS = 64  # texts of a request that wait together; others' requests are read between them
SLICE_CHARACTERS = 65_536
# Options whose answers depend on the other texts of a call: how many neighbors are shown.
OPTIONS_OF_WHOLE_CALLS = ("return_neighbors", "return_documents", "explain")


class ReadTexts(NamedTuple):
    """What a job returns: the predictions of its texts."""

    predicted: PredictedTexts
    first_row: int  # of the job's texts in ``predicted``
    text_count: int
    token_count: int


@dataclass
class Job:
    """Texts of a request that are read together."""

    state: State
    texts: list[str]
    pairs: list[str | None]
    options: CallOptions
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[ReadTexts]
    tokens: int  # an estimate
    is_long: bool  # by the estimate
    is_dropped: bool = False  # nobody waits for it

    def reading_key(self) -> tuple[object, ...]:
        """What jobs must have in common for their texts to be read together."""
        is_paired = any(pair is not None for pair in self.pairs)
        return (*self.state.reading_key(), is_paired, *sorted(reading_options(self.options).items()))

    def prediction_key(self) -> tuple[object, ...]:
        """What jobs must have in common for their texts to be predicted together."""
        if is_whole_call(self.options):
            return (id(self),)
        return (id(self.state), *sorted(self.options.items()))

    def finish(self, result: ReadTexts | None, error: BaseException | None = None) -> None:
        """Hand the result to the event loop that waits for it."""

        def hand_over() -> None:
            if self.result.done():  # the client has gone, or waited too long
                return
            if error is not None:
                self.result.set_exception(error)
            else:
                self.result.set_result(result)

        self.loop.call_soon_threadsafe(hand_over)


def estimated_tokens(text: str) -> int:
    """An estimate of the number of tokens of a text."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 2


def reading_options(options: CallOptions) -> ReadingOptions:
    """The options that say how texts are read."""
    return {name: options[name] for name in READING_OPTIONS if name in options}


class TextSlice(NamedTuple):
    """Texts of a request, or pairs, that wait together."""

    texts: list[str]
    pairs: list[str | None]


def sliced(texts: Sequence[str], pairs: Sequence[str | None], is_whole: bool) -> list[TextSlice]:
    """Divide the texts of a request into slices; one, if its answers depend on all of them."""
    if is_whole:
        return [TextSlice(list(texts), list(pairs))]
    slices: list[TextSlice] = []
    characters = 0
    for text, pair in zip(texts, pairs, strict=True):
        is_full = bool(slices) and (len(slices[-1].texts) >= SLICE_TEXTS or characters + len(text) > SLICE_CHARACTERS)
        if not slices or is_full:
            slices.append(TextSlice([], []))
            characters = 0
        slices[-1].texts.append(text)
        slices[-1].pairs.append(pair)
        characters += len(text)
    return slices


def is_whole_call(options: CallOptions) -> bool:
    """Whether answers depend on the other texts of a call."""
    return any(options.get(name) for name in OPTIONS_OF_WHOLE_CALLS)
