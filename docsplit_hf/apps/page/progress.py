"""The bars of the page, which follow those of tqdm."""

from __future__ import annotations

from functools import partial

import gradio as gr


def follow_totals(progress: gr.Progress) -> None:
    """Let the bars of one event follow the totals of tqdm's bars, which grow when texts are cut into passages.

    Gradio (6.31) keeps the total that a bar begins with, and would show 1438 %.
    """
    progress.update = partial(_update, progress, progress.update)


def _update(progress: gr.Progress, update, count: float = 1) -> None:
    """Take over the totals before a bar is drawn."""
    for bar in progress.iterables:
        bar.length = bar._tqdm.total
    update(count)
