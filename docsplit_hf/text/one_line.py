"""Texts of strangers on one line of a terminal."""

from __future__ import annotations


def on_one_line(text: str) -> str:
    """A text with single spaces, and without characters that would steer a terminal."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
