"""results.md: what was measured, in the papers' tables, with what it takes to repeat it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..protocols.decoupled import PAPER_K, PAPER_TEMPERATURE
from ..protocols.settings import EvaluationSettings
from .decoupled_tables import SHOWN_AS_ROWS, neighbors_sweep, nine_rows, retrieval_vectors
from .length_tables import SHOWN_IN_TITLES, length_tables, reading_table, with_gains
from .paper_results import (
    CITATION,
    DECOUPLED,
    FEW_SHOT,
    FULL,
    REDUNDANCY,
    RETRIEVAL_VECTORS,
    SENTENCE_SIMILARITY,
    PaperTable,
    paper_task,
)
from .summary import Cell, summarize_records
from .tables import MISSING, Spread, escape, table_by_system, table_by_task
from .task_table import task_table

CLASSIFICATION = ("accuracy", "macro_f1")
INTERVAL = (
    "± is half the 95 % confidence interval of the mean over the seeds (Student's t), on one and the same test set"
)
OVER_DOCUMENTS = "± is half the 95 % confidence interval over the documents (jackknife)"
DEVIATION = "± is the standard deviation over the repeats"
CHOICES = (
    f"k, T and lambda: calibrated on held-out examples; fixed, k = {PAPER_K}, T = {PAPER_TEMPERATURE:g} and lambda by "
    "the paper's table 3 or --knn_weight; or oracle, the lambda of the best result on the test set, as the paper chose "
    "it. In % of each task's metric."
)
SPREADS: dict[Spread, str] = {"std": DEVIATION, "interval": INTERVAL, "documents": OVER_DOCUMENTS}
WORD_COUNTS = "of word counts a linear support vector machine"


@dataclass(frozen=True)
class Section:
    """A part of the report, of the records of one protocol."""

    protocol: str
    title: str
    text: str  # what is measured; a setting in braces is put in
    metrics: tuple[str, ...]  # the columns, in order
    spread: Spread = "interval"  # what stands behind the ±
    paper: PaperTable | None = None  # what stands beside it
    by_system: bool = True  # systems are rows and tasks columns; otherwise there is a row per task and system
    plain_digits: int | None = None  # of numbers that are no percentages
    layout: Callable[[Sequence[Cell], Sequence[Cell], PaperTable | None], str] | None = None  # a table of its own


SECTIONS = (
    Section(
        "full",
        "Full classification",
        f"Frozen features, the whole training set, probe `{{probe}}` ({WORD_COUNTS}). Accuracy and macro F1 in %.",
        CLASSIFICATION,
        paper=FULL,
    ),
    Section(
        "few_shot",
        "Few-shot classification",
        f"Frozen features, {{shots}} examples per class, probe `{{probe}}` ({WORD_COUNTS}). "
        "Accuracy and macro F1 in %.",
        CLASSIFICATION,
        spread="std",
        paper=FEW_SHOT,
    ),
    Section(
        "knn",
        "Nearest neighbors",
        "Frozen features; the labels of the nearest training texts vote. Accuracy and macro F1 in %.",
        CLASSIFICATION,
    ),
    Section(
        "length",
        "Accuracy by length",
        "Test documents by their number of words, in brackets how many there are. Frozen features with a probe "
        f"(logistic regression; {WORD_COUNTS}) or nearest neighbors. Where documents have passages, the probe learns "
        "from their mean, and the passage of which it is surest decides; neighbors are near by their best matching "
        "passages, as in a datastore. Accuracy and macro F1 in %, what is gained against `first` in points. With all "
        "examples ± is half the 95 % confidence interval over the documents (jackknife).",
        (),
        layout=length_tables,
    ),
    Section(
        "length_read",
        "What is read",
        "Tokens that an encoder reads of a test document, special tokens included, and the share of the text that it "
        "reads, by the number of words. Word counts take no tokens.",
        (),
        layout=reading_table,
    ),
    Section(
        "decoupled",
        "Classification with neighbors: three systems by three ways to answer",
        "The encoder is fine-tuned with cross entropy (base), also with the triplet loss on the representation that is "
        "classified (TL), or on one of its own (TL + D). Each answers by its classifier, by its neighbors alone (KNN), "
        f"and by the two mixed. {CHOICES}",
        (),
        spread="std",
        paper=DECOUPLED,
        layout=nine_rows,
    ),
    Section(
        "retrieval_vectors",
        "Classification with neighbors: retrieval vectors",
        f"What neighbors are looked for with, of TL + D: the first token, the mean or the maximum of all. {CHOICES}",
        (),
        spread="std",
        paper=RETRIEVAL_VECTORS,
        layout=retrieval_vectors,
    ),
    Section(
        "neighbors_sweep",
        "Classification with neighbors: k and temperature",
        f"The neighbors of TL + D alone, on the test set: by k at T = {PAPER_TEMPERATURE:g}, by T at k = {PAPER_K}.",
        (),
        spread="std",
        layout=neighbors_sweep,
    ),
    Section(
        "citation",
        "Citation",
        "Whether one paper cites the other, from their two embeddings. Accuracy in %, of the head of the Long Range "
        "Arena trained on the pairs (not on word counts, which are too wide for it), and of a threshold on the cosine.",
        ("accuracy", "cosine_accuracy"),
        paper=CITATION,
    ),
    Section(
        "passage_citation",
        "Citation by passages",
        "The same from all passages of both papers. Accuracy in % of a threshold on: the cosine of their mean passages "
        "(average), the mean of the three most similar pairs of passages (best pairs), a soft maximum over all pairs; "
        "each also with passages less their common mean (centered); and on TF-IDF (words). Of words and the centered "
        "soft maximum together, a logistic regression on the training pairs.",
        ("average_accuracy", "best_pairs_accuracy", "soft_maximum_accuracy", "average_centered_accuracy")
        + ("best_pairs_centered_accuracy", "soft_maximum_centered_accuracy", "words_accuracy")
        + ("passages_and_words_accuracy",),
        by_system=False,
    ),
    Section(
        "half_documents",
        "Half-document retrieval",
        "Each text is split into two halves at random, sentence by sentence; given one, the other is looked for among "
        "all. In %.",
        ("recall@1", "recall@10", "mrr"),
        by_system=False,
    ),
    Section(
        "nouns_and_verbs",
        "Redundancy: nouns and verbs",
        "R, the number of nouns and verbs over that of distinct ones, by the number of words in a text. spaCy tells "
        "them apart by lemmas, as in the papers, NLTK by stems.",
        ("0-50", "51-100", "101-200", "201-300", "more than 300", "all"),
        spread="documents",
        paper=REDUNDANCY,
        by_system=False,
        plain_digits=2,
    ),
    Section(
        "redundancy",
        "Redundancy: sentences",
        "Mean cosine similarity of two sentences of one document (within) and of two documents (between).",
        ("within", "between"),
        spread="documents",
        paper=SENTENCE_SIMILARITY,
        by_system=False,
    ),
    Section(
        "attention",
        "Attention by part of speech",
        "Mean attention weight from the first token to a word, in the last layer.",
        ("noun", "verb", "adjective", "other"),
        spread="documents",
        by_system=False,
        plain_digits=5,
    ),
)


def results_markdown(
    records: Sequence[Mapping[str, Any]],
    runs: Sequence[Mapping[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    settings: EvaluationSettings,
    command: str,
    left_out: Sequence[str] = (),
    figures: Sequence[str] = (),
    preset: str = "",
) -> str:
    """The report of a run in Markdown, a function of what was measured: no clock, no machine.

    ``runs`` and ``tasks`` are those of the results file; ``command`` repeats the run; ``left_out`` says, line by line,
    what was asked for and not measured; ``figures`` are names of picture files beside the report; ``preset`` says which
    preset the run had.
    """
    if not records:
        raise ValueError("There are no records to report: was every protocol left out?")
    cells = summarize_records(with_gains(records))
    parts = ["# Evaluation", f"To repeat it:\n\n```bash\n{command}\n```", _ran_on(records, runs)]
    if preset:
        parts.append(preset)
    parts.append(task_table({record["task"]: record["task_fingerprint"] for record in records}, tasks))
    if left_out:
        parts.append("Left out:\n\n" + "\n".join(f"- {escape(line)}" for line in left_out))
    for section in SECTIONS:
        if chosen := _cells_of(section, cells, settings):
            parts.append(_section(section, chosen, cells))
        if section.protocol == "few_shot":
            parts += _curve([cell for cell in cells if cell.protocol == "few_shot"])
    if figures:
        parts.append("## Figures\n\n" + "\n\n".join(f"![{name}]({name})" for name in figures))
    return "\n\n".join(parts) + "\n"


def main_table(records: Sequence[Mapping[str, Any]], settings: EvaluationSettings) -> str:
    """The first table of the report, without the papers' rows, for the last screen of a run."""
    cells = summarize_records(with_gains(records))
    for section in SECTIONS:
        if chosen := _cells_of(section, cells, settings):
            return f"{section.title}\n\n{_table(section, chosen, cells, paper=None)}"
    return ""


def _cells_of(section: Section, cells: Sequence[Cell], settings: EvaluationSettings) -> list[Cell]:
    chosen = [cell for cell in cells if cell.protocol == section.protocol]
    if section.protocol == "few_shot":  # a curve has more shots than the table shows
        chosen = [cell for cell in chosen if cell.settings["shots"] == settings.shots_of(cell.task)]
    return chosen


def _section(section: Section, cells: Sequence[Cell], others: Sequence[Cell]) -> str:
    known = section.paper is not None and any(paper_task(cell.task) in section.paper.tasks for cell in cells)
    paper = section.paper if known else None
    settings = _settings_text(cells)
    if section.layout is not None:
        settings = {name: value for name, value in settings.items() if name not in (*SHOWN_AS_ROWS, *SHOWN_IN_TITLES)}
    repeats = max(len(cell.seeds) for cell in cells)
    spread = SPREADS[section.spread]
    means = f"Means of {repeats} repeats; {spread}." if repeats > 1 else "One repeat."
    if section.spread == "documents" and repeats == 1:
        means = f"{spread}."
    shown = ", ".join(f"{name} {value}" for name, value in settings.items()) or "none"
    parts = [
        f"## {section.title}",
        f"{section.text.format_map(settings)} {means}",
        f"Seeds: {_seeds(cells)}. Settings: {shown}.",
        _table(section, cells, others, paper),
    ]
    if paper is not None:
        parts.append(
            f"In italics the papers' own numbers ({paper.source}), on other sizes of data, splits and machines. "
            f"{paper.note}".strip()
        )
    return "\n\n".join(parts)


def _table(section: Section, cells: Sequence[Cell], others: Sequence[Cell], paper: PaperTable | None) -> str:
    if section.layout is not None:
        return section.layout(cells, others, paper)
    if section.by_system:
        return table_by_system(cells, section.metrics, section.spread, paper)
    return table_by_task(cells, section.metrics, section.spread, paper, section.plain_digits)


def _curve(cells: Sequence[Cell]) -> list[str]:
    """One table per task, with the numbers of shots in the place of tasks, so that a row is a curve."""
    if len({cell.settings["shots"] for cell in cells}) < 2:
        return []
    parts = ["## Few-shot classification by examples per class", f"Accuracy in %; {DEVIATION}."]
    for task in dict.fromkeys(cell.task for cell in cells):
        by_shots = sorted((cell for cell in cells if cell.task == task), key=lambda cell: cell.settings["shots"])
        columns = [dataclasses.replace(cell, task=f"{cell.settings['shots']} per class") for cell in by_shots]
        parts += [f"### {escape(task)}", table_by_system(columns, ["accuracy"], "std", titles={"accuracy": ""})]
    return parts


def _settings_text(cells: Sequence[Cell]) -> dict[str, str]:
    """For each setting its values, with the tasks that they belong to where they differ."""
    texts = {}
    for name in dict.fromkeys(name for cell in cells for name in cell.settings):
        tasks: dict[str, dict[str, None]] = {}  # by value; keys keep their order
        for cell in cells:
            tasks.setdefault(str(cell.settings.get(name, MISSING)), {})[escape(cell.task)] = None
        several = len(tasks) > 1
        texts[name] = ", ".join(f"{value} ({', '.join(of)})" if several else value for value, of in tasks.items())
    return texts


def _seeds(cells: Sequence[Cell]) -> str:
    seeds = sorted({seed for cell in cells for seed in cell.seeds})
    together = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if together else ", ".join(map(str, seeds))


def _ran_on(records: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> str:
    """A line for each kind of machine and versions among the runs that these records came from."""
    first_dates: dict[str, str] = {}
    for run in (runs[number] for number in sorted({record["run"] for record in records})):
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        first_dates.setdefault(f"{run['ran_on']}; {versions}", run["date"][:10])
    lines = "\n".join(f"- {what} ({date})" for what, date in first_dates.items())
    hours = sum(record["seconds"] for record in records) / 3600
    systems, tasks = (len({record[field] for record in records}) for field in ("system", "task"))
    head = f"{len(records):,} measurements of {systems} systems on {tasks} tasks, {hours:.2f} hours in all, on:"
    return f"{head}\n\n{lines}"
