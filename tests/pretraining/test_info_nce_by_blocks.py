"""InfoNCE by blocks equals InfoNCE of the whole matrix, and its memory does not grow with the matrix."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from docsplit_hf.pretraining import info_nce as module
from docsplit_hf.pretraining.info_nce import InfoNCE, comparable, in_batch_info_nce, info_nce
from docsplit_hf.pretraining.info_nce_by_blocks import info_nce_by_blocks


def random_embeddings(count, dimension, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, dimension, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def assert_equal(blocks, whole, inputs, tolerance=1e-6):
    """All fields, and the gradients of a loss with another weight for each anchor."""
    for field in InfoNCE._fields:
        torch.testing.assert_close(getattr(blocks, field), getattr(whole, field), atol=tolerance, rtol=0, msg=field)
        assert getattr(blocks, field).requires_grad == (field == "loss")
    weights = torch.linspace(0.5, 2, len(whole.loss), dtype=whole.loss.dtype)
    gradients = torch.autograd.grad((blocks.loss * weights).sum(), inputs)
    expected = torch.autograd.grad((whole.loss * weights).sum(), inputs)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, atol=tolerance, rtol=0)


@given(
    anchor_count=st.integers(1, 9),
    before=st.integers(0, 9),
    after=st.integers(0, 9),
    block_size=st.integers(1, 12),
    documents=st.none() | st.integers(1, 12),
    similarity=st.sampled_from(["cosine", "dot"]),
    temperature=st.sampled_from([0.05, 1.0]),
    seed=st.integers(0, 1000),
)
def test_blocks_equal_the_whole_matrix(
    anchor_count, before, after, block_size, documents, similarity, temperature, seed
):
    """Values and gradients in float64; with few documents, most candidates are duplicates, and whole blocks too."""
    anchors = random_embeddings(anchor_count, 4, seed)
    candidates = random_embeddings(before + anchor_count + after, 4, seed + 1)
    anchor_ids = candidate_ids = None
    if documents is not None:
        candidate_ids = torch.randint(documents, (len(candidates),), generator=torch.Generator().manual_seed(seed))
        anchor_ids = candidate_ids[before : before + anchor_count]
    whole = info_nce(anchors, candidates, temperature, before, anchor_ids, candidate_ids, similarity)
    assert whole.loss.dtype == torch.float64
    blocks = info_nce_by_blocks(
        comparable(anchors, similarity),
        comparable(candidates, similarity),
        temperature,
        first_positive=before,
        anchor_ids=anchor_ids,
        candidate_ids=candidate_ids,
        block_size=block_size,
    )
    assert_equal(blocks, whole, (anchors, candidates))


@pytest.mark.parametrize("views", [2, 3])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_loss_of_a_batch_is_computed_by_blocks_beyond_a_size(monkeypatch, views, similarity):
    embeddings = random_embeddings(views * 11, 8, seed=0)
    ids = torch.tensor([0, 1, 2, 3, 0, 4, 5, 6, 7, 5, 0])

    def contrast():
        return in_batch_info_nce(embeddings, ids, 0.3, similarity)

    whole = contrast()
    monkeypatch.setattr(module, "BLOCK_SIZE", 4)
    blocks = contrast()
    assert "_InfoNCEByBlocks" in str(graph_of(blocks.loss)) and "_InfoNCEByBlocks" not in str(graph_of(whole.loss))
    assert_equal(blocks, whole, (embeddings,))
    assert whole.negatives.tolist() == [8, 10, 10, 10, 8, 10, 9, 10, 10, 9, 8]


def graph_of(tensor):
    """The names of the functions that computed a tensor."""
    names = set()
    left = [tensor.grad_fn]
    while left:
        function = left.pop()
        if function is not None:
            names.add(function.name())
            left += [earlier for earlier, _ in function.next_functions]
    return names


def test_processes_with_a_part_of_the_anchors_each_add_up_to_the_whole_batch():
    """The gradient of gathered candidates is the sum over the processes."""
    anchors = random_embeddings(10, 4, seed=0)
    candidates = random_embeddings(10, 4, seed=1)
    ids = torch.tensor([0, 1, 2, 0, 3, 4, 5, 1, 6, 7])
    whole = info_nce(anchors, candidates, 0.3, 0, ids, ids, similarity="dot")

    def part(rows):
        return info_nce_by_blocks(anchors[rows], candidates, 0.3, rows.start, ids[rows], ids, block_size=3)

    of_both = zip(part(slice(0, 5)), part(slice(5, 10)), strict=True)
    joined = InfoNCE._make(torch.cat(values) for values in of_both)
    assert_equal(joined, whole, (anchors, candidates))


@pytest.mark.parametrize("with_ids", [False, True])
def test_gradients_are_those_of_finite_differences(with_ids):
    anchors = random_embeddings(5, 3, seed=0)
    candidates = random_embeddings(8, 3, seed=1)
    ids = torch.tensor([1, 2, 3, 4, 5, 2, 7, 4]) if with_ids else None

    def loss(anchors, candidates):
        anchor_ids = ids[2:7] if with_ids else None
        return info_nce_by_blocks(anchors, candidates, 0.5, 2, anchor_ids, ids, block_size=3).loss

    assert torch.autograd.gradcheck(loss, (anchors, candidates))
    assert torch.autograd.gradcheck(lambda anchors: loss(anchors, candidates.detach()), (anchors,))
    assert torch.autograd.gradcheck(lambda candidates: loss(anchors.detach(), candidates), (candidates,))


def test_orthogonal_documents_give_the_closed_form():
    embeddings = torch.eye(7)
    result = info_nce_by_blocks(embeddings, embeddings, temperature=0.5, block_size=3)
    assert result.loss == pytest.approx([math.log(1 + 6 * math.exp(-2))] * 7, abs=1e-6)
    assert (result.correct == 1).all() and (result.positive_similarity == 1).all()
    assert (result.negative_similarity == 0).all() and (result.negatives == 6).all()


def test_with_duplicates_only_loss_and_gradients_are_0():
    anchors = random_embeddings(7, 4, seed=0, dtype=torch.float32)
    candidates = random_embeddings(7, 4, seed=1, dtype=torch.float32)
    ids = torch.zeros(7, dtype=torch.int64)
    result = info_nce_by_blocks(anchors, candidates, 0.05, 0, ids, ids, block_size=2)
    result.loss.sum().backward()
    assert (result.loss == 0).all() and (result.correct == 1).all()
    assert (result.negatives == 0).all() and (result.negative_similarity == 0).all()
    assert (anchors.grad == 0).all() and (candidates.grad == 0).all()


@pytest.mark.parametrize("block_size", range(1, 8))
def test_of_equal_candidates_the_first_counts_as_most_similar(block_size):
    """Anchors 2, 3 and 4 have equal positives: only that of anchor 2 is the most similar, as for argmax."""
    candidates = torch.eye(6)
    candidates[3:5] = candidates[2]
    result = info_nce_by_blocks(candidates, candidates, 0.5, block_size=block_size)
    assert result.correct.tolist() == [1, 1, 1, 0, 0, 1] == info_nce(candidates, candidates, 0.5).correct.tolist()


@pytest.mark.parametrize("scale", [0.01, 1, 100])
def test_float32_is_as_exact_as_the_whole_matrix(scale):
    """With logits of any size, against float64."""
    anchors = random_embeddings(300, 16, seed=0).detach()
    candidates = (anchors + 3 * random_embeddings(300, 16, seed=1).detach()).requires_grad_()
    anchors = anchors * scale
    single = candidates.detach().float().requires_grad_()

    def gradient(loss, candidates):
        return torch.autograd.grad(loss.mean(), candidates)[0]

    exact = gradient(info_nce(anchors, candidates, similarity="dot").loss, candidates)
    whole = gradient(info_nce(anchors.float(), single, similarity="dot").loss, single)
    blocks = gradient(info_nce_by_blocks(anchors.float(), single, 0.05, block_size=37).loss, single)
    assert (exact.abs().amax() > 1e-3 * scale) and (blocks - exact).abs().max() <= 1.5 * (whole - exact).abs().max()


def test_autocast_and_low_precision_change_nothing(monkeypatch):
    """Neither in the forward pass nor in the backward pass."""
    embeddings = random_embeddings(40, 64, seed=0, dtype=torch.bfloat16)
    monkeypatch.setattr(module, "BLOCK_SIZE", 7)

    def loss_and_gradient(embeddings, enabled):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = info_nce(*embeddings.chunk(2)).loss
            return loss, torch.autograd.grad(loss.mean(), embeddings)[0]

    loss, gradient = loss_and_gradient(embeddings, enabled=True)
    expected, expected_gradient = loss_and_gradient(embeddings.detach().float().requires_grad_(), enabled=False)
    assert loss.dtype == torch.float32 and loss.equal(expected)
    assert gradient.equal(expected_gradient.bfloat16())


class LargestOutput(TorchDispatchMode):
    """Records the number of elements of the largest tensor that is computed."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        for value in output if isinstance(output, tuple | list) else [output]:
            if isinstance(value, torch.Tensor):
                self.elements = max(self.elements, value.numel())
        return output


@pytest.mark.parametrize("candidate_count", [256, 512, 1024, 2048])
def test_no_tensor_is_larger_than_a_block_however_many_candidates_there_are(monkeypatch, candidate_count):
    anchors = random_embeddings(256, 1, seed=0)
    candidates = random_embeddings(candidate_count, 1, seed=1)
    candidate_ids = torch.arange(candidate_count) // 2

    def largest():
        with LargestOutput() as mode:
            loss = info_nce(anchors, candidates, 1.0, 0, candidate_ids[:256], candidate_ids, similarity="dot").loss
            torch.autograd.grad(loss.sum(), (anchors, candidates))
        return mode.elements

    assert largest() == 256 * candidate_count
    monkeypatch.setattr(module, "BLOCK_SIZE", 64)
    assert largest() == max(64**2, candidate_count)  # a block, or the candidates


def test_a_positive_that_is_missing_is_named(monkeypatch):
    for block_size in (2048, 2):
        monkeypatch.setattr(module, "BLOCK_SIZE", block_size)
        with pytest.raises(ValueError, match="positives of 4 anchors begin at row 3, but there are 6 candidates"):
            info_nce(torch.eye(4), torch.ones(6, 4), first_positive=3)
