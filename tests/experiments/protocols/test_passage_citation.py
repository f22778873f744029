import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from docsplit_hf.arrays.passages import Passages
from experiments.evaluation.experiment import Evaluation
from experiments.evaluation.systems import load_system
from experiments.papers_options import NO_SEED, PaperSettings
from experiments.protocols.passage_citation import PASSAGE_CITATION, best_pairs, similarities, soft_maximum
from experiments.systems import with_passages
from experiments.tasks.citation_pairs import PairTask

COSINES = npst.arrays(
    np.float32, npst.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-1, 1, width=32)
)


@given(cosines=COSINES)
def test_a_soft_maximum_lies_between_the_mean_and_the_largest(cosines):
    found = soft_maximum(cosines)
    assert cosines.mean() - 1e-5 <= found <= cosines.max() + 1e-5
    assert soft_maximum(cosines.T) == pytest.approx(found, abs=1e-6)
    assert soft_maximum(np.tile(cosines, (2, 3))) == pytest.approx(found, abs=1e-5)


def test_closed_forms():
    assert best_pairs(np.array([[0.1, 0.9], [0.5, 0.7]])) == pytest.approx(0.7)
    assert best_pairs(np.array([[0.4]])) == soft_maximum(np.array([[0.4]])) == pytest.approx(0.4)
    assert soft_maximum(np.array([[0.0, np.log(3) / 20]])) == pytest.approx(np.log(2) / 20)


def test_the_similarities_of_documents_of_one_passage_are_cosines():
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(6, 8)).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    passages = Passages(embeddings, np.ones(6, int), np.zeros((6, 2), int))
    pairs = np.array([[0, 1], [2, 5]])
    found = similarities(passages, pairs)
    for suffix, vectors in (("", embeddings), ("_centered", embeddings - embeddings.mean(0))):
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        expected = (vectors[pairs[:, 0]] * vectors[pairs[:, 1]]).sum(1)
        for name in ("average", "best_pairs", "soft_maximum"):
            assert found[f"{name}{suffix}"] == pytest.approx(expected, abs=1e-6)


@pytest.fixture
def task(texts):
    """Long documents of six texts each; citing and cited document share half of their texts."""
    parts = [texts[6 * i : 6 * i + 6] for i in range(8)]
    documents = {str(i): " ".join(part) for i, part in enumerate(parts)}
    documents |= {f"{i}c": " ".join([*parts[(i + 1) % 8][:3], *part[3:]]) for i, part in enumerate(parts)}
    pairs = [(str(i), f"{i}c", 1) for i in range(8)] + [(str(i), f"{(i + 3) % 8}c", 0) for i in range(8)]
    return PairTask("pairs", documents, pairs[::2], pairs[1::2])


def test_all_passages_of_the_documents_are_measured(tiny_checkpoint, task, tmp_path):
    system = with_passages(load_system(str(tiny_checkpoint), tmp_path, max_length=64, long_documents="passages"))
    [measurement], left_out = PASSAGE_CITATION.plan(task, PaperSettings(max_length=64))
    assert (measurement.protocol, measurement.seed, left_out) == ("passage_citation", NO_SEED, [])
    evaluation = Evaluation(system, task)
    metrics = measurement.run(evaluation)
    measures = {f"{name}{suffix}" for name in ("average", "best_pairs", "soft_maximum") for suffix in ("", "_centered")}
    assert set(metrics) == {f"{name}_accuracy" for name in (*measures, "words", "passages_and_words")}
    assert all(0 <= value <= 1 for value in metrics.values()) and metrics["words_accuracy"] == 1
