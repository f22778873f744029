import numpy as np
import pytest
from scipy import sparse

from docsplit_hf import DocumentEncoder
from docsplit_hf.experiments.protocols.subject import Subject, combine_pairs, document_encoder
from docsplit_hf.experiments.systems.encoders import EncoderWithOptions
from docsplit_hf.experiments.systems.loading import BM25System, EncoderSystem, TfidfSystem
from docsplit_hf.experiments.tasks.loading import ClassificationTask, CorpusTask, PairTask


class LengthEncoder:
    """Counts what it embeds."""

    fingerprint = "the length of a text, as an angle"

    def __init__(self):
        self.seen = []

    def encode(self, texts, show_progress=True):
        self.seen += texts
        return np.array([[np.cos(len(text)), np.sin(len(text))] for text in texts], dtype=np.float32)


@pytest.fixture
def encoder():
    return LengthEncoder()


@pytest.fixture
def system(encoder):
    return EncoderSystem("length", encoder, show_progress=False)


def test_features_are_made_once_whoever_asks(encoder, system):
    labels = np.array([0, 1])
    subject = Subject(system, ClassificationTask("t", ["a", "bb"], labels, ["ccc", "d"], labels, ["x", "y"]))
    for _ in range(3):
        train, test = subject.classification_features
    assert encoder.seen == ["a", "bb", "ccc", "d"]
    assert train == pytest.approx(LengthEncoder().encode(["a", "bb"])) and test.shape == (2, 2)


@pytest.mark.parametrize("name", ["encoder", "tfidf"])
def test_two_texts_become_one_vector(system, name):
    labels = np.array([0, 1])
    texts = (["red fruit", "grey stone"], labels, ["red stone"], labels[:1], ["x", "y"])
    task = ClassificationTask("t", *texts, train_pairs=["red fruit", "red"], test_pairs=["grey fruit"])
    train, test = Subject(system if name == "encoder" else TfidfSystem(), task).classification_features
    dimensions = train.shape[1] // 4
    assert train.shape == (2, 4 * dimensions) and test.shape == (1, 4 * dimensions)
    same = _dense(train)[0].reshape(4, dimensions)  # of a text with itself
    np.testing.assert_allclose(same[0], same[1])
    assert not same[2].any() and same[3] == pytest.approx(same[0] ** 2)


def test_dense_and_sparse_pairs_are_combined_alike():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3, 5))
    both = combine_pairs(sparse.csr_matrix(first), sparse.csr_matrix(second))
    np.testing.assert_allclose(both.toarray(), combine_pairs(first, second))


@pytest.mark.parametrize("name", ["encoder", "tfidf", "bm25"])
def test_pairs_of_documents_get_the_features_of_their_documents(system, name):
    documents = {key: f"{key} alone and {key * 3} with others" for key in "abcdef"}
    task = PairTask("cited", documents, [("a", "b", 1), ("c", "a", 0)], [("d", "a", 1), ("e", "f", 0)])
    chosen = {"encoder": system, "tfidf": TfidfSystem(), "bm25": BM25System()}[name]
    train, test = Subject(chosen, task).citation_features
    assert train.labels.tolist() == [1, 0] and test.labels.tolist() == [1, 0]
    # What is fitted has seen the documents of the training pairs only; those are a, b, c, in this order.
    known, others = chosen.features([documents[key] for key in "abc"], [documents[key] for key in "def"])
    for found, expected in (
        (train.first, known[[0, 2]]), (train.second, known[[1, 0]]), (test.first, others[[0, 1]]),
    ):  # fmt: skip
        np.testing.assert_allclose(_dense(found), _dense(expected), rtol=1e-6)
    np.testing.assert_allclose(_dense(test.second)[0], _dense(known)[0], rtol=1e-6)


def test_documents_of_the_training_pairs_alone(system):
    task = PairTask("cited", {"a": "One.", "b": "Two."}, [("a", "b", 1)], [("b", "a", 0)])
    train, test = Subject(system, task).citation_features
    np.testing.assert_array_equal(train.first, test.second)


@pytest.mark.parametrize("name", ["encoder", "tfidf"])
def test_halves_belong_together(system, name):
    texts = [f"Text {number} is here. It is number {number} of all. It ends." for number in range(4)]
    first, second = Subject(system if name == "encoder" else TfidfSystem(), CorpusTask("t", texts)).half_features(0)
    assert first.shape == second.shape and first.shape[0] == 4


def test_only_an_encoder_with_its_weights_has_attention(system, tiny_checkpoint):
    encoder = DocumentEncoder.from_pretrained(str(tiny_checkpoint))
    assert document_encoder(EncoderSystem("ours", encoder)) is encoder
    assert document_encoder(EncoderSystem("ours", EncoderWithOptions(encoder, bf16=True))) is encoder
    assert document_encoder(system) is None and document_encoder(TfidfSystem()) is None


def _dense(features):
    return features.toarray() if sparse.issparse(features) else np.asarray(features)
