"""docs/results/README.md."""

import numpy as np

from .page import Page
from .records import chosen, content, mean, percent, records

TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")
NAMES = {
    "MiniLM": "MiniLM as it is",
    "docsplit": "MiniLM + docsplit",
    "simcse_long": "MiniLM + simcse_long",
    "tfidf": "tfidf",
}


def preset(page):
    """As the papers did it."""
    tasks = ("20News (body)", *TASKS[1:])
    protocols = {name: chosen(records("preset"), protocol=name) for name in ("full", "few_shot")}

    def scores(system):
        return [[mean(rows, "macro_f1", system=system, task=task) for task in tasks] for rows in protocols.values()]

    found = {system: scores(system) for system in ("start", "simcse", "docsplit", "cropping", "tfidf")}
    for system, (full, few) in found.items():
        page.has_rows([(system, *(f"{one:.1f} / {other:.1f}" for one, other in zip(full, few, strict=True)))])
    gains, of_crops, of_words = (
        np.array(found[one]) - np.array(found[other])
        for one, other in (("docsplit", "simcse"), ("cropping", "docsplit"), ("tfidf", "cropping"))
    )
    assert (gains[:, :3] > 0).all() and (of_crops > 0).all()
    assert [tuple(map(int, place)) for place in np.argwhere(of_words < 0)] == [(1, 1)]
    page.says("behind it on FakeNews, by {} and {} points", *-gains[:, 3])


def test_figures():
    page = Page("docs/results/README.md")
    preset(page)
    few = chosen(records("classification"), protocol="few_shot", shots=5)
    means = {}
    for system, name in NAMES.items():
        scores = [mean(few, "macro_f1", system=system, task=task) for task in TASKS]
        means[system] = np.mean(scores)
        page.has_rows([(name, *(f"{score:.1f}" for score in (*scores, means[system])))])
    page.says("by {} % of the mean macro F1", 100 * (means["docsplit"] / means["simcse_long"] - 1))
    page.says("takes MiniLM from {} to {}", means["MiniLM"], means["docsplit"])
    page.says("takes it down to {}", means["simcse_long"])
    curve = chosen(records("classification"), protocol="few_shot")

    def by_shots(system, task):
        shots = sorted({row["settings"]["shots"] for row in curve if row["task"] == task})
        return {count: mean(curve, "accuracy", system=system, task=task, shots=count) for count in shots}

    for task in TASKS[:3]:
        ours, other = by_shots("docsplit", task), by_shots("simcse_long", task)
        assert all(ours[count] > other[count] for count in ours)
    first = {
        task: {count: max(NAMES, key=lambda s: by_shots(s, task)[count]) for count in by_shots("tfidf", task)}
        for task in TASKS
    }
    assert {count for count, system in first["FakeNews"].items() if system == "tfidf"} == {5, 10, 20, 50}
    assert all("tfidf" not in first[task].values() for task in TASKS[:3])
    full = chosen(records("classification"), protocol="full")
    assert [max(NAMES, key=lambda s: mean(full, "macro_f1", system=s, task=task)) for task in TASKS] == [
        "docsplit",
        *["tfidf"] * 3,
    ]
    neighbors = mean(records("classification"), "accuracy", protocol="knn", system="docsplit", task="arXiv")
    page.says(
        "(accuracy {} % for docsplit, {} % for TF-IDF)", neighbors, mean(full, "accuracy", system="tfidf", task="arXiv")
    )

    citation = chosen(records("classification"), protocol="citation")
    cosine = {system: mean(citation, "cosine_accuracy", system=system) for system in NAMES}
    heads = [mean(citation, "accuracy", system=system) for system in NAMES if system != "tfidf"]
    encoders = [cosine[system] for system in NAMES if system != "tfidf"]
    page.says("TF-IDF's cosine finds {} %, the encoders {} to {} %", cosine["tfidf"], min(encoders), max(encoders))
    page.says(
        "on {} pairs does not help them ({} to {} %",
        content("classification/results.json")["tasks"][citation[0]["task_fingerprint"]]["train"],
        min(heads),
        max(heads),
    )
    papers = records("passage_citation")
    beginnings = chosen(papers, system="all-MiniLM-L6-v2 (first)")
    [task] = content("passage_citation/results.json")["tasks"].values()
    head, nearest = mean(beginnings, "accuracy"), mean(beginnings, "cosine_accuracy")
    together = mean(papers, "passages_and_words_accuracy", protocol="passage_citation")
    words = mean(papers, "words_accuracy", protocol="passage_citation")
    page.says(
        "from words: {} %, where the beginnings of the papers have {}, or {} with a head", together, nearest, head
    )
    page.says("word counts {} |", words)
    page.says("[{} pairs](passage_citation", task["train"])
    page.says("it does: {} % for MiniLM, whose cosine finds {} % there", head, nearest)

    halves = chosen(records("half_documents"), protocol="half_documents")
    found = [percent(halves, "recall@1", system=s, task=t)[0] for s in ("docsplit", "simcse_long") for t in TASKS]
    page.says("is {}, {}, {}, {} for docsplit and {}, {}, {}, {} for simcse_long", *found)
    page.without_record(
        "80 % for training", "80 % of the citing papers", "80 % of it for training"
    )  # how sets were made
    page.check(at_least=40)
