import torch
from torch.nn.functional import normalize

from docsplit_hf.models.inference.long_documents.pieces import Piece
from docsplit_hf.models.inference.piece_embeddings import PieceAverages
from docsplit_hf.pretraining.passage_pooling import pool_passages


def batch_of(counts, lengths):
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"passage_counts": torch.tensor(counts), "attention_mask": mask}


def test_the_mean_of_directions_by_tokens_has_the_mean_norm_by_tokens():
    embeddings = torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 5.0]])
    pooled = pool_passages(embeddings, batch_of([2, 1], [6, 2, 4]))
    expected = normalize(torch.tensor([[6.0, 2.0]])) * (6 * 3 + 2 * 1) / 8
    torch.testing.assert_close(pooled, torch.cat([expected, embeddings[2:]]))


def test_it_is_what_inference_makes_of_as_many_tokens():
    rows, lengths = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), [7, 3, 2, 9, 4]
    averages, texts = PieceAverages(2, 4), [0, 0, 0, 1, 1]
    averages.add([Piece(text, None, 0, 0, weight) for text, weight in zip(texts, lengths, strict=True)], rows)
    torch.testing.assert_close(pool_passages(rows, batch_of([3, 2], lengths)), averages.all())


def test_passages_of_norm_1_give_norm_1():
    embeddings = normalize(torch.randn(9, 5, generator=torch.Generator().manual_seed(0)))
    pooled = pool_passages(embeddings, batch_of([4, 1, 1, 3], [7, 3, 2, 9, 9, 1, 4, 4, 6]))
    torch.testing.assert_close(pooled.norm(dim=1), torch.ones(4))


def test_one_row_for_each_view_is_left_as_it_is():
    embeddings = torch.randn(3, 5)
    assert pool_passages(embeddings, batch_of([1, 1, 1], [7, 3, 2])) is embeddings
    assert pool_passages(embeddings, {}) is embeddings


def test_gradients_are_those_of_the_equation():
    torch.manual_seed(0)
    embeddings = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: pool_passages(rows, batch_of([3, 2], [7, 3, 2, 9, 9])), embeddings)
