import math
import sys

import pytest

from docsplit_hf.experiments.protocols.settings import EvaluationSettings
from docsplit_hf.experiments.report.figures import (
    CITATION_METRICS,
    accuracy_bars,
    attention_bars,
    curves,
    redundancy_by_length,
    save_figures,
)
from docsplit_hf.experiments.report.panels import COLORS
from docsplit_hf.experiments.report.summary import Cell, summarize, summarize_records

from .handmade import make_records

NAMES = [f"a-model-of-{number}-words" for number in range(8)]
TASKS = ["20News", "arXiv", "BBCNews", "NYT", "FakeNews", "a_task_with_a_long_name"]


def cells_of(systems, tasks, protocol=None):
    cells = summarize_records(make_records(NAMES[:systems], TASKS[:tasks]))
    return [cell for cell in cells if protocol is None or cell.protocol == protocol]


def test_every_figure_of_the_papers_is_a_png_and_an_svg_and_the_same_each_time(tmp_path):
    for folder in ("first", "second"):
        names = save_figures(cells_of(2, 1), EvaluationSettings(), tmp_path / folder)
        assert names == ["few_shot.png", "few_shot_curve.png", "citation.png", "redundancy.png", "attention.png"]
    files = list((tmp_path / "first").iterdir())
    assert len(files) == 10
    for file in files:
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG" if file.suffix == ".png" else b"<?xml") and len(content) > 5000
        assert content == (tmp_path / "second" / file.name).read_bytes() and b"dc:date" not in content
    assert save_figures(cells_of(2, 1, "knn"), EvaluationSettings(), tmp_path / "nothing") == []
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(("systems", "tasks"), [(2, 1), (8, 4)])
@pytest.mark.parametrize(
    ("draw", "protocol"),
    [
        (curves, "few_shot"),
        (lambda cells: accuracy_bars(cells, CITATION_METRICS, "std"), "citation"),
        (attention_bars, "attention"),
    ],
    ids=["curves", "bars", "attention"],
)
def test_labels_do_not_overlap_and_all_have_units_and_a_legend(draw, protocol, systems, tasks):
    figure = draw(cells_of(systems, tasks, protocol))
    figure.draw_without_rendering()
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == NAMES[:systems]
    boxes = [legend.get_window_extent()]
    for axis in figure.axes:
        assert axis.get_ylabel().endswith(")")
        low, high = axis.get_ylim()
        heights = [label for label in axis.get_yticklabels() if low <= label.get_position()[1] <= high]
        labels = [axis.title, axis.xaxis.label, axis.yaxis.label, *axis.get_xticklabels(), *heights]
        boxes += [label.get_window_extent() for label in labels if label.get_text()]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0 and box.y1 <= figure.bbox.height


def test_r_stands_beside_the_papers_where_they_have_it():
    cells = summarize_records(make_records(NAMES[:1], ["FakeNews", "mine"]))
    known, own = redundancy_by_length([cell for cell in cells if cell.protocol == "nouns_and_verbs"]).axes
    [paper] = [line for line in known.lines if line.get_label() == "paper"]
    assert paper.get_ydata() == pytest.approx([1.06, 1.21, math.nan, 1.35, 1.52], nan_ok=True)  # "29" is no number
    assert "paper" not in [line.get_label() for line in own.lines]
    ours = own.containers[0]
    assert ours[0].get_xydata().tolist() == [[0, 1.1], [1, 1.2]]
    assert ours[2][0].get_segments()[1].tolist() == [[1, pytest.approx(1.15)], [1, pytest.approx(1.25)]]


def test_eight_systems_differ_in_color_and_in_marker_or_hatch():
    lines = [container[0] for container in curves(cells_of(8, 1, "few_shot")).axes[0].containers]
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == len(COLORS) == 8
    bars = accuracy_bars(cells_of(8, 1, "citation"), {"accuracy": ""}, "interval").axes[0].patches
    assert len({bar.get_hatch() for bar in bars}) == 8


def test_a_system_without_the_head_has_no_bar_there():
    word_counts = Cell("tfidf", "AAN", "citation", {}, {"cosine_accuracy": summarize([0.5, 0.6])}, (0, 1))
    axis = accuracy_bars([*cells_of(2, 1, "citation"), word_counts], CITATION_METRICS, "interval").axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["AAN\nhead of LRA", "AAN\ncosine threshold"]
    assert [len(container) for container in axis.containers if hasattr(container, "patches")] == [2, 2, 1]


def test_error_bars_are_there_after_several_repeats_and_said_in_the_legend():
    figure = curves(cells_of(2, 1, "few_shot"))
    assert figure.legends[0].get_title().get_text() == "Error bars: standard deviation over the repeats"
    _, _, [segments] = figure.axes[0].containers[0]
    assert all(abs(high[1] - low[1]) > 0 for low, high in segments.get_segments())
    attention = attention_bars(cells_of(2, 1, "attention"))
    assert attention.legends[0].get_title().get_text() == "Error bars: 95 % confidence interval over the documents"


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install matplotlib, .* or do without them, --no_figures"):
        save_figures(cells_of(2, 1), EvaluationSettings(), tmp_path)
