"""Types of what a fit saves, with their ranges; values from an untrusted folder are checked against them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, NamedTuple, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np


class Range(NamedTuple):
    """Smallest and largest value."""

    least: float
    largest: float

    def __call__(self, value: float) -> bool:
        """Whether a value is inside; False for NaN."""
        return self.least <= value <= self.largest


def has_length(allowed: Collection[int]) -> Callable[[list[Any]], bool]:
    """Limit of a list: its possible lengths."""
    return lambda values: len(values) in allowed


UP_TO_ONE = Range(0.0, 1.0)
UNLIMITED = Range(-math.inf, math.inf)
ABOVE_ZERO = math.ulp(0.0)
ROUNDING = 1e-3  # of sums and norms of float32 values
UNIT_COMPONENTS = Range(-1 - ROUNDING, 1 + ROUNDING)
REGRESSION_WEIGHTS = Range(-1e6, 1e6)  # far beyond those of a regression that separates its examples


class Array(NamedTuple):
    """Saved array: the names of its sizes, and the range of its values."""

    shape: tuple[str, ...]
    values: Range = UNLIMITED
    kind: str = "f"  # of its NumPy dtype
    is_distribution: bool = False  # whether rows sum to 1 if a text has one label


Fraction = Annotated[float, UP_TO_ONE]
Count = Annotated[int, Range(0, 2**53)]  # of texts: smaller integers are exact as floats
NotNegative = Annotated[float, Range(0, math.nextafter(math.inf, 0))]
ErrorRate = Annotated[str, re.compile(r"0\.[0-9]+").fullmatch]  # as the name of a JSON field


def is_possible(value: Any, kind: Any) -> bool:
    """Whether JSON from outside is a value of a type."""
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is Annotated:
        return is_possible(value, inner[0]) and all(limit(value) for limit in inner[1:])
    if origin in (Union, UnionType):
        return any(is_possible(value, one) for one in inner)
    if origin is list:
        return isinstance(value, list) and all(is_possible(one, inner[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            is_possible(name, inner[0]) and is_possible(one, inner[1]) for name, one in value.items()
        )
    if origin is NotRequired:  # a field that a later version added: folders that were saved before lack it
        return is_possible(value, inner[0])
    if is_typeddict(kind):
        fields = types_of(kind)
        required = {name for name, one in fields.items() if get_origin(one) is not NotRequired}
        has_fields = isinstance(value, dict) and required <= value.keys() <= fields.keys()
        return has_fields and all(is_possible(one, fields[name]) for name, one in value.items())
    return type(value) in (int, float) if kind is float else type(value) is kind


@cache  # the names in annotations are looked up anew in each call, and a check asks for them a hundred times
def types_of(record: type) -> dict[str, Any]:
    """Type of each field of a record, with its annotations."""
    return get_type_hints(record, include_extras=True)


def saved_fields(
    record: type, prefix: str = "", path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Each field of a record and of the records in it; those that are marked with None are left out.

    Yields the saved name, the attributes that lead to the field, and its type: an ``Array``, or a type of JSON. A
    record that is marked with a text has this before the names of its fields.
    """
    for name, kind in types_of(record).items():
        inner, *marks = get_args(kind) if get_origin(kind) is Annotated else (kind,)
        own_path = (*path, name)
        if inner is np.ndarray:
            yield prefix + name, own_path, marks[0]
        elif hasattr(inner, "_fields") or hasattr(inner, "__dataclass_fields__"):
            yield from saved_fields(inner, marks[0] if marks else prefix, own_path)
        elif None not in marks:
            yield prefix + name, own_path, kind


def restored(record: type, settings: dict[str, Any], arrays: dict[str, np.ndarray], prefix: str = "") -> Any:
    """Make a record of its saved fields; missing ones get their defaults."""
    found = {}
    for name, kind in types_of(record).items():
        inner, *marks = get_args(kind) if get_origin(kind) is Annotated else (kind,)
        if hasattr(inner, "_fields") or hasattr(inner, "__dataclass_fields__"):
            found[name] = restored(inner, settings, arrays, marks[0] if marks else prefix)
            continue
        saved = arrays if inner is np.ndarray else settings
        if prefix + name in saved:
            found[name] = saved[prefix + name]
    return record(**found)
