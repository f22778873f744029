"""Views of a document as passages, of which some are drawn, as a pure function of a random generator."""

from __future__ import annotations

import numpy as np

from ...text.passages import passage_bounds
from .views import ViewFunction


def passage_views(
    tokens: np.ndarray,
    sentence_lengths: np.ndarray,
    rng: np.random.Generator,
    view_function: ViewFunction,
    view_count: int,
    max_tokens: int,
    most: int,
) -> list[list[np.ndarray]]:
    """Make views of a document's passages in the place of its sentences, and draw up to ``most`` passages of each.

    A view that takes part of a passage, as a crop does, has this part as a passage. What was drawn is in the order of
    the document. A document of fewer passages than views has its sentences dealt, and each view is one passage.
    """
    bounds = passage_bounds(sentence_lengths, max_tokens)
    if len(bounds) < view_count:
        return [[view] for view in view_function(tokens, sentence_lengths, rng)]
    lengths = bounds[:, 1] - bounds[:, 0]
    passage_of = np.repeat(np.arange(len(bounds)), lengths)
    drawn = []
    for places in view_function(np.arange(len(tokens)), lengths, rng):
        passages = np.split(places, np.flatnonzero(np.diff(passage_of[places])) + 1)
        if len(passages) > most:
            passages = [passages[i] for i in np.sort(rng.choice(len(passages), most, replace=False))]
        drawn.append([tokens[passage] for passage in passages])
    return drawn
