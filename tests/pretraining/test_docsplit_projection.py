"""DocSplit in closed form."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import Ridge

from docsplit_hf import AutoModelForDocSplit, DocSplitProjection, DocumentEncoder, KNNClassifier
from docsplit_hf.pretraining.docsplit_projection import SHRINKAGES, choose_shrinkage, half_document_projection
from docsplit_hf.pretraining.half_retrieval import half_texts


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def encoder(make_tiny_config, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    AutoModelForDocSplit.from_config(make_tiny_config(), pooling="mean").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return DocumentEncoder.from_pretrained(str(folder), max_length=48)


@pytest.fixture(scope="module")
def projection(encoder, texts):
    return DocSplitProjection.fit(encoder, texts, shrinkage=0.3, seed=5, show_progress=False)


def test_a_projection_equals_its_definition_on_document_halves(encoder, projection, texts):
    first, second = (encoder.encode(half, show_progress=False).astype(float) for half in half_texts(texts, 5))
    x = np.concatenate([first, second])
    y = np.concatenate([second, first])
    mean = x.mean(0)
    total = (x - mean).T @ (x - mean) / len(x)
    cross = (x - mean).T @ (y - mean) / len(x)
    ridge = 0.3 * np.trace(total) / 32
    ratio = np.trace(cross) / np.trace(total)
    matrix = np.linalg.inv(total + ridge * np.eye(32)) @ (cross + ridge * ratio * np.eye(32))
    embeddings = encoder.encode(texts, show_progress=False)
    assert projection(embeddings) == pytest.approx(unit((embeddings - mean) @ matrix), abs=1e-5)
    assert projection(3 * embeddings) == pytest.approx(projection(embeddings), abs=1e-6)
    assert projection(embeddings).dtype == np.float32


def test_the_default_shrinkage_is_chosen_on_document_halves(encoder, texts, caplog):
    first, second = (unit(encoder.encode(half, show_progress=False)) for half in half_texts(texts, 0))
    with caplog.at_level("INFO", "docsplit_hf"):
        fitted = DocSplitProjection.fit(encoder, texts, show_progress=False)
    shrinkage, error = choose_shrinkage(first, second)
    mean, matrix = half_document_projection(first, second, shrinkage)
    assert fitted.matrix == pytest.approx(matrix, abs=1e-4)
    assert f"Shrinkage {shrinkage:g}, " in caplog.text
    assert f"predicts {1 - error:.0%} of the variance of the other. 48 documents." in caplog.text


def test_a_saved_projection_gives_the_same_embeddings_in_all_libraries(encoder, projection, texts, tmp_path):
    projection.save_pretrained(tmp_path, encoder)
    expected = projection(encoder.encode(texts, show_progress=False))
    assert abs(expected - encoder.encode(texts, show_progress=False)).max() > 0.1
    loaded = DocumentEncoder.from_pretrained(str(tmp_path))
    assert loaded.encode(texts, show_progress=False) == pytest.approx(expected, abs=1e-5)
    assert SentenceTransformer(str(tmp_path)).encode(texts) == pytest.approx(expected, abs=1e-5)
    assert (loaded.pooling, loaded.max_length, loaded.dimension) == ("mean", 48, 32)
    assert not list(tmp_path.rglob("*.bin"))
    assert "docsplit" not in json.loads((tmp_path / "config.json").read_text())


def test_models_without_dense_layers_refuse_the_checkpoint(encoder, projection, tmp_path):
    projection.save_pretrained(tmp_path, encoder)
    for load in (AutoModelForDocSplit.from_pretrained, KNNClassifier.from_encoder):
        with pytest.raises(ValueError, match="(?i)dense"):
            load(str(tmp_path))
    with pytest.raises(ValueError, match="has 32 dimensions, the projection has 2"):
        DocSplitProjection(np.zeros(2), np.eye(2)).save_pretrained(tmp_path, encoder)
    with pytest.raises(ValueError, match="has dense layers already: apply the projection to its embeddings instead"):
        projection.save_pretrained(tmp_path / "again", DocumentEncoder.from_pretrained(str(tmp_path)))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: DocSplitProjection.from_halves(x, x[:5]), r"The halves are \(6, 3\) and \(5, 3\)"),
        (lambda x: DocSplitProjection.from_halves(x, x, shrinkage=0), "shrinkage must be above 0, got 0"),
        (lambda x: DocSplitProjection.from_halves(x, x * np.nan), "NaN or infinity among them"),
        (lambda x: DocSplitProjection(x[0], x), r"got a mean \(3,\) and a map \(6, 3\)"),
        (lambda x: DocSplitProjection(x[0], np.full((3, 3), np.inf)), "holds NaN or infinity"),
        (lambda x: DocSplitProjection(np.zeros(2), np.eye(2))(x), "has 2 dimensions, the embeddings are"),
        (lambda x: DocSplitProjection.from_halves(x[:4], x[:4]), "4 documents are too few to choose a shrinkage on"),
    ],
)
def test_invalid_arrays_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.random.default_rng(0).normal(size=(6, 3)))


def halves(documents, seed=0, dimensions=12, shared=3, noise=0.5):
    """Halves with a common signal in the first dimensions, and independent noise in all dimensions."""
    rng = np.random.default_rng(seed)
    signal = np.zeros((documents, dimensions))
    signal[:, :shared] = rng.normal(size=(documents, shared))
    first = signal + noise * rng.normal(size=signal.shape) + 0.3
    second = signal + noise * rng.normal(size=signal.shape) + 0.3
    return first, second


@pytest.mark.parametrize("shrinkage", [0.0, 0.1, 3.0])
def test_the_map_is_a_ridge_regression_between_halves_shrunk_to_a_multiple_of_the_identity(shrinkage):
    first, second = halves(40)
    mean, matrix = half_document_projection(first, second, shrinkage)
    assert mean == pytest.approx(np.concatenate([first, second]).mean(0))
    x = np.concatenate([first, second]) - mean
    y = np.concatenate([second, first]) - mean
    scale = (x**2).sum() / len(x) / x.shape[1]
    ratio = (x * y).sum() / (x * x).sum()
    ridge = Ridge(alpha=shrinkage * scale * len(x), fit_intercept=False).fit(x, y - ratio * x)
    assert matrix == pytest.approx(ridge.coef_.T + ratio * np.eye(12), abs=1e-9)


def test_with_many_documents_the_map_keeps_only_the_common_signal():
    first, second = halves(200_000)
    _, matrix = half_document_projection(first, second, shrinkage=0.0)
    expected = np.diag([1 / (1 + 0.5**2)] * 3 + [0.0] * 9)  # variance of the document over that of a half
    assert matrix == pytest.approx(expected, abs=0.01)


def test_the_shrinkage_is_chosen_by_cross_validation():
    first, second = halves(60)
    mean = np.concatenate([first, second]).mean(0)
    first = first - mean
    second = second - mean
    fold = np.random.default_rng(7).permutation(60) % 5
    errors = []
    for shrinkage in SHRINKAGES:
        error = 0.0
        for number in range(5):
            held_out = fold == number
            # The mean of all documents is used in each fold: mirrored halves have a mean of 0.
            kept_first = np.concatenate([first[~held_out], -first[~held_out]])
            kept_second = np.concatenate([second[~held_out], -second[~held_out]])
            _, matrix = half_document_projection(kept_first, kept_second, shrinkage)
            error += ((first[held_out] @ matrix - second[held_out]) ** 2).sum()
            error += ((second[held_out] @ matrix - first[held_out]) ** 2).sum()
        errors.append(error / ((first**2).sum() + (second**2).sum()))
    best = int(np.argmin(errors))
    assert 0 < best < len(SHRINKAGES) - 1
    assert choose_shrinkage(first + mean, second + mean, seed=7) == pytest.approx((SHRINKAGES[best], errors[best]))
