"""The text to label next, one at a time."""

from __future__ import annotations

from typing import Any

from .session import Session

BATCH = 5  # suggested together, so that no two of them ask the same


def suggested_text(session: Session) -> dict[str, Any]:
    """The first suggestion that waits; new ones are made when all have a label."""
    if not session.suggestions:
        store = session.store
        left = 0 if store.documents is None else len(store.documents)
        try:
            session.suggestions = session.pipe.suggest(min(BATCH, max(left, 1)))
        except ValueError:
            if not (left and session.fitted):
                raise
            session.suggestions = session.pipe.suggest(min(BATCH, left), again=True)  # those that were skipped
    return session.suggestions[0]


def skip(session: Session) -> None:
    """Leave the first suggestion without a label."""
    session.suggestions = session.suggestions[1:]
