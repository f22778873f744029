import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from docsplit_hf.neighbors.watching.change import Change, change_of
from docsplit_hf.neighbors.watching.watch_report import MEASURES, WatchReport


def make_report(labels=3, now=200, then=100):
    rng = np.random.default_rng(0)
    near = rng.normal(0.4, 0.1, now), rng.normal(0.5, 0.1, then)
    shares = {f"${n}^ a label with a name that is {'very ' * 5}long": Change(1 / labels, 0.0) for n in range(labels)}
    drift = {name: change_of(*near) for name in MEASURES}
    return WatchReport(now, 0, "documents without labels", then, 0.05, 0.5, None, shares, drift, {}, [], near)


@pytest.mark.parametrize("sizes", [{}, {"labels": 60}, {"now": 1, "then": 0}], ids=str)
def test_all_that_is_written_lies_within_the_picture(sizes, tmp_path, monkeypatch):
    drawn, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **more: (drawn.append(self), save(self, *args, **more)))
    make_report(**sizes).plot(tmp_path / "report.png")
    (figure,) = drawn
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text for axis in figure.axes for text in (axis.title, axis.xaxis.label)]
    for text in [*texts, *figure.axes[1].get_yticklabels(), figure.texts[0], figure.legends[0]]:
        box = text.get_window_extent(renderer)
        assert 0 <= box.x0 and box.x1 <= figure.bbox.width and 0 <= box.y0 and box.y1 <= figure.bbox.height, text
    with Image.open(tmp_path / "report.png") as picture:
        assert len(picture.convert("RGB").getcolors(100_000)) > 10


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match="pip install matplotlib"):
        make_report().plot(tmp_path / "report.png")
