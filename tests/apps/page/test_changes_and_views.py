"""Session without a page: learning, correcting, listing."""

import copy

import pytest

from docsplit_hf.apps.page.changes import (
    SUGGESTIONS_PER_FIT,
    add_texts,
    give_label,
    keep_label,
    learn,
    remove_text,
    suggested_text,
)
from docsplit_hf.apps.page.sessions import PageLimits, Session, percentage
from docsplit_hf.apps.page.uploads import LabeledTexts, example_texts
from docsplit_hf.apps.page.views import (
    accuracy_text,
    answer,
    answer_markup,
    answered_percentages,
    audit_findings,
    coverage_text,
    error_rate_of,
    find_row,
    highlight_passage,
    highlight_words,
    labels_table,
    listed_texts,
)

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def unchanged(shared):
    """A session for tests that change nothing in it."""
    session = Session(shared.new_pipeline(), PageLimits())
    add_texts(session, example_texts())
    return session


def copy_of(session):
    return Session(copy.deepcopy(session.pipe), session.limits)


@pytest.fixture
def session(unchanged):
    return copy_of(unchanged)


@pytest.fixture(scope="module")
def corrected(unchanged):
    """A session whose two wrong labels are corrected, for tests that change nothing in it."""
    session = copy_of(unchanged)
    for finding in audit_findings(session)[1]:
        if finding.suggested:
            give_label(session, finding.text, finding.suggested, learn_now=False)
    learn(session)
    return session


def test_sessions_share_only_the_weights(shared, unchanged):
    other = Session(shared.new_pipeline(), PageLimits())
    own = unchanged.pipe.model
    others = other.pipe.model
    assert own.encoder is others.encoder and own.config is not others.config
    assert own.config.knn_calibration is not None and others.config.knn_calibration is None
    with pytest.raises(ValueError, match="No text has a label yet"):
        answer(other, "A star.")


def test_a_single_text_and_a_single_label_are_enough_to_answer(shared):
    session = Session(shared.new_pipeline(), PageLimits())
    said = add_texts(session, LabeledTexts(["The team won.", "A river.", "A river."], ["sport", None, None]))
    assert said == "Added 1 text with 1 label and 1 without. Not added again, as already there: 1."
    assert set(answer(session, "A game.").probabilities) == {"sport"}
    give_label(session, "The orchestra plays.", "music")
    assert list(answer(session, "The orchestra plays on.").probabilities)[0] == "music"


def test_a_label_is_given_to_examples_documents_and_new_texts(session):
    text = find_row(session, "0").text
    give_label(session, text, "cooking", learn_now=False)
    assert find_row(session, "0")[1:3] == ("cooking", text) and session.counts() == (40, 4, 33)
    give_label(session, suggested_text(session)["text"], "chess", learn_now=False)
    assert session.counts() == (41, 5, 32)
    give_label(session, "Checkmate by the queen in two moves.", "chess")
    assert session.counts() == (42, 5, 32)


def test_a_new_label_takes_the_place_of_the_one_that_a_text_had(shared):
    session = Session(shared.new_pipeline(), PageLimits())
    add_texts(session, LabeledTexts(["The team won.", "The choir sang."], ["sport", "music"]))
    give_label(session, "The team won.", "chess", learn_now=False)
    store = session.pipe.datastore
    assert [(text, store.label_names[label]) for text, label in zip(store.texts, store.labels, strict=True)] == [
        ("The choir sang.", "music"),
        ("The team won.", "chess"),
    ]


def test_texts_are_removed_with_a_label_or_without(session):
    examples = example_texts()
    suggested = suggested_text(session)["text"]
    for text in (suggested, examples.texts[0]):
        assert remove_text(session, text) == "The text is removed."
    assert session.counts() == (39, 4, 32) and suggested_text(session)["text"] != suggested
    with pytest.raises(ValueError, match="not there any more"):
        remove_text(session, suggested)


def test_a_removed_label_is_not_predicted(shared):
    session = Session(shared.new_pipeline(), PageLimits())
    add_texts(session, LabeledTexts(["The team won.", "The choir sang."], ["sport", "music"]))
    assert remove_text(session, "The choir sang.") == "The text is removed."
    assert next(iter(answer(session, "A song.").probabilities)) == "sport" and not session.fitted


def test_the_audit_finds_the_two_wrong_labels_and_omits_confirmed_ones(session):
    summary, found = audit_findings(session)
    assert summary == "40 of 40 labels checked, about 2 of them wrong. 3 texts to look at."
    assert {(one.label, one.suggested) for one in found if one.suggested} == {
        ("astronomy", "sport"),
        ("music", "cooking"),
    }
    assert [find_row(session, one.id).label for one in found] == [one.label for one in found]
    keep_label(session, found[0].text)
    assert audit_findings(session)[1] == found[1:]


def test_the_figures_agree_with_the_held_out_texts(unchanged):
    assert accuracy_text(unchanged) == (
        '**95% right** (83–99%<span class="more">; word counts 65%, always the largest label 27%</span>)'
    )
    assert sorted(int(row[1]) for row in labels_table(unchanged)) == [9, 9, 11, 11]
    recognized = [int(row[2][:-1]) for row in labels_table(unchanged)]
    assert recognized == sorted(recognized) and recognized[0] < 100  # the weakest first
    assert sum(int(row[1]) * int(row[2][:-1]) for row in labels_table(unchanged)) / 40 == pytest.approx(95, abs=0.5)


def test_more_texts_are_answered_at_a_higher_error_rate(corrected):
    shares = answered_percentages(corrected)
    assert (shares[1:] >= shares[:-1]).all() and coverage_text(corrected, 50).startswith(
        "**100% of the texts get an answer**"
    )
    least = int((shares == 0).sum()) + 1
    assert f"the lowest rate here is {least}%" in coverage_text(corrected, least - 1)
    assert corrected.fitted.guarantees.answered_fraction(error_rate_of(corrected, least)) == shares[least - 1] / 100 > 0


def test_unsure_texts_get_no_answer_and_novel_ones_a_warning(unchanged):
    given = answer(unchanged, "A star.")
    none = answer(unchanged, "A star.", 1)
    assert given.is_given and answer_markup(given).startswith(f'<h2 class="given">{given.label}</h2>')
    assert not none.is_given and answer_markup(none).startswith('<h2 class="none">No answer</h2>')
    assert none.label == given.label and f"It would have been {none.label}: " in none.confidence
    assert "for at most 1% wrong answers" in none.confidence
    assert "unlike all your texts" in answer(unchanged, "The tax form has seven pages.").confidence


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (1, "100%"),
        (0.9999, "above 99%"),
        (0.995, "above 99%"),
        (0.994, "99%"),
        (0.5, "50%"),
        (0.004, "below 1%"),
        (0, "0%"),
    ],
)
def test_only_exact_values_are_shown_as_0_or_100_percent(share, said):
    assert percentage(share) == said


def test_an_answer_says_what_speaks_for_it_and_against_it(unchanged):
    text = "The star of the football team scored a goal."
    found = answer(unchanged, text)
    explanation = unchanged.pipe(text, explain=True)[0]["explanation"]
    assert explanation["words_against"]
    assert found.confidence.endswith(explanation["summary"])
    assert [word for word, mark in found.words if mark] == [
        *(one["word"] for one in explanation["words"][:3]),
        *(f"−{one['word']}" for one in explanation["words_against"][:3]),
    ]


def test_markup_in_a_label_is_escaped(unchanged):
    found = answer(unchanged, "A star.")._replace(label=EVIL, probabilities={EVIL: 0.5}, confidence=f"Sure of {EVIL}.")
    assert "<img" not in answer_markup(found) and answer_markup(found).count("&lt;img") == 3


def test_first_suggestions_come_from_different_groups(shared):
    session = Session(shared.new_pipeline(), PageLimits())
    examples = example_texts()
    add_texts(session, LabeledTexts(examples.texts, [None] * len(examples.texts)))
    labels = dict(zip(examples.texts, examples.labels, strict=True))
    first = [suggested_text(session)["text"]]
    given = [labels[one["text"]] for one in session.suggestions]
    assert len(given) == SUGGESTIONS_PER_FIT and len(set(given) - {None}) == 4  # of all kinds
    for number, one in enumerate(list(session.suggestions)):
        give_label(session, one["text"], labels[one["text"]] or "astronomy", learn_now=False)
        assert session.stale == (len(session.labels) > 1 and number > 1) or session.fitted
    assert suggested_text(session)["text"] not in first and not session.stale  # it was learned
    assert session.fitted.report.examples == SUGGESTIONS_PER_FIT
    learn(session)


def test_the_list_finds_words_and_labels(unchanged):
    said, rows = listed_texts(unchanged)
    assert said == "73 texts: click one." and len(rows) == 73
    assert all(row.label == "music" or "music" in row.text for row in listed_texts(unchanged, "MUSIC")[1])
    with pytest.raises(ValueError, match="not there any more"):
        find_row(unchanged, "/etc/passwd")


def test_highlighted_parts_join_to_the_text_and_mark_whole_words():
    text = "Star and stars.\nThe STAR (a C++ star) sets."
    pieces = highlight_words(text, ["star"])
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece for piece, kind in pieces if kind == "word"] == ["Star", "STAR", "star"]
    assert highlight_words(text, []) == [(text, None)]
    assert highlight_words("", ["star"]) == []
    assert highlight_passage(text, ["star"], {"start": 16, "end": 24}) == [
        ("… ", None),
        ("The ", None),
        ("STAR", "word"),
        (" …", None),
    ]


def test_words_are_highlighted_in_scripts_without_spaces():
    assert highlight_words("我喜歡音樂會。", ["音樂"]) == [("我喜歡", None), ("音樂", "word"), ("會。", None)]
