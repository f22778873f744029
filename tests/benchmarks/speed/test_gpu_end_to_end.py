"""What nvidia-smi shows of a run."""

import pytest

from benchmarks.speed.gpu_end_to_end import Sample, between, collect


def test_samples_are_read_from_lines_and_others_ignored():
    samples = []
    collect(["90, 1024\n", "[N/A], [N/A]\n", "", "50, 2048\n"], samples)
    assert [(sample.busy, round(sample.memory_gb, 3)) for sample in samples] == [(0.9, 1.074), (0.5, 2.147)]
    assert samples[0].time <= samples[1].time


def test_use_is_that_between_two_times():
    samples = [Sample(time, busy, memory_gb=10 * time) for time, busy in enumerate([0.0, 1.0, 0.8, 0.0])]
    busy, memory = between(samples, 0.5, 2.5)
    assert busy == pytest.approx(0.9)
    assert memory == 20
    assert between(samples, 7, 9) == (None, None)
