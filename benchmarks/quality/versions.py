"""Macro F1 where versions of one text have different labels, with versions held out together and by single texts.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.versions --data DATA --sets SETS
    python -m benchmarks.quality.versions --data DATA --dry_run    # tiny
    OMP_NUM_THREADS=1 python -m benchmarks.quality.versions --sets SETS --fractions    # version_limit.jsonl

DATA has the folders bbc_news and contracts_lexpredict, and those of --ordinary, with train.jsonl and test.jsonl.

- drafts: each article of BBC News three times: as it is; with its sentences in another order and a third of the words
  left out; and with words replaced by others of the same meaning. The label is the kind of draft.
- amendments: contracts on employment, and each with a third of its sentences replaced by some of credit agreements.
  The label is whether it is amended.
- ordinary data sets, which show what versions held out together change where labels are topics.
- data sets of benchmarks.quality.sets, in the folder --sets, most of whose texts are versions of others: there
  documents are left out unless they clearly help. "ours_with_documents" is without this rule.

Test texts are made from other articles and contracts. Records are lines of versions.jsonl in --output; finished ones
are kept.

With --fractions: pools of 400 texts, in which some texts keep all versions, and of the others one version is left. Each
is answered twice: as if its versions misled, and as if they did not. Ordinary data sets have their first 400 texts.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, NotRequired, TypedDict
from unittest import mock

import numpy as np

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels import protocol
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.options import encoder_name
from benchmarks.quality.few_labels.protocol import FewLabels, draw, load_few_labels, rest, scores
from benchmarks.quality.few_labels.records import KEY, add_record, read_records
from benchmarks.quality.few_labels.systems import probe, tfidf
from benchmarks.quality.learned_prior.collect import first_rows, shorten
from docsplit_hf.fitting.ensemble import preparing
from docsplit_hf.fitting.ensemble import report as fit_report
from docsplit_hf.reading import versions
from docsplit_hf.reading.tables import read_json_rows
from docsplit_hf.reading.versions import VersionPairs
from docsplit_hf.training.markdown import table

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "few_labels"
ORDINARY = ("20news", "bbc_news", "arxiv_abstracts", "fakenews_small")
GROUPED = "ours"
SINGLE = "ours_by_single_texts"
WITH_DOCUMENTS = "ours_with_documents"
SYSTEMS = (GROUPED, SINGLE, WITH_DOCUMENTS, "probe", "tfidf")
MOSTLY_VERSIONS = (
    "aan_pairs",
    "bibles",
    "clue_csl",
    "clue_wsc",
    "edited_inference",
    "edited_reviews",
    "onestop_english",
    "protein_relations",
    "warrants",
    "wiki_neutrality",
)
ALL = 10**9  # labels of each class
MAX_WORDS = 200  # of a text
DROPPED = 1 / 3  # of the words of a shortened draft
REPLACED = 1 / 3  # of the sentences of an amended contract
SENTENCE_END = re.compile(r"(?<=[.;!?])\s+")
SYNONYMS = {
    "said": "stated", "says": "states", "people": "individuals", "big": "large", "new": "recent", "many": "numerous",
    "company": "firm", "also": "additionally", "but": "however", "show": "demonstrate", "made": "produced",
    "after": "following", "before": "prior to", "because": "since", "about": "regarding", "start": "begin",
    "end": "finish", "get": "obtain", "got": "obtained", "help": "assist", "need": "require", "use": "employ",
    "used": "employed", "think": "believe", "told": "informed", "win": "victory", "won": "prevailed", "game": "match",
    "film": "movie", "year": "twelve months", "last": "previous", "first": "initial", "more": "additional",
    "may": "might", "can": "is able to", "would": "might well", "government": "administration", "good": "favorable",
    "world": "globe", "time": "moment",
}  # fmt: skip


class Sizes(NamedTuple):
    """Sizes of a run."""

    pool: int  # articles or contracts to draw examples from
    test: int  # other ones
    ordinary_pool: int
    ordinary_test: int
    fewest: int  # documents of a class of an ordinary data set
    draws: int
    per_label: Sequence[int]
    ordinary_per_label: Sequence[int]
    set_per_label: Sequence[int]


FULL = Sizes(110, 100, 700, 400, 8, 3, (5, 20, ALL), (5, 20), (1, 5, 20))
TINY = Sizes(8, 4, 60, 20, 2, 1, (ALL,), (2,), (2,))
SET_POOL = 2_400  # at most; the whole set, so that versions stay together
SET_TEST = 400
# With --fractions.
AS_VERSIONS = "as versions"
AS_ELSEWHERE = "as elsewhere"
LIMITS = {AS_VERSIONS: 0.0, AS_ELSEWHERE: 2.0}  # of the fraction of versions
THINNED = ("asset", "detoxified", "detoxified_russian", "shakespeare")
KEPT_WHOLE = ("glue_cola", "mpqa", "sick", "symptoms", "thucnews_titles")
FRACTIONS = (0.15, 0.25, 0.35, 0.45, 0.6)
# Fraction of the versions of a set that are found; elsewhere nearly 1.
FOUND = {"detoxified": 0.935, "detoxified_russian": 0.92, "shakespeare": 0.51}
THINNED_ROWS = 800  # first rows of a set
THINNED_POOL = 400
THINNED_TEST = 300
THINNED_DRAWS = {5: 3, 20: 2}
LEAST_COMMON = 0.5  # of the words of the shorter of two texts: certainly versions
BOUNDS = (0.0, 0.2, 0.3, 0.4, 0.5, 1.0)  # of the fractions that are shown together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, help="A folder with the folders of the data sets.")
    add("--ordinary", nargs="*", default=ORDINARY, help="Ordinary data sets. Default: %(default)s.")
    add("--sets", type=Path, help="A folder with the folders of data sets most of whose texts are versions.")
    add("--encoder", default=default_model(), help="Any encoder. Default: the installed all-MiniLM-L6-v2.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RESULTS, help="Folder for the records. Default: %(default)s.")
    add("--fractions", action="store_true", help="Measure pools with fewer versions instead; needs --sets alone.")
    add("--dry_run", action="store_true", help="Tiny sizes.")
    options = parser.parse_args()
    if options.fractions:
        measure_fractions(options)
        return
    if options.data is None:
        parser.error("Give --data, the folder of the data sets, or --fractions.")
    sizes = TINY if options.dry_run else FULL
    for task in (
        drafts(options.data / "bbc_news", sizes),
        amendments(options.data / "contracts_lexpredict", sizes),
    ):
        measure(task, SYSTEMS, sizes.per_label, sizes.draws, options)
    for name in options.ordinary:
        task = load_few_labels(options.data / name, sizes.ordinary_pool, sizes.ordinary_test, sizes.fewest)
        measure(task, (GROUPED, SINGLE), sizes.ordinary_per_label, sizes.draws, options)
    if options.sets is not None:
        for name in MOSTLY_VERSIONS:
            task = load_few_labels(options.sets / name, SET_POOL, SET_TEST, sizes.fewest)
            measure(task, (GROUPED, WITH_DOCUMENTS, "probe", "tfidf"), sizes.set_per_label, sizes.draws, options)
    report(options.output / "versions.jsonl")


def drafts(folder: Path, sizes: Sizes) -> FewLabels:
    """Each article as three drafts."""
    rng = np.random.default_rng(0)
    articles = [first_words(row["text"]) for row in train_rows(folder)]
    articles = list(dict.fromkeys(articles))
    chosen = [articles[i] for i in rng.permutation(len(articles))[: sizes.pool + sizes.test]]
    kinds = {"as published": lambda text: text, "shortened": lambda text: shortened(text, rng), "reworded": reworded}
    return versions_task("drafts", kinds, chosen[: sizes.pool], chosen[sizes.pool :])


def amendments(folder: Path, sizes: Sizes) -> FewLabels:
    """Each contract on employment as it is, and amended."""
    rng = np.random.default_rng(0)
    rows = train_rows(folder)
    about = ("employment agreement", "severance agreement")
    contracts = list(dict.fromkeys(first_words(row["text"]) for row in rows if row["label"] in about))
    chosen = [contracts[i] for i in rng.permutation(len(contracts))[: sizes.pool + sizes.test]]
    clauses = [
        clause for row in rows if row["label"] == "credit agreement" for clause in sentences(row["text"])[10:200]
    ]

    def amended(text: str) -> str:
        own = sentences(text)
        replaced = rng.permutation(len(own))[: max(round(REPLACED * len(own)), 1)]
        for place in replaced.tolist():
            own[place] = clauses[rng.integers(len(clauses))]
        return " ".join(own)

    kinds = {"original": lambda text: text, "amended": amended}
    return versions_task("amendments", kinds, chosen[: sizes.pool], chosen[sizes.pool :])


def versions_task(
    name: str, kinds: dict[str, Callable[[str], str]], pool: Sequence[str], test: Sequence[str]
) -> FewLabels:
    """A task whose label is the kind of version."""
    names = list(kinds)
    return FewLabels(
        name=name,
        names=names,
        descriptions=names,
        pool=[make(text) for text in pool for make in kinds.values()],
        pool_labels=np.tile(np.arange(len(names)), len(pool)),
        test=[make(text) for text in test for make in kinds.values()],
        test_labels=np.tile(np.arange(len(names)), len(test)),
    )


def train_rows(folder: Path) -> list[dict[str, str]]:
    return list(read_json_rows(next(folder.glob("train.jsonl*"))))


def first_words(text: str) -> str:
    return " ".join(text.split()[:MAX_WORDS])


def sentences(text: str) -> list[str]:
    return [" ".join(sentence.split()) for sentence in SENTENCE_END.split(text) if len(sentence.split()) > 3]


def shortened(text: str, rng: np.random.Generator) -> str:
    """The sentences in another order, without a third of the words."""
    own = sentences(text)
    words = " ".join(own[i] for i in rng.permutation(len(own))).split()
    return " ".join(word for word in words if rng.random() >= DROPPED)


def reworded(text: str) -> str:
    """Words replaced by others of the same meaning."""
    return re.sub(r"\w+", lambda word: SYNONYMS.get(word.group().lower(), word.group()), text)


def measure(
    task: FewLabels, systems: Sequence[str], per_label: Sequence[int], draws: int, options: argparse.Namespace
) -> None:
    """Measure systems on a task, and add their records."""
    path = options.output / "versions.jsonl"
    known = {tuple(record[name] for name in KEY) for record in read_records(path)}
    embedder = Embedder(options.encoder, task, options.embeddings, long_documents="first")
    for count in per_label:
        for number in range(1 if count == ALL else draws):
            rows = draw(task.pool_labels, count, number)
            for system in systems:
                values = (task.name, system, encoder_name(options.encoder), "all" if count == ALL else count, number)
                key = dict(zip(KEY, values, strict=True))
                if tuple(key.values()) not in known:
                    add_record(path, key | {"examples": len(rows)} | answer(system, task, rows, embedder, number))


class Measured(TypedDict):
    """What is measured of a system on a draw."""

    macro_f1: float
    accuracy: float
    log_loss: float
    expected_calibration_error: float
    accuracy_on_folds: NotRequired[float | None]  # as the report of fit() gives it
    versions: NotRequired[int]  # examples that are versions of another
    version_fraction: NotRequired[float]
    fit_cpu_seconds: NotRequired[float]


def answer(system: str, task: FewLabels, rows: np.ndarray, embedder: Embedder, number: int) -> Measured:
    """Fit a system on the examples at ``rows``, and measure its answers to the test texts."""
    seed = number + 1  # with 0, the systems also measure their speed
    if system == "probe":
        return scores(probe(task, rows, embedder, seed).probabilities, task.test_labels)
    if system == "tfidf":
        return scores(tfidf(task, rows, embedder, seed).probabilities, task.test_labels)
    pipe = embedder.pipeline()
    others = rest(len(task.pool), rows)
    change = {
        SINGLE: by_single_texts,
        WITH_DOCUMENTS: with_documents,
        AS_VERSIONS: partial(with_limit, LIMITS[AS_VERSIONS]),
        AS_ELSEWHERE: partial(with_limit, LIMITS[AS_ELSEWHERE]),
    }.get(system, nullcontext)
    with embedder.remembered(), change():
        pipe.add_examples([task.pool[row] for row in rows], [task.names[i] for i in task.pool_labels[rows]])
        if len(others):
            pipe.add_documents([task.pool[row] for row in others])
        start = process_time()
        found = pipe.fit()
        seconds = process_time() - start
        answers = pipe(task.test, top_k=None)
    by_label = [{one["label"]: one["score"] for one in given} for given in answers]
    probabilities = np.array([[given[name] for name in task.names] for given in by_label])
    accuracy = found.ensemble_accuracy()
    return scores(probabilities, task.test_labels) | {
        "accuracy_on_folds": None if accuracy is None else accuracy.accuracy,
        "versions": found.versions,
        "version_fraction": found.version_fraction,
        "fit_cpu_seconds": seconds,
    }


@contextmanager
def by_single_texts() -> Iterator[None]:
    """Find no versions, so that each text is held out alone, with its copies."""
    nothing = VersionPairs(rows=np.zeros((0, 2), np.int64), share=np.zeros(0))
    with mock.patch.object(versions, "version_pairs", lambda texts: nothing):
        yield


@contextmanager
def with_documents() -> Iterator[None]:
    """Treat no texts as mostly versions."""
    with mock.patch.object(preparing, "fraction_of_versions", lambda corpus: 0.0):
        yield


@contextmanager
def with_limit(fraction: float) -> Iterator[None]:
    """Treat versions as misleading from this fraction of all texts on."""
    with mock.patch.object(fit_report, "MANY_VERSIONS", fraction):
        yield


def measure_fractions(options: argparse.Namespace) -> None:
    """Add the records of pools with fewer versions, and of ordinary data sets, and print what the rule gains."""
    path = options.output / "version_limit.jsonl"
    known = {_key_of_fraction(record) for record in read_records(path)}
    for name in (*THINNED, *KEPT_WHOLE):
        is_thinned = name in THINNED
        rows = THINNED_ROWS if is_thinned else THINNED_POOL
        with mock.patch.object(protocol, "_sample", first_rows):
            task = load_few_labels(options.sets / name, rows, THINNED_TEST)
        if not is_thinned:
            task = shorten(task, THINNED_POOL, THINNED_TEST)
        embedder = Embedder(options.encoder, task, options.embeddings, precision="int8")
        for fraction, (per_label, draws) in product(FRACTIONS if is_thinned else [None], THINNED_DRAWS.items()):
            for number in range(draws):
                pool = thinned(task, fraction, number) if is_thinned else task
                examples = draw(pool.pool_labels, per_label, number)
                for system in LIMITS:
                    key = {"task": name, "system": system, "aim": fraction, "per_label": per_label, "draw": number}
                    if _key_of_fraction(key) not in known:
                        add_record(path, key | answer(system, pool, examples, embedder, number))
    print(table(("fraction", "labels", "cells", *LIMITS, "gain"), by_fraction(read_records(path))))


def _key_of_fraction(record: dict[str, Any]) -> tuple[object, ...]:
    return tuple(record[name] for name in ("task", "system", "aim", "per_label", "draw"))


def thinned(task: FewLabels, fraction: float, number: int) -> FewLabels:
    """A pool in which about this fraction of texts are found to be versions; of other texts one version is left."""
    rng = np.random.default_rng(number)
    groups = groups_in_order(task)
    wanted = min(1.0, fraction / FOUND.get(task.name, 1.0)) * THINNED_POOL
    kept: list[int] = []
    versions = 0
    for group in rng.permutation(groups.max() + 1):
        own = np.flatnonzero(groups == group)
        if len(own) > 1 and versions + len(own) <= wanted + 1:
            versions += len(own)
        else:
            own = rng.choice(own, 1)
        kept.extend(own)
        if len(kept) >= THINNED_POOL:
            break
    rows = np.sort(kept)
    return replace(task, pool=[task.pool[row] for row in rows], pool_labels=task.pool_labels[rows])


def groups_in_order(task: FewLabels) -> np.ndarray:
    """Number the texts of a pool, in which two versions of a text follow one another, by the text."""
    words = [set(text.lower().split()) for text in task.pool] + [set(), set()]
    numbers = np.arange(len(task.pool))
    row = 0
    while row + 1 < len(numbers):
        share = _common(words[row], words[row + 1])
        is_nearest = share >= _common(words[row + 1], words[row + 2]) or share >= LEAST_COMMON
        is_pair = is_nearest and task.pool_labels[row] != task.pool_labels[row + 1]
        if is_pair:
            numbers[row + 1] = row
        row += 1 + is_pair
    return np.unique(numbers, return_inverse=True)[1]


def _common(first: set[str], second: set[str]) -> float:
    """Fraction of the words of the shorter of two texts that both have."""
    return len(first & second) / max(min(len(first), len(second)), 1)


def by_fraction(records: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Rows of versions by their fraction, then of ordinary sets: macro F1, and the gain with its 95 % interval."""
    cells: dict[tuple[object, ...], dict[str, dict[str, Any]]] = {}
    for record in records:
        cells.setdefault(_key_of_fraction(record | {"system": ""}), {})[record["system"]] = record
    groups: dict[tuple[str, int], list[dict[str, dict[str, Any]]]] = {}
    for cell in cells.values():
        first = cell[AS_ELSEWHERE]
        name = "ordinary"
        if first["task"] in THINNED:
            place = int(np.searchsorted(BOUNDS, first["version_fraction"], side="right"))
            name = f"{BOUNDS[place - 1]:g} to {BOUNDS[min(place, len(BOUNDS) - 1)]:g}"
        groups.setdefault((name, first["per_label"]), []).append(cell)
    rows = []
    for (name, per_label), own in sorted(groups.items(), key=lambda item: (item[0][1], item[0][0])):
        gains = [100 * (cell[AS_VERSIONS]["macro_f1"] - cell[AS_ELSEWHERE]["macro_f1"]) for cell in own]
        half = 1.96 * np.std(gains, ddof=1) / np.sqrt(len(gains))
        means = [f"{100 * np.mean([cell[system]['macro_f1'] for cell in own]):.1f}" for system in LIMITS]
        rows.append((name, str(per_label), str(len(own)), *means, f"{np.mean(gains):+.1f} ± {half:.1f}"))
    return rows


def report(path: Path) -> None:
    """Print the means over the draws."""
    records = read_records(path)
    lines = []
    for task, count in dict.fromkeys((record["task"], record["per_label"]) for record in records):
        row = [task, str(count)]
        for system in SYSTEMS:
            own = [
                record
                for record in records
                if (record["task"], record["per_label"], record["system"]) == (task, count, system)
            ]
            row.append(f"{100 * np.mean([record['macro_f1'] for record in own]):.1f}" if own else "")
        lines.append(row)
    print(table(("task", "labels of each class", *SYSTEMS), lines))


if __name__ == "__main__":
    main()
