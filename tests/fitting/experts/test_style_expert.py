import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.explaining import explain
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.fitted_ensemble import Fit, check_state
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.report import FitReport
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.fitting.experts.registry import EXPERTS
from docsplit_hf.fitting.experts.style_expert import (
    LARGEST_PRIOR,
    LEAST_PRIOR,
    STYLE_NUMBERS,
    as_counted,
    prior_weight,
    style_of_texts,
    units_of,
)

from ..ensemble.stores import DIMENSION, fitted_store, score

WRITTEN = {
    "brief": lambda words: f"{words[0].upper()}! {words[1].upper()}! {words[2].upper()}!!",
    "long": lambda words: f"In the {words[0]}, and by the {words[1]}, they saw, after all, {words[2]}.",
}
WORDS = "apple iron fox stone pear wolf den mine juice ore".split()


def texts_of(style, count, seed):
    rng = np.random.default_rng(seed)
    return [WRITTEN[style](rng.choice(WORDS, 3)) for _ in range(count)]


def store_of_styles(examples=6):
    """Texts on equal things, with embeddings by chance: only how they are written tells the labels apart."""
    texts = [*texts_of("brief", examples, 1), *texts_of("long", examples, 2)]
    keys = np.random.default_rng(0).standard_normal((len(texts), DIMENSION)).astype(np.float32)
    return KNNDatastore(keys, np.repeat([0, 1], examples), list(WRITTEN), texts)


def test_texts_that_differ_in_how_they_are_written_are_told_apart_and_explained():
    store = store_of_styles()
    store.fitted = fit_experts(Problem(store.snapshot, ["neighbors", "style"]), show_progress=False).to_state()
    check_state(store.fitted, store.snapshot)
    asked = [*texts_of("brief", 5, 3), *texts_of("long", 5, 4)]
    keys = np.random.default_rng(5).standard_normal((10, DIMENSION)).astype(np.float32)
    experts = prepare_experts(store.snapshot)
    answers = score_texts(experts, keys, asked, None)
    assert (answers.weighted_logits[1].argmax(1) == np.repeat([0, 1], 5)).all()
    found = explain(answers, experts.ensemble, 0, 0)
    described = found["style"]
    assert described and "style_against" not in found
    assert any("exclamation marks" in part or "capital" in part for part in described)
    assert found["summary"].endswith(f" For it in how it is written: {'; '.join(described)}.")
    of_other = explain(answers, experts.ensemble, 0, 1)
    assert "style" not in of_other and of_other["style_against"] == described
    assert of_other["summary"].endswith(f" Against it in how it is written: {'; '.join(described)}.")


def test_the_report_describes_how_each_label_is_written():
    report = fit_experts(Problem(store_of_styles().snapshot, ["neighbors", "style"]), show_progress=False).report
    assert report.styles.keys() == set(WRITTEN) and all(report.styles.values())
    assert "\nHow 'brief' is written: " in str(report) and "exclamation marks" in "; ".join(report.styles["long"])
    restored = FitReport.of(report.__dict__)
    assert restored.styles == report.styles
    without = fit_experts(Problem(store_of_styles().snapshot, ["neighbors", "naive_bayes"]), show_progress=False).report
    assert without.styles == {} and "is written" not in str(without)


def test_one_number_of_each_subject_is_described():
    store = store_of_styles()
    fitted = fit_experts(Problem(store.snapshot, ["style"]), show_progress=False)
    learned = fitted.ensemble.learned.by_expert["style"]
    [style] = style_of_texts(["LOOK AT THIS WOLF"])
    described = EXPERTS["style"].described(learned, style, 0, 1)
    assert sum("capital" in part for part in described) == 1


def test_answers_of_experts_that_do_not_read_it_need_no_style():
    store = fitted_store(experts=["classifier", "naive_bayes"])
    assert score(store).style is None
    assert not [name for name in store.fitted.arrays if name.startswith("style")]


def test_a_saved_expert_answers_alike():
    store = store_of_styles()
    fitted = fit_experts(Problem(store.snapshot, ["style"]), show_progress=False)
    before = fitted.ensemble.learned.by_expert["style"]
    after = Fit.from_state(fitted.to_state()).ensemble.learned.by_expert["style"]
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])


def test_it_counts_more_where_names_mean_nothing_and_texts_are_versions_of_others():
    features = {"one": 1.0, "name_reliability": 1.0, "misleading_versions": 0.0}
    of_topics = prior_weight(features, 5)
    of_style = prior_weight(features | {"name_reliability": 0.0}, 5)
    of_versions = prior_weight(features | {"name_reliability": 0.0, "misleading_versions": 1.0}, 5)
    assert of_topics < of_style < of_versions
    assert prior_weight(features, 1) == LEAST_PRIOR
    assert prior_weight(features, 5, {"one": 99.0}) == 0.8 * LARGEST_PRIOR


def test_it_has_hardly_any_weight_while_each_label_has_one_example():
    few = fit_experts(Problem(store_of_styles(1).snapshot), show_progress=False).report.shares
    many = fit_experts(Problem(store_of_styles(6).snapshot), show_progress=False).report.shares
    assert few["style"] < 1e-5 and many["style"] > 0.05
    alone = fit_experts(Problem(store_of_styles(1).snapshot, ["style"]), show_progress=False)
    assert alone.report.shares == {"style": 1.0}


def counted(text):
    """Numbers of a text by name."""
    values = as_counted(style_of_texts([text])[0].astype(np.float64))
    return dict(zip([number.name for number in STYLE_NUMBERS], values, strict=True))


def test_numbers_of_a_text():
    found = counted("STOP!! I saw it, however.\n\n- two dogs\n- http://a.de 42 sooo...")
    assert found["N words"] == pytest.approx(12)
    assert found["N lines"] == pytest.approx(3)
    assert found["words in capitals"] == pytest.approx(1 / 12)
    assert found["capitalized words"] == pytest.approx(1 / 12, rel=1e-5)  # "I"
    assert found["lines that are items of a list"] == pytest.approx(2 / 3)
    assert found["repeated exclamation or question marks"] == pytest.approx(1 / 12)
    assert found["web addresses"] == pytest.approx(1 / 12)
    assert found["stretched letters, as in sooo"] == pytest.approx(1 / 12)
    assert found["capital letter at the beginning"] == 1
    assert found["full stop, exclamation or question mark at the end"] == 1


def test_words_are_counted_as_a_reader_counts_them():
    found = counted("I don't owe 500,000 in 2000, says O'Neill's aunt.")
    assert found["N words"] == pytest.approx(9)
    assert found["words of one character"] == pytest.approx(1 / 9)
    assert found["capitalized words"] == pytest.approx(2 / 9)  # I and O'Neill's
    assert found["words in lower case"] == pytest.approx(5 / 9)
    assert (found["words in capitals"], found["stretched letters, as in sooo"]) == (0, 0)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("An Effort to Save Flint, Mich., by Shrinking It", 1),
        ("Dr. Wolf and Mrs. Fox have No. 5 of 3.5 U.S. dollars.", 1),
        ("See www.a.com, e.g. the first page. It is short.", 2),
        ('"I saw it." He left. So did I. They stayed!', 4),
        ("it is iron . it is ore .", 2),
        ("Wait... what?! we stay. ", 3),
        ("Wir fahren. Über Land", 2),
        ("Он ушёл. Она осталась.", 2),
        ("One line\n\nand another", 2),
    ],
)
def test_a_full_stop_of_an_abbreviation_ends_no_sentence(text, sentences):
    assert counted(text)["N sentences"] == pytest.approx(sentences)


def test_sentences_of_languages_without_spaces_are_measured_in_characters():
    found = counted("我喜欢这本书。你呢？")
    assert found["N sentences"] == pytest.approx(2)
    assert found["sentences of N words on average"] == pytest.approx(4)


@given(st.lists(st.text(), max_size=3))
def test_numbers_of_any_text_are_finite_and_no_text_changes_another(texts):
    found = style_of_texts(texts)
    assert found.shape == (len(texts), len(STYLE_NUMBERS))
    assert np.isfinite(found).all() and (found >= 0).all()
    for text, numbers in zip(texts, found, strict=True):
        np.testing.assert_array_equal(style_of_texts([text])[0], numbers)


@pytest.mark.parametrize(
    ("name", "value", "typical", "units", "expected"),
    [
        ("sentences of N words on average", 31.2, 14, 1, "sentences of 31 words on average (typical: 14)"),
        ("N sentences", 1, 2.4, 1, "1 sentence (typical: 2.4)"),
        ("N lines", 3.01, 2.99, 1, ""),
        ("words of 7 or more characters", 0.32, 0.08, 100, "words of 7 or more characters: 32% (typical: 8%)"),
        ("words of 7 or more characters", 0.25, 0.08, 12, "words of 7 or more characters: 3 of 12, 25% (typical: 8%)"),
        ("words of 7 or more characters", 0.23, 0.08, 12.4, "words of 7 or more characters: 23% (typical: 8%)"),
        ("words of 7 or more characters", 0, 0.04, 12, ""),
        ("words of 7 or more characters", 0, 0.08, 12, "no words of 7 or more characters (typical: 8%)"),
        ("words in capitals", 0.2, 0.002, 50, "words in capitals: 20% (typical: under 1%)"),
        ("commas", 0.05, 0.01, 100, "commas: 5 (typical for this length: 1)"),
        ("commas", 0.05, 0.0001, 20, "commas: 1 (typical for this length: under 0.1)"),
        ("commas", 0, 0.012, 100, "no commas (typical for this length: 1.2)"),
        ("commas", 0, 0.012, 40, ""),
        ("capital letter at the beginning", 1, 0.4, 1, "a capital letter at the beginning (as 40% of all texts have)"),
        ("capital letter at the beginning", 0, 0.9, 1, "no capital letter at the beginning (as in 10% of all texts)"),
        ("capital letter at the beginning", 0.65, 0.4, 1, "65% with a capital letter at the beginning (typical: 40%)"),
    ],
)
def test_a_number_is_described_beside_that_of_a_typical_text(name, value, typical, units, expected):
    number = next(number for number in STYLE_NUMBERS if number.name == name)
    assert number.describe(value, typical, units) == expected


@given(st.text(st.characters(exclude_characters=" \t\r\x0b\x0c"), min_size=1, max_size=200))
def test_shares_and_frequencies_become_the_counts_of_a_text(text):
    counts = as_counted(style_of_texts([text])[0].astype(np.float64))
    units = units_of(counts)
    found = {number.name: count * units[number.kind] for number, count in zip(STYLE_NUMBERS, counts, strict=True)}
    is_blank = [not line.strip() for line in text.split("\n")]
    if sum(is_blank) > len(text) / 2 or any(line for line in text.split("\n") if not line.strip()):
        return  # the characters of lines of white space alone are not counted
    assert found["commas"] == pytest.approx(text.count(","), abs=0.01)
    assert found["digits"] == pytest.approx(sum(character.isdigit() for character in text), abs=0.01)
    assert found["line breaks"] == pytest.approx(text.count("\n"), abs=0.01)
