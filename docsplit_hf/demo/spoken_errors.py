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
    """A message for ``gr.Error``, ``gr.Warning`` and ``gr.Info``, which take it for HTML."""
    return html.escape(message if len(message) <= LONGEST else f"{message[:LONGEST]}...")


def spoken(event: Callable[..., Any]) -> Callable[..., Any]:
    """An event whose errors are told to the visitor: in our own words where they are ours."""

    @functools.wraps(event)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return event(*args, **kwargs)
        except gr.Error:
            raise
        except (ValueError, TypeError) as error:
            logger.info("%s", error)
            raise gr.Error(as_text(str(error)), print_exception=False) from error
        except Exception as error:
            logger.exception("The page failed.")
            raise gr.Error(
                "Something went wrong here. It is in the log of docsplit-demo.", print_exception=False
            ) from error

    return wrapped
