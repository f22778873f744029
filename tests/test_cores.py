import os

import pytest

from docsplit_hf import cores


@pytest.fixture
def allowed(monkeypatch):
    """Eight cores that this process may use."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    "quota, expected",
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("350000 100000\n", 3),
        ("50000 100000\n", 1),
        ("100000 50000\n", 2),
        ("6400000 100000\n", 8),
    ],
)
def test_the_quota_of_a_container_limits_the_cores(allowed, quota, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "CPU_QUOTA", tmp_path / "cpu.max")
    assert cores.core_count() == 8
    cores.CPU_QUOTA.write_text(quota)
    assert cores.core_count() == expected


def test_where_processes_are_not_limited_there_are_all_cores_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cores, "CPU_QUOTA", tmp_path / "cpu.max")
    for count, expected in ((4, 4), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert cores.core_count() == expected
