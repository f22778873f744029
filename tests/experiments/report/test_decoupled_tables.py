import math
import re

from docsplit_hf.evaluation.results import summarize_records
from experiments.report.decoupled_tables import neighbors_sweep, nine_rows, retrieval_vectors
from experiments.report.paper_results import DECOUPLED, RETRIEVAL_VECTORS

PARTS = {"classifier_": 0.6, "knn_": 0.5, "": 0.61}


def cell(task, protocol, settings, system="ours", **shift):
    """The records of two equal repeats."""
    metrics = {
        f"{part}{name}": value + shift.get("by", 0)
        for part, value in PARTS.items()
        for name in ("accuracy", "matthews_correlation")
    }
    if "matthews" in shift:
        metrics["classifier_matthews_correlation"] = shift["matthews"]
    about = {"system": system, "task": task, "protocol": protocol, "settings": settings, "metrics": metrics}
    return [about | {"seed": seed} for seed in (0, 1)]


def rows_of(text):
    return [re.split(r" *\| *", line.strip("| ")) for line in text.split("\n\n")[0].split("\n")]


def decoupled(neighbors=("calibrated",), tasks=("CoLA", "SST-2"), **shift):
    return [
        record
        for task in tasks
        for variant in ("base", "triplet_loss", "decoupled")
        for one in neighbors
        for record in cell(task, "decoupled", {"variant": variant, "neighbors": one}, **shift)
    ]


def test_nine_rows_then_probes_then_the_papers_nine_each_in_the_metric_of_its_task():
    probe = cell("CoLA", "full", {"probe": "logistic"}, "tfidf")
    header, _, *rows = rows_of(nine_rows(summarize_records(decoupled(matthews=0.25)), probe, DECOUPLED))
    assert header == ["System", "CoLA MCC", "SST-2 Acc"]
    assert rows[0] == ["ours: base", "25.00 ± 0.00", "60.00 ± 0.00"]
    assert [row[0] for row in rows[1:3]] == ["ours: base, KNN (calibrated)", "ours: base, mixed (calibrated)"]
    assert rows[9] == ["tfidf: a probe, not fine-tuned", "61.00 ± 0.00", "–"]
    assert rows[10] == ["*base, paper*", "*67.49*", "*96.44*"] and len(rows) == 19


def test_what_was_chosen_on_the_test_set_is_marked():
    *_, last = [row[0] for row in rows_of(nine_rows(summarize_records(decoupled(("fixed", "oracle"))), [], None))]
    assert last == "ours: TL + D, mixed (oracle: lambda of the best result on the test set)"


def test_the_mixture_is_held_against_the_better_of_its_parts():
    records = [*decoupled(tasks=["SST-2"]), *decoupled(("oracle",), ["SST-2"])]
    text = nine_rows(summarize_records(records), [], None)
    assert "- calibrated: in 3 of 3 cells the mixture is at least as good" in text
    assert "from +1.00 to +1.00 points, +1.00 in the mean" in text and "- oracle: in 3 of 3" in text


def test_a_tie_is_as_good():
    [one, _] = cell("SST-2", "decoupled", {"variant": "base", "neighbors": "fixed"})
    one["metrics"]["accuracy"] = math.nextafter(0.6, 0)
    assert "- fixed: in 1 of 1 cells" in nine_rows(summarize_records([one]), [], None)


def test_vectors_and_sweep():
    vectors = [
        record
        for pooling in ("cls", "mean", "max")
        for record in cell("QNLI", "retrieval_vectors", {"retrieval_pooling": pooling, "neighbors": "calibrated"})
    ]
    rows = rows_of(retrieval_vectors(summarize_records(vectors), [], RETRIEVAL_VECTORS))
    assert [row[0] for row in rows[2:4]] == ["ours: cls, KNN (calibrated)", "ours: cls, mixed (calibrated)"]
    assert rows[-1] == ["*MAX, paper*", "*94.17*"] and len(rows) == 2 + 6 + 3
    points = [{"k": k, "temperature": 10.0} for k in (64, 1)] + [{"k": 64, "temperature": 0.1}]
    sweep = [
        record
        for task, length in (("QNLI", 128), ("MRPC", 64))
        for i, point in enumerate(points)
        for record in cell(task, "neighbors_sweep", point | {"max_length": length}, by=0.01 * i)
    ]
    header, _, *rows = rows_of(neighbors_sweep(summarize_records(sweep), [], None))
    assert header[3:] == ["k 1", "k 64", "T 0.1", "T 10"] and len(rows) == 2
    for row in rows:
        assert [value.split(" ")[0] for value in row[3:]] == ["51.00", "50.00", "52.00", "50.00"]
