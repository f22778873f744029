"""Values from folders, checked against the types of what a fit saves."""

from __future__ import annotations

from typing import NotRequired, TypedDict

import pytest

from docsplit_hf.fitting.ensemble import report
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.fitted_ensemble import check_state
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.report import FitReport, Measurement
from docsplit_hf.fitting.experts.saved_types import Fraction, is_possible

from ..ensemble.stores import make_store


class Record(TypedDict):
    """A record with a field that a later version added."""

    name: str
    added: NotRequired[Fraction]


@pytest.mark.parametrize(
    "value, expected",
    [
        ({"name": "a"}, True),
        ({"name": "a", "added": 0.5}, True),
        ({"name": "a", "added": 1.5}, False),
        ({"name": "a", "added": None}, False),
        ({"added": 0.5}, False),
        ({"name": "a", "other": 0.5}, False),
        ([], False),
    ],
)
def test_a_field_of_later_versions_may_be_absent(value, expected):
    assert is_possible(value, Record) == expected


def test_a_fit_loads_and_prints_without_a_metric_that_was_added_later(monkeypatch):
    store = make_store()
    state = fit_experts(Problem(store.snapshot), show_progress=False).to_state()
    monkeypatch.setitem(Measurement.__annotations__, "brier", NotRequired[Fraction])
    monkeypatch.setitem(report.PRINTED_METRICS, "brier", "{:.3f}")
    report.types_of.cache_clear()
    check_state(state, store.snapshot)
    shown = repr(FitReport.of(state.settings))
    report.types_of.cache_clear()
    assert "brier" in shown and "nan" not in shown.lower()
