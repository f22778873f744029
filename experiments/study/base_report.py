"""Records and tables of the study at the size of BERT base; the text between the tables is written by hand.

    python -m experiments.study.base_report --folder output/base_study --output docs/results/base_study

It adds the records of a finished or unfinished study to those in the output folder, and writes the tables into the page
beside it (docs/results/base_study.md), if there is one. Then ``python -m docs.figures`` writes the figures of the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from docsplit_hf.training.markdown import table
from experiments.study.base_evaluation import TEST, TUNING
from experiments.study.base_records import RECORDS, WORD_COUNTS, Record, read_records
from experiments.study.base_runs import FIRST_METHODS, OTHER_METHODS
from experiments.study.longer_report import ALL_SHOTS, difference, shown, together, verdict, write_lines
from experiments.study.study_report import fill
from experiments.study.study_runs import START, TASKS

SHOTS = 5
METHODS = (*FIRST_METHODS, *OTHER_METHODS)
CROPS = "cropping"
HALVES = "docsplit_without_mlm"
PARTS = "docsplit_sampled_parts"
SIMCSE = "simcse"
# Two methods each: the first should be better.
CLAIMS = {
    "crops over halves": (CROPS, HALVES),
    "halves over SimCSE": (HALVES, SIMCSE),
    "crops over SimCSE": (CROPS, SIMCSE),
    "three sampled parts over halves": (PARTS, HALVES),
    "three sampled parts over crops": (PARTS, CROPS),
    "halves over inverse cloze": (HALVES, "inverse_cloze"),
    "SimCSE over SimCSE_long": (SIMCSE, "simcse_long"),
    "halves with MLM over halves without": ("docsplit", HALVES),
    "halves over MLM alone": (HALVES, "mlm"),
}
ORDER = ("crops over halves", "halves over SimCSE")
KEY = ("start", "max_length", "method", "batch", "rate", "seed")  # of a record


def comparable_records(path: Path) -> list[Record]:
    """The records of a file, of one start and one length.

    Raises:
        ValueError: If there are several starts or lengths, whose scores cannot be compared.
    """
    records = read_records(path)
    kinds = {(record["start"], record["max_length"]) for record in records}
    if len(kinds) > 1:
        raise ValueError(f"{path} has records of several starts or lengths, {sorted(kinds)}: keep those of one.")
    return records


def draws(record: Record, shots: int = SHOTS, tasks: Sequence[str] = tuple(TASKS), split: str = TEST) -> np.ndarray:
    """Macro F1 in %, mean over the tasks, by draw; of the tasks that were measured with this number of shots."""
    found = [
        score["macro_f1"]
        for score in record["scores"]
        if score["split"] == split and score["shots"] == shots and score["task"] in tasks
    ]
    return np.mean(found, axis=0)


def batches_of(records: Sequence[Record]) -> list[int]:
    """The sizes of the batches, ascending."""
    return sorted({record["batch"] for record in records if record["steps"]})


def by_rate(records: Sequence[Record], method: str, batch: int) -> dict[float, dict[int, Record]]:
    """The records of a method, by learning rate and seed."""
    found: dict[float, dict[int, Record]] = {}
    for record in records:
        if (record["method"], record["batch"]) == (method, batch):
            found.setdefault(record["rate"], {})[record["seed"]] = record
    return dict(sorted(found.items()))


def tuning_scores(records: Sequence[Record], method: str, batch: int) -> dict[float, float]:
    """Macro F1 on the rows held out of the training sets, by rate: mean over the seeds that all rates have."""
    rates = by_rate(records, method, batch)
    seeds = set.intersection(*(set(by_seed) for by_seed in rates.values())) if rates else set()
    return {
        rate: float(np.mean([draws(by_seed[seed], split=TUNING) for seed in seeds]))
        for rate, by_seed in rates.items()
        if seeds
    }


def chosen(records: Sequence[Record], method: str, batch: int) -> dict[int, Record]:
    """The records of a method at its best rate on the held-out rows, by seed; none if there are none."""
    scores = tuning_scores(records, method, batch)
    return by_rate(records, method, batch)[max(scores, key=scores.get)] if scores else {}


def level(found: Mapping[int, Record], shots: int = SHOTS, tasks: Sequence[str] = tuple(TASKS)) -> float:
    """Macro F1 in %, mean over seeds, tasks and draws."""
    return float(np.mean([draws(record, shots, tasks) for record in found.values()]))


def gains(records: Sequence[Record], pair: tuple[str, str], batch: int) -> dict[int, np.ndarray]:
    """By how many points the first method is better, by draw, for each seed that both have."""
    first = chosen(records, pair[0], batch)
    second = chosen(records, pair[1], batch)
    return {seed: draws(first[seed]) - draws(second[seed]) for seed in sorted(first) if seed in second}


def untrained(records: Sequence[Record], method: str) -> dict[int, Record]:
    """The record of the start or of word counts."""
    return {0: next(record for record in records if record["method"] == method)}


def methods_table(records: Sequence[Record]) -> str:
    """The methods at their best rates, best first, for each batch; the start and word counts before them."""
    rows = [(name, "–", "–", "–", *_scores(untrained(records, name)), "–", "–") for name in (WORD_COUNTS, START)]
    for batch in batches_of(records):
        of_batch = {method: chosen(records, method, batch) for method in METHODS}
        of_batch = {method: found for method, found in of_batch.items() if found}
        for method in sorted(of_batch, key=lambda method: -level(of_batch[method])):
            found = of_batch[method]
            one = next(iter(found.values()))
            million = f"{one['tokens'] / 1e6:.1f}"
            minutes = f"{np.mean([record['seconds'] for record in found.values()]) / 60:.1f}"
            rows.append((method, str(batch), f"{one['rate']:g}", str(len(found)), *_scores(found), million, minutes))
    header = ("method", "batch", "learning rate", "seeds", *TASKS, "mean", "± draws", "million tokens", "minutes")
    return table(header, rows)


def _scores(found: Mapping[int, Record]) -> tuple[str, ...]:
    """Few-shot macro F1 on each task, the mean, and the standard deviation over draws."""
    of_tasks = (f"{level(found, tasks=(task,)):.1f}" for task in TASKS)
    over_draws = np.mean([draws(record) for record in found.values()], axis=0)
    return (*of_tasks, f"{over_draws.mean():.1f}", f"{over_draws.std(ddof=1):.1f}")


def rates_table(records: Sequence[Record]) -> str:
    """Macro F1 on the held-out rows by learning rate; the best one of each method is bold."""
    rows = []
    for batch in batches_of(records):
        for method in METHODS:
            scores = tuning_scores(records, method, batch)
            best = max(scores.values(), default=0.0)
            cells = []
            for rate, score in scores.items():
                shown_score = f"**{score:.1f}**" if score == best else f"{score:.1f}"
                cells.append(f"{rate:g}: {shown_score}")
            if cells:
                rows.append((method, str(batch), ", ".join(cells)))
    return table(("method", "batch", "macro F1 by learning rate"), rows)


def verdicts_table(records: Sequence[Record]) -> str:
    """The differences behind each claim, with paired 95 % intervals over the draws: by seed, and over the seeds."""
    rows = []
    for claim, pair in CLAIMS.items():
        for batch in batches_of(records):
            by_seed = gains(records, pair, batch)
            if by_seed:
                seeds = ", ".join(f"{seed}: {shown(difference({seed: by_seed[seed]}))}" for seed in by_seed)
                found = difference(by_seed)
                rows.append((claim, str(batch), seeds, shown(found), verdict(found)))
    return table(("claim", "batch", "by seed", "mean of the seeds", "verdict"), rows)


def order_verdict(records: Sequence[Record], batch: int) -> str:
    """Whether "crops before halves before SimCSE" holds: both differences have to be above zero."""
    differences = [gains(records, CLAIMS[claim], batch) for claim in ORDER]
    if not all(differences):
        return "cannot be told"
    verdicts = [verdict(difference(by_seed)) for by_seed in differences]
    for worst in ("does not hold", "cannot be told"):
        if worst in verdicts:
            return worst
    return "holds"


def shots_table(records: Sequence[Record]) -> str:
    """Macro F1 by the number of examples of each class, on the tasks with enough examples for all numbers."""
    numbers = sorted({score["shots"] for record in records for score in record["scores"] if score["split"] == TEST})
    rows = []
    for name in (WORD_COUNTS, START):
        rows.append((name, "–", *_by_shots(untrained(records, name), numbers)))
    for batch in batches_of(records):
        for method in METHODS:
            found = chosen(records, method, batch)
            if found:
                rows.append((method, str(batch), *_by_shots(found, numbers)))
    return table(("method", "batch", *(f"{number} shots" for number in numbers)), rows)


def _by_shots(found: Mapping[int, Record], numbers: Sequence[int]) -> list[str]:
    return [f"{level(found, number, ALL_SHOTS):.1f}" for number in numbers]


def all_tables(records: Sequence[Record]) -> dict[str, str]:
    """The tables of the page by their names."""
    return {
        "methods": methods_table(records),
        "verdicts": verdicts_table(records),
        "shots": shots_table(records),
        "rates": rates_table(records),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("output/base_study"), help="Default: %(default)s.")
    parser.add_argument("--output", type=Path, default=Path("docs/results/base_study"), help="Default: %(default)s.")
    options = parser.parse_args(arguments)
    kept = options.output / RECORDS
    write_lines(kept, together(read_records(kept), read_records(options.folder / RECORDS), *KEY))
    records = comparable_records(kept)
    if not records:
        raise ValueError(f"{options.folder} has no records: run experiments.study.base_study first.")
    tables = all_tables(records)
    for name, content in tables.items():
        print(f"{name}\n{content}\n")
    for batch in batches_of(records):
        print(f"Crops before halves before SimCSE, batches of {batch}: {order_verdict(records, batch)}")
    page = options.output.with_suffix(".md")
    if page.exists():
        fill(page, tables)


if __name__ == "__main__":
    main()
