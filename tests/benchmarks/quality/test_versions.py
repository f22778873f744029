"""Pools of sets of versions in which most texts have lost theirs."""

import numpy as np

from benchmarks.quality.few_labels.protocol import FewLabels
from benchmarks.quality.versions import AS_ELSEWHERE, AS_VERSIONS, THINNED_POOL, by_fraction, groups_in_order, thinned


def task_of(pool, labels):
    return FewLabels("made up", ["a", "b"], ["a", "b"], pool, np.array(labels), [], np.zeros(0, int))


def test_versions_follow_one_another():
    pool = ["we came home late", "we were home late", "a text without version", "rain fell all day", "rain all day"]
    assert groups_in_order(task_of(pool, [0, 1, 0, 1, 0])).tolist() == [0, 0, 1, 2, 2]


def test_a_pool_keeps_the_versions_of_some_texts():
    pool = [f"w{text} v{text} u{text} {version}" for text in range(400) for version in ("first", "second")]
    task = task_of(pool, [0, 1] * 400)
    kept = thinned(task, 0.3, 0)
    _, counts = np.unique([text.split()[0] for text in kept.pool], return_counts=True)
    assert len(kept.pool) == THINNED_POOL and abs(2 * (counts == 2).sum() - 0.3 * THINNED_POOL) <= 2


def test_the_gain_is_shown_by_the_fraction_of_versions():
    records = [
        {"task": "asset", "system": system, "aim": 0.3, "per_label": 5, "draw": number}
        | {"version_fraction": 0.31, "macro_f1": 0.5 + (0.01 * number if system == AS_VERSIONS else 0)}
        for number in (1, 3)
        for system in (AS_VERSIONS, AS_ELSEWHERE)
    ]
    assert by_fraction(records) == [("0.3 to 0.4", "5", "2", "52.0", "50.0", "+2.0 ± 2.0")]
