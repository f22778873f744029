"""Measure the speed of splitting English into sentences on one core, and the agreement with pysbd.

Plain pysbd and docsplit_hf split the same texts and take turns, a whole pass each. Both apply pysbd's rules line by
line: plain pysbd with one call of ``pysbd.Segmenter(language="en", clean=False)`` per line, since one call per text is
slower. A boundary is the end of a sentence without its white space; the boundaries of plain pysbd count as right. The
texts are a sample of the documentation of installed packages, or of a file, a folder or a data set on the Hub.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import re
import signal
import statistics
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import Any, NoReturn

import datasets
import pysbd

from benchmarks.speed.side_by_side import take_counted_turns
from docsplit_hf import load_package_documentation
from docsplit_hf.reading.load_documents import load_documents
from docsplit_hf.reading.segmentation.certain_boundaries import cut_at_certain_boundaries
from docsplit_hf.reading.segmentation.sentences import get_segmenter
from docsplit_hf.training.markdown import table
from experiments.evaluation.results import processor

GIVE_UP_SECONDS = 5.0  # plain pysbd takes minutes on some texts, which are left out
LINE = re.compile(r"[^\r\n]*[\r\n]\s*|[^\r\n]+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="?", help="file, folder or data set (default: the documentation of packages)")
    parser.add_argument("--text_column", default="text", help="column with the texts (default: %(default)s)")
    parser.add_argument("--documents", type=int, default=300, help="size of the sample (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="passes of each competitor (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides which documents are drawn (default: %(default)s)")
    arguments = parser.parse_args()

    datasets.disable_progress_bars()
    try:
        texts = load(arguments.texts, arguments.text_column, arguments.documents, arguments.seed)
    except (FileNotFoundError, ConnectionError) as error:
        print(f"SKIPPED: the texts are not there. {error}")
        return
    plain = pysbd.Segmenter(language="en", clean=False, char_span=True)
    ours = get_segmenter("pysbd")
    documents = [LINE.findall(text) for text in texts]
    documents = [lines for lines in documents if is_segmented_in_time(plain, lines)]
    if not documents:
        raise SystemExit("There is no text that plain pysbd splits in time: raise --documents.")

    def pass_of_plain() -> int:
        return sum(len(plain.segment(line)) for lines in documents for line in lines)

    def pass_of_ours() -> int:
        return sum(len(ours("".join(lines))) for lines in documents)

    turns_of_plain, turns_of_ours = take_counted_turns(arguments.rounds, pass_of_plain, pass_of_ours)
    rates = turns_of_plain.rates()
    our_rates = turns_of_ours.rates()
    ratio = statistics.median(our / their for our, their in zip(our_rates, rates, strict=True))
    precision, recall, f1 = agreement(documents, plain, ours)

    print(f"Texts: {arguments.texts or 'documentation of installed packages'}; {describe(documents)}.")
    left_out = len(texts) - len(documents)
    print(f"Left out: {left_out} documents on which plain pysbd takes over {GIVE_UP_SECONDS:g} s or fails.")
    print(f"Run on: {machine()}; one process, one thread. {arguments.rounds} rounds.\n")
    header = ("", "sentences/s", "ratio", "precision", "recall", "F1", "text that pysbd sees")
    rows = [
        ("plain pysbd", f"{statistics.median(rates):,.0f}", "1.0", "", "", "", "100.0 %"),
        (
            "docsplit_hf",
            f"{statistics.median(our_rates):,.0f}",
            f"{ratio:.1f}",
            f"{precision:.5f}",
            f"{recall:.5f}",
            f"{f1:.5f}",
            f"{100 * uncertain_share(documents):.1f} %",
        ),
    ]
    print(table(header, rows))


class _GaveUpError(BaseException):
    """A BaseException, so that no ``except Exception`` in pysbd can swallow it."""


def is_segmented_in_time(segmenter: pysbd.Segmenter, texts: Iterable[str]) -> bool:
    """Whether pysbd splits all texts in time, without an error. docsplit_hf uses this timer too: never call it here."""

    def give_up(signal_number: int, frame: Any) -> NoReturn:
        raise _GaveUpError

    can_give_up = hasattr(signal, "setitimer")  # not on Windows
    previous = signal.signal(signal.SIGALRM, give_up) if can_give_up else None
    try:
        if can_give_up:
            signal.setitimer(signal.ITIMER_REAL, GIVE_UP_SECONDS)
        for text in texts:
            segmenter.segment(text)
    except (_GaveUpError, ValueError):  # pysbd can mistake a separator for a digit of a list
        return False
    finally:
        if can_give_up:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
    return True


def load(source: str | None, text_column: str, documents: int, seed: int) -> list[str]:
    """The sample: texts in random order, or in the order of a stream's shuffle buffer."""
    if source is None:
        corpus = datasets.concatenate_datasets(list(load_package_documentation(seed=seed).values())).shuffle(seed=seed)
        return corpus["text"][:documents]
    stream = load_documents(source, streaming=True, test_size=0, seed=seed)["train"]
    return [row[text_column] for row in itertools.islice(stream, documents)]


def agreement(documents: list[list[str]], plain: Any, ours: Callable[[str], Any]) -> tuple[float, float, float]:
    """Precision, recall and F1 of our boundaries against plain pysbd's."""
    both = 0
    found = 0
    expected = 0
    for lines in documents:
        right = set(plain_boundaries(lines, plain))
        end = 0
        given = set()
        for sentence in ours("".join(lines)):
            end += len(sentence)
            given.add(end - len(sentence) + len(sentence.rstrip()))
        both += len(right & given)
        found += len(given)
        expected += len(right)
    return both / found, both / expected, 2 * both / (found + expected)


def plain_boundaries(lines: list[str], plain: Any) -> Iterator[int]:
    start = 0
    for line in lines:
        for span in plain.segment(line):
            if span.sent.strip():
                yield start + span.start + len(span.sent.rstrip())
        start += len(line)


def uncertain_share(documents: list[list[str]]) -> float:
    uncertain = 0
    total = 0
    for line in itertools.chain.from_iterable(documents):
        for text, is_sentence in cut_at_certain_boundaries(line):
            total += len(text)
            if not is_sentence:
                uncertain += len(text)
    return uncertain / total


def describe(documents: list[list[str]]) -> str:
    lines = list(itertools.chain.from_iterable(documents))
    return f"{len(documents)} documents, {len(lines):,} lines, {sum(map(len, lines)):,} characters"


def machine() -> str:
    return f"{processor()}, Python {platform.python_version()}, pysbd {version('pysbd')}"


if __name__ == "__main__":
    main()
