import re

import pytest

from docsplit_hf.evaluation.figures import save_figures
from docsplit_hf.evaluation.results import summarize_records
from experiments.papers_options import PaperSettings
from experiments.report.length_tables import length_curves, split_strategy, with_gains
from experiments.report.paper_figures import FIGURES
from experiments.report.paper_report import results_markdown
from tests.evaluation.handmade import COMMAND, RUNS, TASKS

COUNTS = {"250-500": 10, "1,000-2,000": 30, "> 4,000": 10}
SYSTEMS = {"ours (first)": 0.5, "ours (passages)": 0.6, "theirs (first)": 0.7, "theirs (passages)": 0.7, "tfidf": 0.8}


def make_records():
    """``passages`` of ours gains 0 points on short documents, 10 on those of 1,000 words, 30 on the longest."""
    records = []
    for system, accuracy in SYSTEMS.items():
        gained = 0.1 * (system == "ours (passages)")
        values = {"250-500": accuracy - gained, "1,000-2,000": accuracy, "> 4,000": accuracy + 2 * gained}
        metrics = {"accuracy": accuracy, "accuracy_interval": 0.04, "macro_f1": accuracy}
        metrics |= {f"accuracy {name}": value for name, value in values.items()}
        metrics |= {f"accuracy {name}_interval": 0.05 for name in values}
        read = {"tokens_read": 0 if system == "tfidf" else 1_234.4}
        read |= {f"documents {name}": count for name, count in COUNTS.items()}
        read |= {f"share_read {name}": 1 if "passages" in system else 0.25 for name in COUNTS}
        planned = [("length_read", {"max_length": 512}, 0, read)]
        for classifier in ("probe", "neighbors"):
            for shots, seeds in ((5, 3), (None, 1)):
                how = {"classifier": classifier, "shots": shots, "max_length": 512}
                planned += [
                    ("length", how, seed, metrics | {"accuracy": accuracy + seed / 100}) for seed in range(seeds)
                ]
        records += [
            {"system": system, "system_fingerprint": system, "task": "mine", "task_fingerprint": "mine", "seed": seed}
            | {"protocol": protocol, "settings": settings, "metrics": found, "seconds": 1.0, "run": 0}
            for protocol, settings, seed, found in planned
        ]
    return records


def test_an_encoder_and_how_it_reads_are_told_from_a_name():
    assert split_strategy("out/MiniLM (v2) (head_tail)") == ("out/MiniLM (v2)", "head_tail")
    assert split_strategy("20News (body)") == ("20News (body)", None) and split_strategy("tfidf") == ("tfidf", None)


def test_gains_are_against_the_same_encoders_first_weighted_by_documents():
    gains = {}
    for record in with_gains(make_records()):
        if record["protocol"] == "length":
            gains[record["system"]] = [record["metrics"].get(name) for name in ("gain_short", "gain_long")]
    assert gains["ours (passages)"] == pytest.approx([0, (30 * 0.1 + 10 * 0.3) / 40])
    assert gains["theirs (passages)"] == pytest.approx([0, 0])
    assert gains["tfidf"] == gains["ours (first)"] == [None, None]
    assert make_records()[0] == with_gains(make_records())[0]


def test_a_table_for_each_classifier_and_number_of_examples():
    report = results_markdown(make_records(), RUNS, TASKS, PaperSettings(), COMMAND)
    assert re.findall(r"^### (.*)", report, re.M) == [
        "mine: 5 examples per class, probe", "mine: all examples, probe",
        "mine: 5 examples per class, neighbors", "mine: all examples, neighbors",
    ]  # fmt: skip
    assert "| System | 250-500 (10) | 1,000-2,000 (30) | > 4,000 (10) | all | F1 | to 1,000, against first |" in report
    [few, every] = [line for line in report.splitlines() if line.startswith("| ours (passages)")][:2]
    assert few == (
        "| ours (passages) | 50.00 ± 0.00 | 60.00 ± 0.00 | **80.00 ± 0.00** | 61.00 ± 2.48 | 60.00 ± 0.00 "
        "| 0.00 ± 0.00 | 15.00 ± 0.00 |"
    )
    assert every == (
        "| ours (passages) | 50.00 ± 5.00 | 60.00 ± 5.00 | **80.00 ± 5.00** | 60.00 ± 4.00 | 60.00 | 0.00 | 15.00 |"
    )
    assert "| mine | ours (first) | 1,234 | 25% | 25% | 25% |" in report and "| mine | tfidf | 0 | 25%" in report
    assert "Settings: max_length 512." in report


def test_a_figure_has_a_panel_for_each_encoder_and_a_line_for_each_way_to_read(tmp_path):
    frame = summarize_records(make_records())
    panels = length_curves("probe", frame, PaperSettings()).axes
    assert [panel.get_title() for panel in panels] == ["mine, ours", "mine, theirs"]
    for panel in panels:
        assert [container.get_label() for container in panel.containers] == ["first", "passages", "tfidf"]
        assert [label.get_text() for label in panel.get_xticklabels()] == list(COUNTS)
    assert panels[0].containers[1][0].get_ydata() == pytest.approx([50, 60, 80])
    names = save_figures(frame, PaperSettings(), tmp_path, FIGURES)
    assert names == ["length_probe.png", "length_neighbors.png"] and len(list(tmp_path.iterdir())) == 4
