"""Shared code of the benchmarks of speed: competitors take turns; a table has ratios, and the machine is described."""

import gc
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel

from docsplit_hf.training.markdown import table
from experiments.evaluation.results import processor

PACKAGES = ("torch", "transformers", "sentence-transformers")
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "MemoryError", "bad_alloc")  # words of such errors
Pair = tuple[str, str]  # a competitor, and the one that it is compared with


class Seconds(NamedTuple):
    """The seconds of each competitor, one number per round; NaN if it did not fit into memory."""

    rounds: dict[str, list[float]]

    def fits(self, name: str) -> bool:
        """Whether a competitor's rounds all fit into memory."""
        return not any(math.isnan(seconds) for seconds in self.rounds[name])

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def times_as_fast(self, name: str, baseline: str) -> str:
        """The median of the rounds' ratios, with the least and the greatest; other work slows both sides of a round."""
        pairs = zip(self.rounds[baseline], self.rounds[name], strict=True)
        ratios = sorted(theirs / ours for theirs, ours in pairs)
        return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def take_turns(rounds: int, competitors: Mapping[str, Callable[[], float]]) -> Seconds:
    """Run all competitors in each round, each time with another one first, after a warm-up round.

    A competitor that runs out of memory is left out from then on.
    """
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    too_large: set[str] = set()
    names = list(competitors)
    for turn in range(rounds + 1):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            measured = math.nan if name in too_large else seconds_if_it_fits(competitors[name])
            if math.isnan(measured):
                too_large.add(name)
            if turn > 0:
                seconds[name].append(measured)
    return Seconds(seconds)


def seconds_if_it_fits(competitor: Callable[[], float]) -> float:
    """The seconds of a competitor; NaN if it runs out of memory."""
    try:
        return competitor()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    gc.collect()  # outside of the handler, whose error holds the memory
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return math.nan


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from, is about memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if any(words in str(error) for words in OUT_OF_MEMORY):
        return True
    return error.__cause__ is not None and is_out_of_memory(error.__cause__)


class Counted(NamedTuple):
    """The seconds of a pass, round by round, and the number of items that it counted."""

    seconds: list[float]
    count: int

    def rates(self) -> list[float]:
        """Items per second, round by round."""
        return [self.count / seconds for seconds in self.seconds]


def take_counted_turns(rounds: int, *passes: Callable[[], int]) -> list[Counted]:
    """Let passes over the same data take turns; each returns the number of items that it counted."""
    counts: dict[str, int] = {}

    def counting(name: str, one_pass: Callable[[], int]) -> Callable[[], None]:
        def run() -> None:
            counts[name] = one_pass()

        return run

    competitors = {str(i): timed(counting(str(i), one_pass)) for i, one_pass in enumerate(passes)}
    seconds = take_turns(rounds, competitors)
    return [Counted(seconds.rounds[name], counts[name]) for name in competitors]


def timed(function: Callable[[], object]) -> Callable[[], float]:
    """A function that runs ``function`` and returns its seconds."""

    def run() -> float:
        start = now()
        function()
        return now() - start

    return run


def now() -> float:
    """The time in seconds, after a GPU has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def comparison(
    seconds: Seconds, documents: int, pairs: Sequence[Pair], flops: Mapping[str, float] | None = None
) -> str:
    """A table of pairs: documents per second of both, and how many times as fast the first is.

    On a GPU also the share of its peak, for competitors with ``flops``, the bfloat16 operations for all documents.
    """
    peak = matmul_peak() if flops and torch.cuda.is_available() else None

    def speed(name: str) -> str:
        if not seconds.fits(name):
            return "out of memory"
        rate = f"{documents / seconds.median(name):,.1f}"
        if peak is None or name not in flops:
            return rate
        return f"{rate} ({100 * flops[name] / seconds.median(name) / peak:.1f} % of {peak / 1e12:,.0f} TFLOP/s)"

    def ratio(name: str, other: str) -> str:
        return seconds.times_as_fast(name, other) if seconds.fits(name) and seconds.fits(other) else ""

    rows = [(name, speed(name), other, speed(other), ratio(name, other)) for name, other in pairs]
    return table(("", "documents/s", "compared with", "documents/s", "times as fast"), rows)


def write_record(file: Path, seconds: Seconds, documents: int, pairs: Sequence[Pair], **about: object) -> None:
    """Append a record with the seconds of every round; None for those of competitors that ran out of memory."""
    rounds = {name: values if seconds.fits(name) else None for name, values in seconds.rounds.items()}
    row = about | {"documents": documents, "pairs": pairs, "seconds": rounds, "ran_on": ran_on()}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def ran_on() -> str:
    """The processor or the GPU, and the versions."""
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    if torch.cuda.is_available():
        return f"Run on {torch.cuda.get_device_name()}, {versions}."
    return f"Run on {processor()}, {torch.get_num_threads()} threads, {versions}."


def matmul_peak() -> float:
    """The device's attainable peak: operations per second in a large bfloat16 matrix product."""
    size = 8192
    products = 20
    left = torch.randn(size, size, dtype=torch.bfloat16, device="cuda")
    right = torch.randn(size, size, dtype=torch.bfloat16, device="cuda")
    fastest = min(timed(lambda: [left @ right for _ in range(products)])() for _ in range(4))
    return 2 * size**3 * products / fastest


def forward_flops(model: PreTrainedModel, lengths: Iterable[int]) -> float:
    """Operations of an encoder's forward pass, matrix products and attention; a third of a training step's."""
    encoder = model.base_model
    config = model.config
    linear = [layer for name, layer in encoder.named_modules() if isinstance(layer, nn.Linear) and "pooler" not in name]
    weights = sum(layer.weight.numel() for layer in linear)
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    total = 0.0
    for length in lengths:
        seen = [min(length, config.local_attention) if kind == "sliding_attention" else length for kind in kinds]
        total += 2 * weights * length + 4 * config.hidden_size * length * sum(seen)
    return total


def head_flops(model: PreTrainedModel, tokens: int) -> float:
    """Operations of a masked-LM head for ``tokens`` masked tokens, forward only."""
    inside = {id(layer) for layer in model.base_model.modules()}
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and id(layer) not in inside]
    return 2.0 * tokens * sum(layer.weight.numel() for layer in layers)
