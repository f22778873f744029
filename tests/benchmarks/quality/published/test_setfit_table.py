"""SetFit's table: the draws are SetFit's."""

import pandas as pd

from benchmarks.quality.published.setfit_table import draw


def test_a_draw_is_that_of_setfit():
    labels = ["joy", "fear", "joy", "joy", "fear", "joy", "fear", "fear", "joy", "fear"]
    frame = pd.DataFrame({"text": [str(row) for row in range(len(labels))], "label": labels})
    parts = [frame.query(f"label == {label!r}").sample(2, random_state=7, replace=False) for label in ("joy", "fear")]
    drawn = draw(list(zip(frame["text"], labels, strict=True)), per_label=2, seed=7)
    assert [str(row) for row in drawn] == pd.concat(parts)["text"].tolist()
