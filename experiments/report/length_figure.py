"""The figure of accuracy by the length of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..protocols.length import BUCKETS
from .length_tables import split_strategy
from .panels import draw_curve, draw_legend, make_panels, names_in
from .summary import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def length_curves(cells: Sequence[Cell]) -> Figure:
    """Accuracy over the number of words in a document, a line for each way to read it; a panel per task and encoder."""
    names = {cell.system: split_strategy(cell.system) for cell in cells}
    encoders = list(dict.fromkeys(encoder for encoder, strategy in names.values() if strategy)) or [""]
    lines = list(dict.fromkeys(strategy or encoder for encoder, strategy in names.values()))
    panels = [(task, encoder) for task in names_in(cells, "task") for encoder in encoders]
    figure, axes = make_panels(len(panels), 4.4, 3.2, per_row=2)
    for axis, (task, encoder) in zip(axes, panels, strict=True):
        mine = [cell for cell in cells if cell.task == task and names[cell.system][0] in (encoder, cell.system)]
        buckets = [name for name in BUCKETS if any(f"accuracy {name}" in cell.metrics for cell in mine)]
        for cell in mine:
            number = lines.index(names[cell.system][1] or cell.system)
            summaries = [cell.metrics[f"accuracy {name}"] for name in buckets]
            # Lines stand a little apart, so that error bars can be told from one another.
            places = np.arange(len(buckets)) + 0.04 * (number - (len(lines) - 1) / 2)
            draw_curve(axis, places, summaries, "documents", number, lines[number])
        axis.set_xticks(range(len(buckets)), buckets, fontsize=7)
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set(title=", ".join(filter(None, (task, encoder))), xlabel="Words in the document", ylabel="Accuracy (%)")
    draw_legend(figure, axes, cells, "documents")
    return figure
