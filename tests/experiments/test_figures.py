"""Figures of results."""

from experiments.evaluation.experiment import EvaluationSettings
from experiments.evaluation.results import summarize_records
from experiments.report.figures import few_shot_curves, save_figures

from .handmade import make_records

NAMES = [f"a-model-of-{number}-words" for number in range(8)]
TASKS = ["20News", "arXiv", "BBCNews", "NYT", "FakeNews", "a_task_with_a_long_name"]
SETTINGS = EvaluationSettings()


def frame_of(systems, tasks):
    return summarize_records(make_records(NAMES[:systems], TASKS[:tasks]))


def check_labels(figure, systems):
    """Nothing overlaps or is outside, and each axis has a unit."""
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


def test_labels_do_not_overlap_and_all_have_units_and_a_legend():
    check_labels(few_shot_curves(frame_of(8, 4), SETTINGS), 8)


def test_figures_without_data_are_not_drawn(tmp_path):
    frame = frame_of(2, 1)
    few_shot = frame["protocol"] == "few_shot"
    assert save_figures(frame[few_shot], SETTINGS, tmp_path / "some") == ["few_shot_curve.png"]
    assert save_figures(frame[~few_shot], SETTINGS, tmp_path / "none") == [] and not (tmp_path / "none").exists()
