"""Names of encoders with options behind them, as users write them: "NAME#option=value"."""

from __future__ import annotations

from typing import Any


def is_address(name: Any) -> bool:
    """Whether an encoder is named by the address of an endpoint."""
    return isinstance(name, str) and name.startswith(("http://", "https://"))


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """Split ``"name#option=value#option=value"``; after the address of an endpoint, the first option is its model.

    >>> split_name("https://api.openai.com/v1#text-embedding-3-small#requests_per_minute=60")
    ('https://api.openai.com/v1', {'model': 'text-embedding-3-small', 'requests_per_minute': '60'})
    """
    base, *parts = name.split("#")
    options: dict[str, str] = {}
    if is_address(base):
        if not parts or not parts[0]:
            raise ValueError(f"{name!r} names no model: write it behind a #, as in 'https://api.openai.com/v1#MODEL'.")
        options["model"] = parts.pop(0)
    for part in parts:
        option, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise ValueError(f"In {name!r}, {part!r} is no option: write 'NAME#OPTION=VALUE'; # separates options.")
        options[option.strip()] = value.strip()
    return base, options


def convert_options(name: str, options: dict[str, str], kinds: dict[str, type]) -> dict[str, Any]:
    """The values of a name's options, each as the type that its option has in ``kinds``."""
    converted = {}
    for option, value in options.items():
        if option not in kinds:
            raise ValueError(f"{name!r} has the option {option!r}; known there are: {', '.join(kinds)}.")
        try:
            converted[option] = kinds[option](value)
        except ValueError:
            raise ValueError(f"In {name!r}, {option} must be a number, got {value!r}.") from None
    return converted
