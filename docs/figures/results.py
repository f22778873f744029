"""What the experiments of the papers give: docs/results/README.md."""

from __future__ import annotations

import numpy as np

from .pages import Figure, Figures, Row
from .records import Records, chosen, content, mean, percent, records

TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")
PRESET_TASKS = ("20News (body)", "BBCNews", "arXiv", "FakeNews")
PRESET_SYSTEMS = ("start", "simcse", "docsplit", "cropping", "tfidf")
NAMES = {
    "MiniLM": "MiniLM as it is",
    "docsplit": "MiniLM + docsplit",
    "simcse_long": "MiniLM + simcse_long",
    "tfidf": "tfidf",
}


def results() -> Figures:
    return {
        "preset": preset(),
        "behind SimCSE on FakeNews": preset_loss("full"),
        "behind SimCSE on FakeNews, few": preset_loss("few_shot"),
        **few_shot(),
        **nearest_neighbors(),
        **citation(),
        **passage_citation(),
        **half_documents(),
    }


def preset_score(protocol: str, system: str, task: str) -> float:
    """Return macro F1 in percent, measured as the papers did it."""
    return mean(records("preset"), "macro_f1", protocol=protocol, system=system, task=task)


def preset() -> list[Row]:
    """Return macro F1 with all examples and with few."""
    rows = []
    for system in PRESET_SYSTEMS:
        cells = (
            f"{preset_score('full', system, task):.1f} / {preset_score('few_shot', system, task):.1f}"
            for task in PRESET_TASKS
        )
        rows.append((system, *cells))
    return rows


def preset_loss(protocol: str) -> float:
    return preset_score(protocol, "simcse", "FakeNews") - preset_score(protocol, "docsplit", "FakeNews")


def few_shot() -> dict[str, Figure]:
    few = chosen(records("classification"), protocol="few_shot", shots=5)
    rows = []
    means = {}
    for system, name in NAMES.items():
        scores = [mean(few, "macro_f1", system=system, task=task) for task in TASKS]
        means[system] = np.mean(scores)
        rows.append((name, *(f"{score:.1f}" for score in (*scores, means[system]))))
    return {
        "few-shot": rows,
        "docsplit over simcse_long, %": 100 * (means["docsplit"] / means["simcse_long"] - 1),
        "MiniLM": means["MiniLM"],
        "docsplit": means["docsplit"],
        "simcse_long": means["simcse_long"],
    }


def nearest_neighbors() -> dict[str, Figure]:
    """Return accuracy on arXiv by nearest neighbors, and by word counts."""
    rows = records("classification")
    return {
        "neighbors of docsplit, arXiv": mean(rows, "accuracy", protocol="knn", system="docsplit", task="arXiv"),
        "words, arXiv": mean(rows, "accuracy", protocol="full", system="tfidf", task="arXiv"),
    }


def citation() -> dict[str, Figure]:
    rows = chosen(records("classification"), protocol="citation")
    encoders = [system for system in NAMES if system != "tfidf"]
    cosines = [mean(rows, "cosine_accuracy", system=system) for system in encoders]
    heads = [mean(rows, "accuracy", system=system) for system in encoders]
    return {
        "citation, words": mean(rows, "cosine_accuracy", system="tfidf"),
        "citation, encoders, least": min(cosines),
        "citation, encoders, most": max(cosines),
        "citation, pairs": content("classification/results.json")["tasks"][rows[0]["task_fingerprint"]]["train"],
        "citation, heads, least": min(heads),
        "citation, heads, most": max(heads),
    }


def passage_citation() -> dict[str, Figure]:
    """Return accuracy in telling citations by all passages of papers, by their beginnings, and by words."""
    rows = records("passage_citation")
    beginnings: Records = chosen(rows, system="all-MiniLM-L6-v2 (first)")
    [task] = content("passage_citation/results.json")["tasks"].values()
    return {
        "passages and words": mean(rows, "passages_and_words_accuracy", protocol="passage_citation"),
        "beginnings": mean(beginnings, "cosine_accuracy"),
        "beginnings with a head": mean(beginnings, "accuracy"),
        "words": mean(rows, "words_accuracy", protocol="passage_citation"),
        "pairs": task["train"],
    }


def half_documents() -> dict[str, Figure]:
    """Return recall@1 of the other half of a document."""
    rows = chosen(records("half_documents"), protocol="half_documents")
    figures: dict[str, Figure] = {}
    for system in ("docsplit", "simcse_long"):
        for task in TASKS:
            figures[f"halves, {system}, {task}"] = percent(rows, "recall@1", system=system, task=task)[0]
    return figures
