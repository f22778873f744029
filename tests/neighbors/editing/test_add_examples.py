import threading

import pytest


def names_of(texts):
    return ["river" if "river" in text else "other" for text in texts]


def test_examples_on_an_encoder_without_a_head_are_a_classifier(untrained, texts):
    names = names_of(texts)
    ids = untrained.add_examples(texts[:40], names[:40])
    assert ids == [str(i) for i in range(40)]
    assert untrained.model.config.knn_calibration["examples"] == 40
    answers = untrained(texts[:40], k=1)
    assert [answer["label"] for answer in answers] == names[:40]
    untrained.remove_examples(ids[:20])
    left = untrained({"text": texts[0]}, return_neighbors=64, k=64)["neighbors"]
    assert len(left) == 20 and not {neighbor["id"] for neighbor in left} & set(ids[:20])
    untrained.add_examples([texts[0]], ["brand new"], ids=["mine"])
    assert untrained({"text": texts[0]}, k=1)["label"] == "brand new"


def test_examples_may_come_class_by_class(untrained, texts):
    for name in ("sport", "food", "sea"):
        untrained.add_examples([f"{name} {text}" for text in texts[:6]], [name] * 6)
    assert untrained.datastore.label_names == ("sport", "food", "sea")
    assert untrained({"text": f"food {texts[0]}"}, k=1)["label"] == "food"
    report = untrained.fit(show_progress=False)
    assert report.labels == ["sport", "food", "sea"] and report.texts == 18


def test_a_trained_head_does_not_know_a_new_label(pipe, texts):
    with pytest.raises(ValueError, match="'rivers' is none of river, engine. Did you mean 'river'.*allow_new_labels"):
        pipe.add_examples([texts[0]], ["rivers"])


def test_a_failed_addition_leaves_nothing_behind(untrained, texts):
    with pytest.raises(TypeError, match="not a name"):
        untrained.add_examples([texts[0]], [None])
    assert untrained.datastore is None and untrained.add_examples([texts[0]], ["river"]) == ["0"]


def test_several_labels(untrained, texts):
    untrained.add_examples(texts[:10], [["a", "b"], ["b"]] * 5)
    (answer,) = untrained([texts[1]], k=1, top_k=None, return_neighbors=1)
    scores = {entry["label"]: entry["score"] for entry in answer}
    assert scores == {"b": pytest.approx(11 / 12), "a": pytest.approx(1 / 12)}
    assert answer[0]["neighbors"][0]["labels"] == ["b"]


def test_new_labels_after_training_get_what_the_neighbors_give(pipe, texts):
    pipe.add_examples(["a glacier in winter"], ["ice"], allow_new_labels=True)
    answer = pipe({"text": "a glacier in winter"}, k=1, top_k=None)
    assert {entry["label"]: entry["score"] for entry in answer}["ice"] == pytest.approx(0.4 * 50 / 52)
    assert sum(entry["score"] for entry in answer) == pytest.approx(1)


def calibrated(pipe):
    return pipe.model.config.k, pipe.model.config.knn_temperature, pipe(["the river", "a glacier"], top_k=None)


def test_adding_the_same_examples_again_changes_nothing(untrained, texts, caplog):
    """As running a cell of a notebook again does."""
    ids = untrained.add_examples(texts[:40], names_of(texts[:40]))
    before = calibrated(untrained)
    assert untrained.add_examples(texts[:40], names_of(texts[:40])) == ids
    assert len(untrained.datastore) == 40 and calibrated(untrained) == before
    assert "40 of 40 examples are there already" in caplog.text
    more = untrained.add_examples([texts[40], texts[3], texts[40]], names_of([texts[40], texts[3], texts[40]]))
    assert more == ["40", "3", "40"] and len(untrained.datastore) == 41
    assert "2 of 3 examples are there already" in caplog.text


def test_duplicates_that_are_asked_for_do_not_touch_the_calibration(untrained, texts):
    untrained.add_examples(texts[:40], names_of(texts[:40]))
    k, temperature, once = calibrated(untrained)
    ids = untrained.add_examples(texts[:40], names_of(texts[:40]), allow_duplicates=True)
    assert ids == [str(i) for i in range(40, 80)]
    twice_k, same_temperature, twice = calibrated(untrained)
    assert k > 1 and twice_k == 2 * k and same_temperature == pytest.approx(temperature, rel=1e-3)
    for answer, other in zip(once, twice, strict=True):  # 40 examples are less sure than 80
        assert [a["score"] for a in answer] == pytest.approx([a["score"] for a in other], abs=0.0125)


def test_what_is_the_same_example(untrained, texts):
    """The text, its pair and its labels; not its id, which is given back as it was."""
    pair = {"text": texts[0], "text_pair": texts[1]}
    first = untrained.add_examples([texts[0], pair, texts[1]], [["a", "b"], ["a"], ["b"]], ids=["x", "y", "z"])
    assert first == ["x", "y", "z"]
    again = untrained.add_examples(
        [pair, texts[0], texts[0], texts[1], pair], [["a"], ["b", "a"], ["a"], ["b"], []], ids=list("12345")
    )
    assert again == ["y", "x", "3", "z", "5"] and untrained.datastore.ids == ["x", "y", "z", "3", "5"]


def test_one_text_with_two_labels_is_kept_and_not_calibrated_on(untrained, texts):
    assert untrained.add_examples([texts[0]] * 2, ["a", "b"]) == ["0", "1"]
    assert untrained.model.config.knn_calibration is None
    with pytest.raises(ValueError, match="all the same text"):
        untrained.calibrate()


def test_two_threads_classify_while_a_third_adds_and_removes(pipe, texts):
    stop, errors = threading.Event(), []

    def classify():
        while not stop.is_set():
            answer = pipe({"text": texts[0]}, return_neighbors=5)
            for neighbor in answer["neighbors"]:
                if neighbor["label"] == "river" and "garden gate" in neighbor["text"]:
                    errors.append(neighbor)

    threads = [threading.Thread(target=classify) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(15):
        pipe.remove_examples(pipe.add_examples([f"garden gate {i} {texts[0]}"], ["engine"]))
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
