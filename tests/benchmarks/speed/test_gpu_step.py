"""The inputs of bare steps."""

import pytest
import torch

from benchmarks.speed import gpu_step
from benchmarks.speed.gpu_step import Batches, Competitor, Compiling, Setting, join_documents, take_turns_in


def test_joined_documents_are_long_enough_and_of_whole_sentences(documents):
    joined = join_documents(documents, 300)
    assert len(joined) == len(documents)
    for number, (row, own) in enumerate(zip(joined, documents, strict=True)):
        assert row["input_ids"][: len(own["input_ids"])] == own["input_ids"]
        assert sum(row["sentence_lengths"]) == len(row["input_ids"]) >= 300
        following = documents[(number + 1) % len(documents)]["input_ids"]
        assert row["input_ids"][len(own["input_ids"]) :][: len(following)] == following


@pytest.fixture
def competitor():
    """Make a competitor whose steps run out of memory from one on."""

    def make(name, fails_at=1_000):
        steps = []

        def step(batch):
            steps.append(batch)
            if len(steps) >= fails_at:
                raise torch.OutOfMemoryError("CUDA out of memory.")

        return Competitor(name, False, lambda batches: batches.plain, step, own_memory=0, set_up=Compiling(0.0, 0))

    return make


def test_figures_of_a_setting_show_who_fits(competitor):
    plain = [{"attention_mask": torch.ones(4, 8)} for _ in range(2)]
    setting = Setting("natural", 2, Batches(plain=plain, masked=plain, texts=[]))
    figures = take_turns_in(setting, [competitor("small"), competitor("large", fails_at=8)], rounds=2)
    assert figures["small"].fits and len(figures["small"].seconds) == 2
    assert not figures["large"].fits
    assert figures["small"].warm_up.seconds >= 0


def test_options_that_do_not_exist_are_named(tmp_path, documents):
    with pytest.raises(gpu_step.UnavailableError, match="there is no option compile_everything"):
        gpu_step.our_competitor("ours", str(tmp_path), documents, False, {"compile_everything": True})
