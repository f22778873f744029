"""What a session does without a page: learning, correcting, the map, saving and loading."""

import shutil
import zipfile

import pytest

from docsplit_hf.demo.changes import (
    add_texts,
    give_label,
    open_classifier,
    remove_text,
    save_classifier,
    suggested_text,
)
from docsplit_hf.demo.sessions import Limits, Session
from docsplit_hf.demo.uploads import Texts, example_texts
from docsplit_hf.demo.views import answer, audit_table, document_map, pieces_of, text_of

COMPLETE = {  # in names
    "classifier/config.json": b'{"long_documents": "passages", "passage_length": 128}',
    "classifier/datastore/manifest.json": b"",
}


@pytest.fixture
def session(shared):
    session = Session(shared.new_pipeline(), Limits())
    add_texts(session, example_texts())
    return session


def test_sessions_share_the_weights_and_nothing_else(shared, session):
    other = Session(shared.new_pipeline(), Limits())
    own, others = session.pipe.model, other.pipe.model
    assert own.encoder is others.encoder and own.config is not others.config
    assert own.config.knn_calibration is not None and others.config.knn_calibration is None
    with pytest.raises(ValueError, match="No labeled texts yet"):
        answer(other, "A star.")


def test_one_text_of_each_label_is_enough_and_one_label_is_told_of(shared):
    session = Session(shared.new_pipeline(), Limits())
    said = add_texts(session, Texts(["The team won.", "A river.", "A river."], ["sport", None, None]))
    assert said.startswith("Added 1 text with a label and 1 without. Not added again, as already there: 1. Next: add")
    assert set(answer(session, "A game.").probabilities) == {"sport"}
    give_label(session, "The orchestra plays.", "music")
    assert list(answer(session, "The orchestra plays on.").probabilities)[0] == "music"


def test_a_label_is_given_to_examples_documents_and_new_texts(session):
    text, _ = text_of(session, "0")
    give_label(session, text, "cooking")
    assert text_of(session, "0") == (text, "cooking") and session.counts() == (40, 4, 33)
    give_label(session, suggested_text(session)["text"], "chess")
    assert session.counts() == (41, 5, 32)
    give_label(session, "Checkmate by the queen in two moves.", "chess")
    assert session.counts() == (42, 5, 32)


def test_texts_are_removed_with_a_label_or_without(session):
    examples = example_texts()
    suggested = suggested_text(session)["text"]
    for text in (suggested, examples.texts[0]):
        assert remove_text(session, text) == "The text is removed."
    assert session.counts() == (39, 4, 32) and suggested_text(session)["text"] != suggested
    with pytest.raises(ValueError, match="not there any more"):
        remove_text(session, suggested)


def test_nothing_is_known_of_a_label_that_is_gone(shared):
    session = Session(shared.new_pipeline(), Limits())
    add_texts(session, Texts(["The team won.", "The choir sang."], ["sport", "music"]))
    assert remove_text(session, "The choir sang.") == "The text is removed. Next: add texts of a second label."
    assert next(iter(answer(session, "A song.").probabilities)) == "sport" and not session.fitted


def test_the_audit_finds_the_two_wrong_labels(session):
    said, rows, ids = audit_table(session)
    assert said == "40 of 40 labels checked, about 2 of them wrong. 3 findings."
    assert {(row[1], row[2]) for row in rows if row[2]} == {("astronomy", "sport"), ("music", "cooking")}
    assert [text_of(session, row_id)[1] for row_id in ids] == [row[1] for row in rows]


def test_a_text_that_gets_a_label_stays_where_it_is_on_the_map(session):
    def points():
        _, value = document_map(session)
        return {text_of(session, row_id)[0]: (x, y, label) for x, y, label, row_id in value["points"]}

    before, text = points(), session.store.documents.texts[0]
    assert before[text][2] == -1 and all(0 <= x <= 1 and 0 <= y <= 1 for x, y, _ in before.values())
    give_label(session, text, "sport")
    after = points()
    assert {text: place[:2] for text, place in after.items()} == {text: place[:2] for text, place in before.items()}
    assert after[text][2] == before[session.store.texts[session.store.labels.tolist().index(0)]][2]
    with pytest.raises(ValueError, match="not there any more"):
        text_of(session, "/etc/passwd")


def test_a_saved_classifier_answers_as_before_and_its_weights_are_not_read(session, shared, tmp_path):
    saved = save_classifier(session)
    without = tmp_path / "without.zip"
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(without, "w") as smaller:
        for name in archive.namelist():
            if "datastore/" in name or name.endswith("/config.json"):
                smaller.writestr(name, archive.read(name))
    again = Session(open_classifier(without, shared, Limits()), Limits())
    text = example_texts().texts[-1]
    assert answer(again, text).probabilities == pytest.approx(answer(session, text).probabilities, abs=1e-6)
    with pytest.raises(ValueError, match="There are 4 different labels, and this page takes 3"):
        open_classifier(without, shared, Limits(labels=3))
    with pytest.raises(ValueError, match="unpacks to more"):
        open_classifier(without, shared, Limits(megabytes=0))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("classifier/datastore/../../../escaped", b"", "holds no classifier"),
        ("../datastore/escaped", b"", "holds no classifier"),
        ("classifier/datastore/data.pkl", b"cposix\nsystem\n.", "cannot be used"),
        ("classifier/config.json", b'{"long_documents": "all", "passage_length": 9}', "reads long texts by 'all'"),
        ("classifier/config.json", b"[]", "does not say how its texts were read"),
    ],
)
def test_a_zip_of_a_stranger_is_refused(shared, tmp_path, name, content, sentence):
    path = tmp_path / "zip" / "evil.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for one, held in (({} if "escaped" in name else COMPLETE) | {name: content}).items():
            archive.writestr(one, held)
    with pytest.raises(ValueError, match=sentence) as error:
        open_classifier(path, shared, Limits())
    assert str(tmp_path) not in str(error.value)
    assert not list(tmp_path.rglob("escaped"))
    shutil.copy(__file__, path)
    with pytest.raises(ValueError, match="evil.zip is not a zip file"):
        open_classifier(path, shared, Limits())


def test_pieces_join_to_the_text_and_mark_whole_words_and_the_passage():
    text = "Star and stars.\nThe STAR (a C++ star) sets."
    pieces = pieces_of(text, ["star"], {"start": 16, "end": 30})
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece for piece, kind in pieces if kind == "word"] == ["Star", "STAR", "star"]
    assert "".join(piece for piece, kind in pieces if kind == "passage") == "The  (a C+"
    assert pieces_of(text, []) == [(text, None)]
    assert pieces_of("", ["star"]) == []


def test_pairs_of_characters_are_found_where_no_spaces_are():
    assert pieces_of("我喜歡音樂會。", ["音樂"]) == [("我喜歡", None), ("音樂", "word"), ("會。", None)]
