"""Rejection, unknown classes, suggestions and drift: docs/results/reliability.md and docs/reliability.md."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom, binomtest

from docsplit_hf.fitting.rejection import min_held_out_texts

from .pages import Figure, Figures, Row
from .records import RESULTS, Records, chosen, content

NAMES = {"bbc_news": "BBC", "20news": "20News, split by date", "arxiv_abstracts": "arXiv", "fakenews_small": "FakeNews"}
NOVELTY_NAMES = {**NAMES, "20news": "20News, by date"}
NOVELTY_ROWS = (
    ("20news", 0, "all"),
    ("20news", 0, "known"),
    ("20news", 20, "all"),
    ("20news", 20, "known"),
    ("bbc_news", 0, "all"),
    ("bbc_news", 20, "all"),
    ("arxiv_abstracts", 0, "all"),
    ("fakenews_small", 0, "all"),
)
MINILM = "all-MiniLM-L6-v2"
SHIPPED = "docsplit-small-en"
SUGGESTION_ROWS = {
    "20news": "20News, 220",
    "bbc_news": "BBC, 85",
    "arxiv_abstracts": "arXiv, 211",
    "fakenews_small": "FakeNews, 83",
}


def reliability() -> Figures:
    rows = rejection_records()
    news = chosen(rows, kind="promises", task="20news", per_label=0, mixed=False, held_out=0)
    return {
        "rejection": rejection(),
        **label_sets(),
        **label_trees(),
        "20News, right in folds": 100 * np.mean([row["accuracy_in_folds"] for row in news]),
        "20News, right": 100 * np.mean([row["accuracy"] for row in news]),
        "novelty": [novelty(*row) for row in NOVELTY_ROWS],
        **unequal(),
        **foreign_texts(),
        "suggestions": suggestions(),
        "suggestions, half way": spaced(suggested("20news", "suggest")[3]),
        "watching": [row[1:] for row in report_rows("watching")],
    }


def reliability_guide() -> Figures:
    """Return the figures that docs/reliability.md repeats."""

    def answered(encoder: str, documents: str, limit: str, name: str) -> list[float]:
        rows = chosen(foreign_records(), encoder=encoder, documents=documents)
        return [100 * row["answered"][f"0.05 {limit}"][name] for row in rows]

    figures: dict[str, Figure] = {}
    for name, shares in (
        ("other intents", answered(MINILM, "none", "off", "foreign")),
        ("out of scope", answered(MINILM, "none", "off", "out_of_scope")),
        ("unknown intents with documents", answered(MINILM, "all", "as fitted", "foreign")),
    ):
        figures[name] = np.mean(shares)
        figures[f"{name}, least"] = min(shares)
        figures[f"{name}, most"] = max(shares)
    figures["out of scope with documents"] = np.mean(answered(MINILM, "all", "as fitted", "out_of_scope"))
    figures["known lost"] = np.mean(answered(MINILM, "all", "as fitted", "lost"))
    figures["unknown intents, shipped encoder"] = np.mean(answered(SHIPPED, "all", "as fitted", "foreign"))
    figures["out of scope, shipped encoder"] = np.mean(answered(SHIPPED, "all", "as fitted", "out_of_scope"))
    cells = label_set_cells("label_sets")
    for name in ("cells", "kept", "kept but for chance"):
        figures[f"label sets, {name}"] = label_set_summary(cells)[name]
    figures |= label_trees_summary()
    for level in (0.9, 0.95):
        figures[f"held-out texts for {level}"] = min_held_out_texts(1 - level)
    for examples in (25, 100, 500):
        figures[f"smallest error, {examples} examples"] = 100 * (1 - 0.1 ** (1 / examples))
    return figures


# Rejection


def rejection_records() -> Records:
    return content("reliability/rejection.jsonl")


def rejection() -> list[Row]:
    rows = []
    for task, name in NAMES.items():
        for per_label in (20, 0):
            rows.append(kept(name, task=task, per_label=per_label, mixed=False, held_out=0))
        if task == "20news":
            later = "the same, fitted on 500 texts of the later time"
            rows.append(kept(later, task=task, per_label=0, mixed=False, held_out=500))
            for per_label in (20, 0):
                at_random = "20News, split at random"
                rows.append(kept(at_random, task=task, per_label=per_label, mixed=True, held_out=0))
    return rows


def kept(name: str, **fields: Any) -> Row:
    """Return what is answered and wrong at each error rate, and in how many draws the error rate is kept.

    A cell is bold where the error rate is below the binomial interval of some draw.
    """
    group = chosen(rejection_records(), kind="promises", **fields)
    texts = sum(row["texts"] for row in group)
    cells = []
    below = 0
    within = 0
    for error in (0.01, 0.05, 0.1):
        found = [row["promises"][str(error)] for row in group]
        answers = sum(one["answers"] for one in found)
        wrong = sum(one["wrong"] for one in found)
        tests = [binomtest(one["wrong"], one["answers"], error) for one in found if one["answers"]]
        unanswered = len(found) - len(tests)
        within_here = sum(test.proportion_ci(0.95).low <= error for test in tests) + unanswered
        below += sum(test.statistic <= error for test in tests) + unanswered
        within += within_here
        share = f"{100 * answers / texts:.0f} %"
        text = f"{share}, {100 * wrong / answers:.1f} %" if answers else share
        cells.append(f"**{text}**" if within_here < len(found) else text)
    count = 3 * len(group)
    text = f"{below} of {count}" + (f", within the interval {within} of {count}" if below < count else "")
    return (name, str(fields["per_label"] or "all"), *cells, text)


def novelty(task: str, per_label: int, documents: str) -> Row:
    """Return the area under the ROC curve of each score, the best one in bold."""
    rows = rejection_records()
    group = chosen(rows, kind="novelty", task=task, per_label=per_label, documents=documents, mixed=False)
    values = {name: np.array([row[name] for row in group]) for name in ("novelty", "max_probability", "mahalanobis")}
    best = max(values, key=lambda name: values[name].mean())
    cells = []
    for name, found in values.items():
        text = f"{found.mean():.3f} ± {1.96 * found.std(ddof=1) / np.sqrt(len(found)):.3f}"
        cells.append(f"**{text}**" if name == best else text)
    return (NOVELTY_NAMES[task], str(per_label or "all"), f"{documents} classes", *cells)


def unequal() -> dict[str, Figure]:
    """Return the figures of Debian's packages, with balanced labels of unequal classes."""
    rows = content("reliability/unequal/rejection.jsonl")
    found = 100 * np.mean([row["accuracy"] for row in rows])
    measured = 100 * np.mean([row["measured"] for row in rows])
    in_folds = 100 * np.mean([row["accuracy_in_folds"] for row in rows])
    figures: dict[str, Figure] = {
        "accuracy": found,
        "measured": measured,
        "measured, more": measured - found,
        "in folds": in_folds,
        "in folds, more": in_folds - found,
        "in the interval": sum(row["interval"][0] <= row["accuracy"] <= row["interval"][1] for row in rows),
        "equal proportions off": 100 * np.mean([row["equal_off"] for row in rows]),
        "estimated proportions off": 100 * np.mean([row["proportions_off"] for row in rows]),
    }
    for error in ("0.05", "0.1"):
        answers = np.array([row["promises"][error]["answers"] for row in rows])
        wrong = np.array([row["promises"][error]["wrong"] for row in rows])
        figures[f"answered at {error}"] = 100 * answers.sum() / sum(row["texts"] for row in rows)
        if error == "0.1":
            figures["wrong at 0.1"] = 100 * wrong.sum() / answers.sum()
        figures[f"kept at {error}"] = int(sum(wrong <= float(error) * answers))
    return figures


# Sets of labels


class LabelSetCell(NamedTuple):
    """What sets of labels hold, in the mean of the draws, for one task, number of examples, level and rule."""

    task: str
    classes: int
    per_label: int
    level: float
    rule: str
    coverage: float
    expected_at_least: float  # the coverage that is lower by chance in one of twenty test sets
    labels: float  # in a set
    single: float  # share of the sets with one label
    is_trivial: bool  # whether all sets have all labels

    @property
    def is_kept(self) -> bool:
        return self.coverage >= self.level


def label_set_cells(name: str) -> list[LabelSetCell]:
    """Return a cell for each task, number of examples, level and rule."""
    records = content(f"reliability/{name}.jsonl")
    cells = []
    for task, per_label in dict.fromkeys((record["task"], record["per_label"]) for record in records):
        draws = chosen(records, task=task, per_label=per_label)
        texts = draws[0]["texts"]
        classes = draws[0]["classes"]
        for level in (0.9, 0.95):
            of_level = [record["levels"][str(level)] for record in draws]
            for rule in of_level[0]:
                found = [outcomes[rule] for outcomes in of_level]
                labels = float(np.mean([outcome["labels"] for outcome in found])) / texts
                cell = LabelSetCell(
                    task=task,
                    classes=classes,
                    per_label=per_label,
                    level=level,
                    rule=rule,
                    coverage=float(np.mean([outcome["kept"] for outcome in found])) / texts,
                    expected_at_least=float(binom.ppf(0.05, texts, level)) / texts,
                    labels=labels,
                    single=float(np.mean([outcome["single"] for outcome in found])) / texts,
                    is_trivial=labels == classes,
                )
                cells.append(cell)
    return cells


def label_set_summary(cells: list[LabelSetCell]) -> dict[str, float]:
    """Return counts of cells, and means over them."""
    return {
        "cells": len(cells),
        "kept": sum(cell.is_kept for cell in cells),
        "kept but for chance": sum(cell.coverage >= cell.expected_at_least for cell in cells),
        "trivial": sum(cell.is_trivial for cell in cells),
        "coverage": 100 * float(np.mean([cell.coverage for cell in cells])),
        "labels": float(np.mean([cell.labels for cell in cells])),
        "share": 100 * float(np.mean([cell.labels / cell.classes for cell in cells])),
        "single": 100 * float(np.mean([cell.single for cell in cells])),
    }


def label_sets() -> dict[str, Figure]:
    """Return the tables of sets of labels, and what the text repeats."""
    cells = label_set_cells("label_sets")
    rows = []
    for per_label in (5, 20, 50):
        for level in (0.9, 0.95):
            chosen_cells = [cell for cell in cells if cell.per_label == per_label and cell.level == level]
            rows.append((str(per_label), str(level), *label_set_columns(label_set_summary(chosen_cells))))
    figures: dict[str, Figure] = {
        "label sets": rows,
        "label sets by task": [label_sets_of_task(task, cells) for task in dict.fromkeys(cell.task for cell in cells)],
        "label sets compared": label_sets_compared(),
    }
    for name, value in label_set_summary(cells).items():
        if name in ("cells", "kept", "kept but for chance"):
            figures[f"label sets, {name}"] = value
    others = label_set_summary([cell for cell in cells if not cell.is_trivial])
    figures["label sets, not all labels"] = others["cells"]
    figures["label sets, kept, not all labels"] = others["kept"]
    return figures


def label_set_columns(summary: dict[str, float]) -> Row:
    return (
        f"{summary['kept']} of {summary['cells']}",
        f"{summary['kept but for chance']}",
        f"{summary['trivial']}",
        f"{summary['coverage']:.1f} %",
        f"{summary['labels']:.2f}",
        f"{summary['share']:.0f} %",
        f"{summary['single']:.0f} %",
    )


def label_sets_of_task(task: str, cells: list[LabelSetCell]) -> Row:
    """Return coverage and labels in a set; bold where the coverage is lower than chance explains."""
    of_task = [cell for cell in cells if cell.task == task]
    row = [task, str(of_task[0].classes)]
    for level in (0.9, 0.95):
        for per_label in (5, 20, 50):
            found = [cell for cell in of_task if cell.level == level and cell.per_label == per_label]
            text = f"{100 * found[0].coverage:.1f} %, {found[0].labels:.1f}" if found else ""
            row.append(f"**{text}**" if found and found[0].coverage < found[0].expected_at_least else text)
    return row


def label_sets_compared() -> list[Row]:
    cells = label_set_cells("label_sets_compared")
    rows = []
    for rule in dict.fromkeys(cell.rule for cell in cells):
        summary = label_set_summary([cell for cell in cells if cell.rule == rule])
        rows.append((*rule.split("; "), *label_set_columns(summary)))
    return rows


# Labels that are a tree

TREE_NAMES = {"20news_tree": "20News", "arxiv_tree": "arXiv", "hwu64_tree": "HWU64", "trec_tree": "TREC"}
TREE_RULES = ("by level", "labels alone", "each level in nine of ten draws", "one threshold")


class TreeAnswers(NamedTuple):
    """Answers by one rule and error rate, in several draws of trees with two levels."""

    labels: float  # share of texts answered with a label, in percent
    parents: float
    wrong_labels: float  # share of these answers, in percent; NaN without any
    wrong_parents: float
    kept: int  # draws in which no level had more wrong answers than promised
    kept_by_all: int  # draws in which all answers together had not
    draws: int

    @property
    def answered(self) -> float:
        return self.labels + self.parents

    @property
    def wrong(self) -> float:
        return (np.nan_to_num(self.wrong_labels) * self.labels + np.nan_to_num(self.wrong_parents) * self.parents) / (
            self.answered or np.nan
        )


def tree_records() -> Records:
    return content("few_labels/label_trees.jsonl")


def tree_answers(records: Records, rule: str, error: float) -> TreeAnswers:
    """Return the answers of some records, each of which counts equally; their trees have a level above the labels."""
    shares = []
    wrong = []
    kept = 0
    kept_by_all = 0
    for record in records:
        counts = record["rules"][str(error)][rule]
        answers = np.array(counts["answers"])
        wrong_answers = np.array(counts["wrong"])
        shares.append(answers / record["texts"])
        wrong.append(wrong_answers / record["texts"])
        kept += bool((wrong_answers <= error * answers).all())
        kept_by_all += bool(wrong_answers.sum() <= error * answers.sum())
    mean_shares = np.mean(shares, axis=0)
    with np.errstate(invalid="ignore"):
        wrong_shares = 100 * np.mean(wrong, axis=0) / mean_shares
    return TreeAnswers(
        labels=100 * float(mean_shares[1]),
        parents=100 * float(mean_shares[0]),
        wrong_labels=float(wrong_shares[1]),
        wrong_parents=float(wrong_shares[0]),
        kept=kept,
        kept_by_all=kept_by_all,
        draws=len(records),
    )


def tree_cells() -> dict[tuple[str, int], Records]:
    """Return the draws of each tree and number of examples."""
    found = tree_records()
    cells = sorted({(record["task"], record["per_label"]) for record in found})
    return {(task, count): chosen(found, task=task, per_label=count) for task, count in cells}


def label_trees_summary() -> dict[str, Figure]:
    """Return what docs/reliability.md repeats, for an error rate of 0.1."""
    found = tree_records()
    by_level = tree_answers(found, "by level", 0.1)
    return {
        "label trees, trees": len({record["task"] for record in found}),
        "label trees, draws": by_level.draws,
        "label trees, by level, answered": by_level.answered,
        "label trees, by level, answered by labels": by_level.labels,
        "label trees, by level, answered by parents": by_level.parents,
        "label trees, by level, kept": by_level.kept,
        "label trees, labels alone, answered": tree_answers(found, "labels alone", 0.1).answered,
    }


def label_trees() -> dict[str, Figure]:
    """Return the tables of trees of labels."""
    accuracy = []
    answers = []
    for (task, per_label), records in tree_cells().items():
        nodes = records[0]["nodes"]
        right = np.mean([np.array(record["right"]) / record["texts"] for record in records], axis=0)
        by_sums = np.mean([record["right_by_sums"][0] / record["texts"] for record in records])
        of_parents = [record for record in records if "right_by_experts_of_parents" in record][0]
        compared = [of_parents["right_by_experts_of_parents"], of_parents["right"][0]]
        experts, same_draw = (f"{100 * count / of_parents['texts']:.1f} %" for count in compared)
        accuracy.append(
            (
                TREE_NAMES[task],
                f"{nodes[0]}, {nodes[1]}",
                str(per_label),
                str(len(records)),
                f"{100 * right[0]:.1f} %",
                f"{100 * by_sums:.1f} %",
                f"{100 * right[1]:.1f} %",
                f"{experts} ({same_draw})",
            )
        )
        for error in (0.05, 0.1, 0.2):
            flat = tree_answers(records, "labels alone", error)
            found = tree_answers(records, "by level", error)
            answers.append(
                (
                    TREE_NAMES[task],
                    str(per_label),
                    str(error),
                    f"{flat.labels:.0f} %",
                    share_or_empty(flat.wrong_labels),
                    f"{found.labels:.0f} %",
                    share_or_empty(found.wrong_labels),
                    f"{found.parents:.0f} %",
                    share_or_empty(found.wrong_parents),
                    f"{found.kept} of {found.draws}",
                )
            )
    return {
        "label trees, accuracy": accuracy,
        "label trees": answers,
        "label trees compared": tree_rules_compared(),
        **tree_tops_compared(),
    }


def tree_tops_compared() -> dict[str, float]:
    """Return how often the node at the top is right, in the draws with experts of the top, in percent."""
    records = [record for record in tree_records() if "right_by_experts_of_parents" in record]
    return {
        "label trees, experts of the top": 100
        * float(np.mean([record["right_by_experts_of_parents"] / record["texts"] for record in records])),
        "label trees, most probable label": 100
        * float(np.mean([record["right"][0] / record["texts"] for record in records])),
        "label trees, largest sum": 100
        * float(np.mean([record["right_by_sums"][0] / record["texts"] for record in records])),
    }


def tree_rules_compared() -> list[Row]:
    rows = []
    for rule in TREE_RULES:
        for error in (0.05, 0.1, 0.2):
            found = tree_answers(tree_records(), rule, error)
            rows.append(
                (
                    rule,
                    str(error),
                    f"{found.labels:.0f} %",
                    f"{found.parents:.0f} %",
                    f"{found.answered:.0f} %",
                    share_or_empty(found.wrong),
                    f"{found.kept} of {found.draws}",
                    f"{found.kept_by_all} of {found.draws}",
                )
            )
    return rows


def share_or_empty(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1f} %"


# Texts of labels without examples


def foreign_records() -> Records:
    return content("reliability/foreign/rejection.jsonl")


def foreign_texts() -> dict[str, Figure]:
    rows = foreign_records()
    table = []
    figures: dict[str, Figure] = {}
    for encoder in (MINILM, SHIPPED):
        for documents, limits in (("none", ("off", "0.05")), ("all", ("off", "as fitted"))):
            table += [foreign_row(encoder, documents, limit) for limit in limits]
        for documents in ("all", "none"):
            auroc = [row["auroc"] for row in chosen(rows, encoder=encoder, documents=documents)]
            figures[f"AUROC, {encoder}, documents: {documents}"] = np.mean(auroc)
    with_documents = chosen(rows, documents="all")
    figures["foreign"] = table
    figures["known lost, most"] = max(100 * row["answered"]["0.05 as fitted"]["lost"] for row in with_documents)
    figures["foreign documents, least"] = min(100 * row["found_foreign"] for row in with_documents)
    figures["foreign documents, most"] = max(100 * row["found_foreign"] for row in with_documents)
    return figures


def foreign_row(encoder: str, documents: str, limit: str) -> Row:
    """Return the mean, the lowest and the highest share that gets an answer."""
    group = chosen(foreign_records(), encoder=encoder, documents=documents)
    row = [encoder, "none" if documents == "none" else "of all intents", "False" if limit == "off" else "0.05"]
    for name in ("known", "lost", "foreign", "out_of_scope"):
        shares = np.array([100 * record["answered"][f"0.05 {limit}"][name] for record in group])
        extremes = "" if name == "lost" else f" ({shares.min():.1f} to {shares.max():.1f})"
        row.append(f"{shares.mean():.1f} %{extremes}")
    return row


# Reports that stand for their records: suggestions need small-text, watching has no records


def report_rows(name: str) -> list[Row]:
    """Return the rows of a report as they are written."""
    lines = (RESULTS / "reliability" / f"{name}.md").read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip().replace("%", " %") for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    return rows[2:]


def suggested(task: str, strategy: str) -> Row:
    """Return a row of the report on suggestions."""
    return next(row for row in report_rows("suggestions") if (row[0], row[1]) == (task, strategy))


def spaced(text: str) -> str:
    """Write (46 % to 78 %) as (46 to 78)."""
    return re.sub(r"\((\d+) % to (\d+) %\)", r"(\1 to \2)", text)


def suggestions() -> list[Row]:
    rows = []
    for task, name in SUGGESTION_ROWS.items():
        share, gain = suggested(task, "suggest")[5:7]
        share = spaced(share)
        if task != "fakenews_small":  # where nothing is certain, nothing is bold
            share = re.sub(r"^(.+?) \(", r"**\1** (", share)
            gain = re.sub(r"^(.+?) \(", r"**\1** (", gain)
        row = [f"{name} labels", f"{share}, {gain}"]
        for strategy in ("breaking ties", "embedding k-means"):
            share, gain = suggested(task, strategy)[5:7]
            share = "more than all" if share.startswith("more") else share.split(" (")[0]
            row.append(f"{share}, {gain.split(' (')[0]}")
        rows.append(row)
    return rows
