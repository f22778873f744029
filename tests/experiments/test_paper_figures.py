import math

import pytest

from docsplit_hf.evaluation.figures import save_figures
from docsplit_hf.evaluation.results import summarize_records
from experiments.papers_options import PaperSettings
from experiments.report.paper_figures import FIGURES, attention_bars, citation_bars, redundancy_by_length
from tests.evaluation.handmade import make_records
from tests.evaluation.test_figures import NAMES, check_labels, frame_of


def test_every_figure_of_the_papers_is_a_png_and_an_svg_and_the_same_each_time(tmp_path):
    for folder in ("first", "second"):
        names = save_figures(frame_of(2, 1), PaperSettings(), tmp_path / folder, FIGURES)
        assert names == ["few_shot.png", "few_shot_curve.png", "citation.png", "redundancy.png", "attention.png"]
    files = list((tmp_path / "first").iterdir())
    assert len(files) == 10
    for file in files:
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG" if file.suffix == ".png" else b"<?xml") and len(content) > 5000
        assert content == (tmp_path / "second" / file.name).read_bytes() and b"dc:date" not in content


@pytest.mark.parametrize(("systems", "tasks"), [(2, 1), (8, 4)])
@pytest.mark.parametrize("draw", [citation_bars, attention_bars])
def test_labels_do_not_overlap_and_all_have_units_and_a_legend(draw, systems, tasks):
    check_labels(draw(frame_of(systems, tasks), PaperSettings()), systems)


def test_r_stands_beside_the_papers_where_they_have_it():
    frame = summarize_records(make_records(NAMES[:1], ["FakeNews", "mine"]))
    known, own = redundancy_by_length(frame, PaperSettings()).axes
    [paper] = [line for line in known.lines if line.get_label() == "paper"]
    assert paper.get_ydata() == pytest.approx([1.06, 1.21, math.nan, 1.35, 1.52], nan_ok=True)  # "29" is no number
    assert "paper" not in [line.get_label() for line in own.lines]
    ours = own.containers[0]
    assert ours[0].get_xydata().tolist() == [[0, 1.1], [1, 1.2]]
    assert ours[2][0].get_segments()[1].tolist() == [[1, pytest.approx(1.15)], [1, pytest.approx(1.25)]]


def test_a_system_without_the_head_has_no_bar_there():
    records = make_records(NAMES[:2], [])
    record = next(record for record in records if record["protocol"] == "citation")
    word_counts = {**record, "system": "tfidf", "metrics": {"cosine_accuracy": 0.5}}
    axis = citation_bars(summarize_records([*records, word_counts]), PaperSettings()).axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["AAN\nhead of LRA", "AAN\ncosine threshold"]
    assert [len(container) for container in axis.containers if hasattr(container, "patches")] == [2, 2, 1]


def test_the_legend_says_what_error_bars_are():
    attention = attention_bars(frame_of(2, 1), PaperSettings())
    assert attention.legends[0].get_title().get_text() == "Error bars: 95 % confidence interval over the documents"
