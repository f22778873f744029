"""Competitors that take turns, of which some run out of memory."""

import json
import math

import pytest
import torch

from benchmarks.speed.side_by_side import comparison, is_out_of_memory, take_turns, write_record


class Competitor:
    """One that takes a second, until its memory is used up in a turn."""

    def __init__(self, last_turn=100):
        self.turns = 0
        self.last_turn = last_turn

    def __call__(self):
        self.turns += 1
        if self.turns > self.last_turn:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return 1.0


def test_a_competitor_that_runs_out_of_memory_is_left_out_and_shown_as_such(tmp_path):
    small = Competitor()
    large = Competitor(last_turn=2)
    seconds = take_turns(3, {"small": small, "large": large})
    assert (small.turns, large.turns) == (4, 3)  # with the warm-up, and without a turn after the failure
    assert seconds.rounds["small"] == [1.0, 1.0, 1.0]
    assert seconds.rounds["large"][0] == 1.0 and all(map(math.isnan, seconds.rounds["large"][1:]))
    shown = comparison(seconds, 10, [("small", "large"), ("small", "small")])
    assert "| small | 10.0 | large | out of memory |  |" in shown
    assert "| small | 10.0 | small | 10.0 | 1.00 (1.00 to 1.00) |" in shown
    write_record(tmp_path / "record.jsonl", seconds, 10, [("small", "large")])
    record = json.loads((tmp_path / "record.jsonl").read_text())
    assert record["seconds"] == {"small": [1.0, 1.0, 1.0], "large": None}


def test_other_errors_end_a_comparison():
    def fail():
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        take_turns(1, {"one": fail})


def test_an_error_is_about_memory_by_its_type_its_words_or_its_cause():
    assert is_out_of_memory(torch.OutOfMemoryError("12 documents do not fit"))
    assert is_out_of_memory(RuntimeError("[enforce fail] . DefaultCPUAllocator: can't allocate memory"))
    try:
        try:
            raise MemoryError
        except MemoryError as error:
            raise ValueError("Use smaller batches.") from error
    except ValueError as error:
        assert is_out_of_memory(error)
    assert not is_out_of_memory(ValueError("12 documents"))
