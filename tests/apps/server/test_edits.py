"""Edits are atomic, saved before they are acknowledged, and change nothing when they are sent again."""

import shutil
import time

import pytest
from transformers import pipeline

from docsplit_hf import KNNDatastore

from .full_disk import filled, small_disk
from .processes import ServerProcess

NEW = {"text": "The library holds the archive of the coast.", "label": "library", "id": "new"}


def ids_in(folder):
    return KNNDatastore.from_pretrained(folder).ids


def test_an_edit_is_answered_by_its_new_version_and_is_on_the_disk(start, folder):
    server = start(str(folder))
    _, before = server.send("POST", "/v1/classify", {"text": NEW["text"], "top_k": None})
    assert "library" not in {one["label"] for one in before["answers"][0]}
    status, answer = server.edit("/v1/examples", {"add": [NEW], "relabel": {"0": "garden"}, "remove": ["1"]})
    assert (status, answer["ids"], answer["relabeled"], answer["removed"]) == (200, ["new"], 1, 1)
    assert answer["version"] != before["version"]
    store = KNNDatastore.from_pretrained(folder)
    assert store.ids.count("new") == 1
    assert "1" not in store.ids
    assert store.label_names[store.labels[store.ids.index("0")]] == "garden"
    _, after = server.send("POST", "/v1/classify", {"text": NEW["text"], "top_k": None})
    assert after["version"] == answer["version"]
    saved = pipeline("docsplit-knn", model=str(folder), device="cpu")
    expected = {one["label"]: one["score"] for one in saved([NEW["text"]], top_k=None)[0]}
    assert {one["label"]: one["score"] for one in after["answers"][0]} == pytest.approx(expected, abs=1e-6)
    status, fitted = server.edit("/v1/fit", {})
    assert status == 200
    assert "ensemble" in fitted["report"]


def test_a_refused_edit_changes_nothing(start, folder):
    server = start(str(folder))
    _, before = server.send("GET", "/ready")
    for body, sentence in [
        ({"add": [NEW], "relabel": {"unknown": "river"}}, "No example has the id 'unknown'."),
        ({"add": [NEW, {"text": " ", "label": "river", "id": "blank"}]}, "empty"),
        ({"relabel": {"0": "nowhere"}}, "'nowhere'"),
        ({"relabel": {"0": "river"}, "remove": ["0"]}, "relabeled and removed"),
        ({}, "Nothing is to be changed"),
        ({"add": [NEW, {"text": "The mill.", "label": "river"}]}, "give one to each, or to none"),
        ({"add": [{**NEW, "label": "x" * 201}]}, "the name of a label has 1 to 200 characters"),
        ({"relabel": {"0": " "}}, "the name of a label has 1 to 200 characters"),
        ({"add": [{**NEW, "label": "a\nb"}]}, "no control characters"),
    ]:
        status, answer = server.edit("/v1/examples", body)
        assert status == 422
        assert sentence in answer["error"]["message"]
    assert server.send("GET", "/ready")[1] == before


def test_a_request_that_is_sent_again_changes_nothing(start, folder):
    server = start(str(folder))
    body = {
        "add": [NEW, {"text": "The river feeds a mill.", "label": "river", "id": "mill"}],
        "relabel": {"0": "garden"},
        "remove": ["1"],
    }
    first = server.edit("/v1/examples", body)[1]
    server.kill()
    server = start(str(folder))
    again = server.edit("/v1/examples", body)[1]
    assert again == first | {"removed": 0}
    ids = ids_in(folder)
    assert len(set(ids)) == len(ids)
    assert ids[-2:] == first["ids"]


def test_the_log_says_who_has_edited_and_no_text(start, folder, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("# of the office\nanna=0123456789abcdef\nben=fedcba9876543210\n")
    server = start(str(folder), "--edit_token_file", str(tokens), DOCSPLIT_SERVE_EDIT_TOKEN="")
    before = server.send("GET", "/ready")[1]["versions"]["subjects"]
    status, answer = server.send("POST", "/v1/examples", {"add": [NEW]}, Authorization="Bearer fedcba9876543210")
    assert status == 200
    log = server.log.read_text()
    assert f"subjects was edited by ben: {before} became {answer['version']}." in log
    assert "archive" not in log


def test_two_servers_edit_a_folder_in_turn(start, folder):
    servers = [start(str(folder)), start(str(folder))]
    for number in range(4):
        body = {"add": [{"text": f"The river of number {number}.", "label": "river", "id": f"added-{number}"}]}
        assert servers[number % 2].edit("/v1/examples", body)[0] == 200
    assert ids_in(folder)[-4:] == [f"added-{number}" for number in range(4)]


def test_a_replaced_folder_is_loaded(start, folder):
    server = start(str(folder))
    other = pipeline("docsplit-knn", model=str(folder), device="cpu")
    other.add_examples(["The stadium opens the goal."], ["stadium"])
    other.save_pretrained(folder)
    _, models = server.send("GET", "/v1/models")
    deadline = time.monotonic() + 60
    while "stadium" not in models["data"][0]["x_labels"] and time.monotonic() < deadline:
        time.sleep(0.1)
        _, models = server.send("GET", "/v1/models")
    assert "stadium" in models["data"][0]["x_labels"]
    status, _ = server.edit("/v1/examples", {"add": [NEW]})  # edits go on from there
    assert status == 200
    assert {"stadium", "library"} <= set(KNNDatastore.from_pretrained(folder).label_names)


def test_a_server_answers_on_a_full_disk_and_without_its_folder(start, fitted_folder, tmp_path):
    with small_disk(tmp_path / "disk", 2**23) as disk:
        folder = shutil.copytree(fitted_folder, disk / "subjects")
        server = start(str(folder))
        added = {"add": [NEW | {"text": NEW["text"] * 200}]}
        with filled(disk):
            status, refused = server.edit("/v1/examples", added)
            assert (status, refused["error"]["code"]) == (503, "not_saved")
            assert server.send("POST", "/v1/classify", {"text": NEW["text"]})[0] == 200
            assert server.stop() in (0, -15)
            server = start(str(folder))
        assert server.edit("/v1/examples", added)[1]["ids"] == ["new"]
        aside = folder.rename(disk / "aside")
        status, refused = server.edit("/v1/examples", {"remove": ["new"]})
        assert (status, refused["error"]["code"]) == (503, "no_folder")
        assert server.send("POST", "/v1/classify", {"text": NEW["text"]})[0] == 200
        assert not folder.exists()
        aside.rename(folder)
        assert server.edit("/v1/examples", {"remove": ["new"]})[0] == 200
        assert server.stop() in (0, -15)


def test_stopping_finishes_requests_and_lets_others_edit(start, folder):
    server = start(str(folder))
    server.edit("/v1/examples", {"add": [NEW]})
    assert server.stop() in (0, -15)
    again: ServerProcess = start(str(folder))
    assert "new" in ids_in(folder)
    assert again.edit("/v1/examples", {"remove": ["new"]})[0] == 200
