"""Jobs: texts of a request that wait and are read together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...arrays.passages import Predictions
from ...classifier.call_options import READING_OPTIONS, CallOptions, ReadingOptions
from ...reading.inputs import joined_texts

if TYPE_CHECKING:
    from ...classifier.answering import PredictedTexts
    from .states import State

BYTES_PER_TOKEN = 4  # an estimate, for the time before texts are tokenized


class ReadTexts(NamedTuple):
    """What a job returns: the predictions of its texts, and their tokens."""

    predicted: PredictedTexts
    token_count: int

    def answers(self) -> list[Any]:
        """The answer to each text."""
        return [self.predicted.answer(row) for row in range(len(self.predicted.prediction.probabilities))]


@dataclass
class Job:
    """Texts of a request that are read together."""

    state: State
    texts: Sequence[str]
    pairs: Sequence[str | None]
    options: CallOptions
    tokens: int  # an estimate
    is_long: bool  # by the estimate
    result: Future[ReadTexts] = field(default_factory=Future)  # cancelled if nobody waits for it any more

    def reading_key(self) -> tuple[object, ...]:
        """What jobs must have in common for their texts to be read together."""
        is_paired = any(pair is not None for pair in self.pairs)
        return (*self.state.reading_key(), is_paired, *sorted(reading_options(self.options).items()))

    def predict(self, embedded: Predictions, token_count: int) -> None:
        """Finish the job, whose texts were embedded."""
        try:
            predicted = self.state.pipe.predict_embedded(embedded, joined_texts(self.texts, self.pairs), self.options)
            self.result.set_result(ReadTexts(predicted, token_count))
        except Exception as error:  # of any type: it is the answer to this request alone
            self.result.set_exception(error)


def estimated_tokens(text: str) -> int:
    """An estimate of the number of tokens of a text."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 2


def reading_options(options: CallOptions) -> ReadingOptions:
    """The options that say how texts are read."""
    return {name: options[name] for name in READING_OPTIONS if name in options}
