from experiments.papers_options import PaperSettings
from experiments.report.bars import few_shot_bars
from experiments.report.figures import save_figures
from experiments.report.paper_figures import FIGURES

from .test_figures import check_labels, frame_of


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


def test_labels_of_bars_do_not_overlap():
    check_labels(few_shot_bars(frame_of(8, 4), PaperSettings()), 8)
