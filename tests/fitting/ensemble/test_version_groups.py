"""Versions of one text are held out together, and nothing changes without versions."""

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.held_out_scores import folds_of, voters_in_corpus
from docsplit_hf.fitting.ensemble.preparing import VersionCounts, count_versions, fraction_of_versions, version_groups
from docsplit_hf.fitting.ensemble.problem import HeldOut, Problem
from docsplit_hf.fitting.ensemble.report import FitReport
from docsplit_hf.fitting.ensemble.scoring import prepare_experts
from docsplit_hf.fitting.experts.corpus import make_corpus
from docsplit_hf.reading.versions import VersionPairs

from .stores import ABOUT_CONTENT, training_data

NAMES = ["original", "amended"]
SIGN = {0: "hereby", 1: "whereas"}  # the word that shows the label
WORDS = 40


def contract(number, label):
    """A text with its own words, and a few that show the label."""
    own = [f"w{word}" for word in np.random.default_rng(number).integers(0, 2_000, WORDS)]
    return " ".join([*own[: WORDS // 2], SIGN[label], *own[WORDS // 2 :], SIGN[label], f"part{number % 7}"])


def versions_store(contracts=20, documents=()):
    """Each contract as original and amended; the embedding shows the contract, and hardly the label."""
    numbers = np.repeat(np.arange(contracts), 2)
    labels = np.tile([0, 1], contracts)
    keys = np.random.default_rng(0).standard_normal((contracts, 16))[numbers]
    keys[:, 0] += 0.1 * labels
    texts = [contract(number, label) for number, label in zip(numbers, labels, strict=True)]
    store = KNNDatastore(keys.astype(np.float32), labels, NAMES, texts)
    if len(documents):
        store.add_documents(np.ones((len(documents), 16), np.float32), list(documents))
    return store


def paraphrases(pairs, distance, seed=0):
    """Pairs of embeddings that are near each other; their texts share no word."""
    rng = np.random.default_rng(seed)
    keys = np.repeat(rng.standard_normal((pairs, 64)), 2, axis=0)
    keys += distance * rng.standard_normal(keys.shape)
    texts = [f"a{place} b{place} c{place}" for place in range(len(keys))]
    return KNNDatastore(keys.astype(np.float32), np.tile([0, 1], pairs), NAMES, texts)


def test_texts_whose_embeddings_are_much_nearer_to_one_another_than_to_others_are_versions():
    assert fraction_of_versions(make_corpus(paraphrases(30, 0.2).snapshot)) > 0.9
    assert fraction_of_versions(make_corpus(paraphrases(30, 5.0).snapshot)) < 0.1
    assert fraction_of_versions(make_corpus(paraphrases(2, 0.2).snapshot)) == 0  # too few to compare with


def test_copies_are_no_versions():
    store = paraphrases(20, 0.0)
    texts = [f"a{place // 2} b{place // 2}" for place in range(40)]
    assert fraction_of_versions(make_corpus(KNNDatastore(store.keys, store.labels, NAMES, texts).snapshot)) == 0


def test_an_example_is_compared_with_its_versions():
    corpus = make_corpus(versions_store().snapshot)
    targets = np.eye(2)[np.tile([0, 1], 20)]
    own = corpus.vectors[corpus.rows]
    data = training_data(corpus, corpus.rows, targets, compared=corpus)
    half = (own[::2] - own[1::2]) / 2
    np.testing.assert_allclose(
        data.differences(corpus.vectors, 7.0), np.stack([half, -half], 1).reshape(own.shape), atol=1e-6
    )
    some = data.of(np.arange(4))
    np.testing.assert_allclose(some.differences(corpus.vectors, 7.0)[::2], half[:2], atol=1e-6)


def test_an_example_without_versions_is_compared_with_what_is_typical():
    corpus = make_corpus(paraphrases(30, 5.0).snapshot)
    data = training_data(corpus, corpus.rows, np.eye(2)[np.tile([0, 1], 30)], compared=corpus)
    is_alone = np.diff(corpus.same.indptr)[corpus.text_numbers[corpus.rows]] == 0
    expected = corpus.vectors[corpus.rows[is_alone]] - np.float32(7.0)
    assert is_alone.sum() > 50 and np.array_equal(data.differences(corpus.vectors, 7.0)[is_alone], expected)


def test_how_versions_of_examples_are_written_is_known_beside_the_sampled_documents(monkeypatch):
    store = versions_store()
    examples = KNNDatastore(store.keys[:1], [0], ["original"], store.texts[:1])
    examples.add_documents(store.keys[1:], store.texts[1:])
    monkeypatch.setattr("docsplit_hf.fitting.experts.corpus.SAMPLED_DOCUMENTS", 0)
    corpus = make_corpus(examples.snapshot)
    assert set(corpus.described) == {corpus.rows[0], corpus.documents[0]}
    assert corpus.style[corpus.described].any(1).all()


def report_of(store):
    return fit_experts(Problem(store.snapshot, ABOUT_CONTENT), show_progress=False).report


def without_versions(monkeypatch):
    nothing = VersionPairs(np.zeros((0, 2), np.int64), np.zeros(0))
    monkeypatch.setattr("docsplit_hf.reading.versions.version_pairs", lambda texts: nothing)


def accuracy(report, expert="ensemble"):
    return next(record["accuracy"] for record in report.measured if record["expert"] == expert)


def test_versions_with_different_labels_no_longer_mislead(monkeypatch):
    found = report_of(versions_store())
    assert (found.versions, found.version_groups, found.contradictory) == (40, 20, 20)
    assert "40 of 40 examples are versions of another; they were measured with all versions held out" in str(found)
    assert "The versions of 20 of 20 texts have different labels, more than by chance" in str(found)
    without_versions(monkeypatch)
    before = report_of(versions_store())
    assert before.versions == 0 and "version" not in str(before)
    assert accuracy(before, "neighbors") < 0.2 < 0.35 < accuracy(found, "neighbors")
    assert accuracy(found) > accuracy(before) + 0.2


def test_versions_with_equal_labels_are_counted_only():
    numbers = np.repeat(np.arange(12), 2)
    labels = numbers % 2
    texts = [f"{contract(number, 0)} {'again' * (i % 2)}" for i, number in enumerate(numbers)]
    keys = np.random.default_rng(0).standard_normal((12, 16))[numbers].astype(np.float32)
    found = report_of(KNNDatastore(keys, labels, NAMES, texts))
    assert (found.versions, found.version_groups, found.contradictory) == (24, 12, 0)
    assert "24 of 24 examples are versions" in str(found) and "different labels" not in str(found)


def near_copies(texts=40, copies=3):
    """Numbers, keys and texts: each text several times, with a word of its own at the end."""
    numbers = np.repeat(np.arange(texts), copies)
    keys = np.random.default_rng(0).standard_normal((texts, 16))[numbers].astype(np.float32)
    return numbers, keys, [f"{contract(number, number % 2)} copy{i % copies}" for i, number in enumerate(numbers)]


def test_versions_count_once_in_all_that_is_promised():
    numbers, keys, texts = near_copies()
    store = KNNDatastore(keys, numbers % 2, NAMES, texts)
    fitted = fit_experts(Problem(store.snapshot), show_progress=False)
    report = fitted.report
    assert (report.examples, report.versions, report.texts) == (120, 120, 40)
    assert "40 texts can guarantee" in str(report) and "and count once" in str(report)
    assert fitted.guarantees.least_error() == pytest.approx(1 - 0.1 ** (1 / 40), abs=1e-6)
    assert fitted.guarantees.effective_size() == 40 and "that 40 held-out texts" in fitted.guarantees.describe(0.05)
    assert len(fitted.held_out.ids) == 120  # an audit checks the label of each version
    once = fitted.held_out.rows(fitted.held_out.is_counted)
    groups = make_corpus(store.snapshot).text_numbers  # all texts differ
    assert len(set(groups)) == 120 and fitted.held_out.is_counted.sum() == 40
    np.testing.assert_array_equal(once.probabilities, fitted.guarantees.held_out.probabilities)
    store.fitted = fitted.to_state()
    again = prepare_experts(store.snapshot).fitted
    assert again.guarantees.least_error() == fitted.guarantees.least_error() and len(again.held_out.ids) == 120


def test_held_out_texts_that_are_versions_of_one_another_count_once():
    numbers, keys, texts = near_copies()
    store = KNNDatastore(keys[:60], numbers[:60] % 2, NAMES, texts[:60])
    held_out = HeldOut(keys[60:], texts[60:], numbers[60:] % 2, None)
    assert fit_experts(Problem(store.snapshot, held_out=held_out), show_progress=False).report.texts == 20


@pytest.mark.parametrize("documents", [0, 30])
def test_without_versions_no_bit_changes(monkeypatch, documents):
    numbers = np.arange(40)
    labels = numbers % 2
    keys = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)
    texts = [contract(number, label) for number, label in zip(numbers, labels, strict=True)]
    texts[39] = texts[37]  # a copy is no version
    store = KNNDatastore(keys, labels, NAMES, texts)
    if documents:
        more = [contract(100 + number, number % 2) for number in range(documents)]
        store.add_documents(np.random.default_rng(1).standard_normal((documents, 16)).astype(np.float32), more)
    found = fit_experts(Problem(store.snapshot), show_progress=False)
    without_versions(monkeypatch)
    before = fit_experts(Problem(store.snapshot), show_progress=False)
    assert str(found.report) == str(before.report) and found.to_state().settings == before.to_state().settings
    after = found.to_state().arrays
    for name, array in before.to_state().arrays.items():
        assert array.tobytes() == after[name].tobytes(), name


def test_all_versions_are_in_one_fold_and_none_votes():
    store = versions_store()
    corpus = make_corpus(store.snapshot)
    groups = version_groups(corpus, corpus.rows, store.snapshot.labels)
    folds = folds_of(store.snapshot, corpus.rows, groups)
    assert (folds[::2] == folds[1::2]).all() and len(set(folds)) == 10
    order = np.argsort(corpus.rows)
    voters = voters_in_corpus(store.snapshot, corpus, order, groups)
    own = groups[corpus.rows[order]]
    votes_of_versions = np.where(groups[voters.places] == own[:, None], voters.weights, 0)
    assert not votes_of_versions.any() and np.allclose(voters.weights.sum(1), 1)
    before = voters_in_corpus(store.snapshot, corpus, order, None)
    assert np.where(groups[before.places] == own[:, None], before.weights, 0).sum(1).min() > 0.8


def test_a_document_connects_versions():
    half = WORDS // 2
    first, second = contract(50, 0).split(), contract(51, 1).split()
    document = " ".join([*first[:half], *second[:half]])
    store = versions_store(10, [document])
    store.add(np.ones((2, 16), np.float32), [0, 1], [" ".join(first), " ".join(second)])
    corpus = make_corpus(store.snapshot)
    groups = version_groups(corpus, corpus.rows, store.snapshot.labels)
    assert len(set(groups[corpus.rows[-2:]])) == 1
    counts = count_versions(corpus, corpus.rows, np.eye(2)[store.snapshot.labels], groups)
    assert counts == VersionCounts(examples=22, groups=11, contradictory=11)


def test_versions_with_the_same_label_do_not_mislead():
    numbers = np.repeat(np.arange(20), 2)
    texts = [contract(number, label) for number, label in zip(numbers, np.tile([0, 1], 20), strict=True)]
    keys = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)
    found = report_of(KNNDatastore(keys, numbers % 2, NAMES, texts))
    assert (found.versions, found.agreeing, found.contradictory, found.version_fraction) == (40, 20, 0, 1.0)
    assert not found.versions_mislead
    contradicting = report_of(versions_store())
    assert (contradicting.agreeing, contradicting.version_fraction) == (0, 1.0) and contradicting.versions_mislead


def test_a_label_with_versions_of_one_text_only_is_held_out_by_single_texts():
    store = versions_store(10)
    texts = [f"{contract(70, 0)} {' '.join(f'x{i}y{j}' for j in range(4))}" for i in range(4)]
    store.add(np.ones((4, 16), np.float32) + np.arange(4)[:, None] / 100, ["template"] * 4, texts)
    corpus = make_corpus(store.snapshot)
    groups = version_groups(corpus, corpus.rows, store.snapshot.labels)
    assert len(set(groups[corpus.rows[-4:]])) == 4 and len(set(groups[corpus.rows[:-4]])) == 10
    assert (folds_of(store.snapshot, corpus.rows, groups)[-4:] >= 0).all()


def test_texts_that_are_not_stored_are_different():
    store = KNNDatastore(np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32), [0, 1] * 6, NAMES)
    corpus = make_corpus(store.snapshot)
    assert len(set(version_groups(corpus, corpus.rows, store.snapshot.labels))) == 12


def test_several_labels():
    store = versions_store()
    labels = [[0], [0, 1]] * 20
    several = KNNDatastore(store.keys, labels, NAMES, store.texts, multi_label=True)
    found = report_of(several)
    assert (found.versions, found.contradictory) == (40, 20)
    settings = fit_experts(Problem(several.snapshot), show_progress=False).to_state().settings
    assert FitReport.of(settings) == found
    with pytest.raises(ValueError, match="versions=-1, which is impossible"):
        FitReport.of(settings | {"versions": -1})
