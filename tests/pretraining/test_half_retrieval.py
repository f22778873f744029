"""Half-document retrieval and its metrics."""

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.pretraining.half_retrieval import half_retrieval_metrics, half_texts


def test_metrics_of_perfect_and_of_reversed_rankings():
    halves = torch.eye(12)
    perfect = half_retrieval_metrics(halves, 3 * halves)
    assert perfect == {"recall@1": 1, "recall@10": 1, "mrr": 1, "chance_recall@1": pytest.approx(1 / 12)}
    worst = half_retrieval_metrics(halves, -halves)
    assert worst["recall@1"] == worst["recall@10"] == 0 and worst["mrr"] == pytest.approx(1 / 12)


def test_duplicates_of_a_document_are_not_wrong_answers():
    halves = torch.eye(3)[[0, 0, 1]]
    assert half_retrieval_metrics(halves, halves)["recall@1"] == pytest.approx(1 / 3)
    assert half_retrieval_metrics(halves, halves, torch.tensor([5, 5, 6]))["recall@1"] == 1


def test_chunks_give_the_same_as_one_matrix():
    generator = torch.Generator().manual_seed(0)
    anchors, positives = torch.randn(2, 2500, 8, generator=generator)
    similarity = torch.nn.functional.normalize(anchors) @ torch.nn.functional.normalize(positives).T
    ranks = (similarity > similarity.diagonal()[:, None]).sum(1) + 1
    assert half_retrieval_metrics(anchors, positives)["mrr"] == pytest.approx((1 / ranks).mean().item(), rel=1e-4)


def test_both_halves_have_the_texts_sentences_in_order():
    texts = ["".join(f"Sentence {i} of {n}. " for i in range(n)) for n in range(2, 12)]
    first, second = half_texts(texts, seed=3)
    assert (first, second) == half_texts(texts, seed=3) != half_texts(texts, seed=4)
    assert len(first) == len(second) == len(texts)
    for text, *halves in zip(texts, first, second, strict=True):
        places = [[text.index(sentence) for sentence in half.strip().split(". ")] for half in halves]
        assert all(half == sorted(half) for half in places)
        assert len(set(places[0] + places[1])) == text.count(".") == len(places[0] + places[1])


@given(st.lists(st.text(alphabet="ab. \n!", max_size=20), max_size=6))
def test_halves_keep_all_characters_of_any_text(texts):
    try:
        first, second = half_texts(texts, 0)
    except ValueError:
        return
    whole = {"".join(sorted(text)) for text in texts}
    assert all("".join(sorted(one + other)) in whole for one, other in zip(first, second, strict=True))
    assert all(half for half in first + second)


def test_single_sentences_and_repeated_texts_are_left_out_and_counted(caplog):
    with caplog.at_level(logging.INFO, "docsplit_hf"):
        first, _ = half_texts(["One. Two.", "Alone.", "One. Two.", "", "Three. Four."], 0)
    assert len(first) == 2
    assert "2 of 5 documents. Left out: 2 of one sentence, 1 repeated." in caplog.text
    with pytest.raises(ValueError, match="1 of 2 documents can be halved"):
        half_texts(["One. Two.", "Alone."], 0)
