"""The estimated time to embed texts, and the choice of what to read of them."""

import pytest
import torch

from docsplit_hf import KNNClassifier, KNNClassifierConfig
from docsplit_hf.encoding.chunking import token_counts
from docsplit_hf.encoding.classifier_embedder import make_embedder
from docsplit_hf.encoding.reading_time import LONGEST_WAIT, ReadingTime


@pytest.fixture
def embedder(make_tiny_config, tokenizer):
    torch.manual_seed(0)
    config = KNNClassifierConfig(encoder_config=make_tiny_config(), num_labels=0, pooling="mean")
    return make_embedder(KNNClassifier(config), tokenizer)


def test_the_estimate_follows_the_tokens_that_are_read(embedder, texts):
    """The longest text has half of all characters; the sample takes two seconds."""
    given = [*texts, *texts, " ".join([*texts, *texts])]
    reading = ReadingTime.measure(embedder, iter(given), clock=iter([100.0, 102.0]).__next__)
    tokens = {}
    for way in ("first", "whole"):
        chunks = embedder.with_options(long_documents=way).chunks(given, [None] * len(given))
        tokens[way] = token_counts(chunks, len(given))
    assert reading.texts == 97
    assert reading.whole / reading.first == pytest.approx(sum(tokens["whole"]) / sum(tokens["first"]), rel=0.15)
    assert reading.first == pytest.approx(2 * 97 / 16, rel=0.15)  # of the texts, most are longer than the encoder reads


@pytest.mark.parametrize(
    ("whole", "way", "is_chosen", "said"),
    [
        (LONGEST_WAIT, "whole", True, "Embedding 500 texts takes about 10 minutes ('whole')."),
        (
            7200,
            "first",
            True,
            "Embedding 500 texts takes about 60 seconds ('first'). Reading them whole would take about 2.0 hours: "
            "--long_documents whole does so.",
        ),
        (7200, "first", False, "Embedding 500 texts takes about 60 seconds ('first')."),
        (7200, "passages", False, "Embedding 500 texts takes about 2.0 hours ('passages')."),
    ],
)
def test_texts_are_read_whole_if_that_takes_minutes(whole, way, is_chosen, said):
    reading = ReadingTime(texts=500, first=60, whole=whole)
    assert not is_chosen or reading.choice == way
    assert reading.describe(way, is_chosen) == said
