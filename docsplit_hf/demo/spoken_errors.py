"""What goes wrong, as a sentence on the page."""

from __future__ import annotations

import functools
import html
import logging
from collections.abc import Callable
from typing import Any

import gradio as gr

logger = logging.getLogger(__name__)

LONGEST = 600  # characters of a sentence


def as_text(message: str) -> str:
    """A message for ``gr.Warning`` and ``gr.Info``, which take it for HTML."""
    return html.escape(message if len(message) <= LONGEST else f"{message[:LONGEST]}...")


def spoken(event: Callable[..., Any]) -> Callable[..., Any]:
    """An event whose errors are told to the visitor: in our own words where they are ours.

    All outputs stay as they are. Gradio would write "Error" over each one that an exception leaves without a value.
    """

    @functools.wraps(event)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return event(*args, **kwargs)
        except (ValueError, TypeError) as error:
            logger.info("%s", error)
            gr.Warning(as_text(str(error)), title="Not done")
        except Exception:
            logger.exception("The page failed.")
            gr.Warning("Something went wrong here. Details are in the log of docsplit-demo.", title="Not done")
        return gr.skip()

    return wrapped
