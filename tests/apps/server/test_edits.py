"""Edits are atomic, logged, saved before they are acknowledged, and made once."""

import json
import shutil
import stat
import time

import pytest
from transformers import pipeline

from docsplit_hf import KNNDatastore
from docsplit_hf.apps.server.states import version_on_disk

from .full_disk import filled, small_disk
from .processes import ServerProcess

NEW = {"text": "The library holds the archive of the coast.", "label": "library", "id": "new"}


def ids_in(folder):
    return KNNDatastore.from_pretrained(folder).ids


def test_an_edit_is_answered_by_its_new_version_and_is_on_the_disk(start, folder):
    server = start(str(folder))
    _, before = server.send("POST", "/v1/classify", {"text": NEW["text"], "top_k": 0})
    assert "library" not in {one["label"] for one in before["answers"][0]}
    status, answer = server.edit("/v1/examples", {"add": [NEW], "relabel": {"0": "garden"}, "remove": ["1"]})
    assert (status, answer["ids"], answer["relabeled"], answer["removed"]) == (200, ["new"], 1, 1)
    assert answer["version"] != before["version"]
    store = KNNDatastore.from_pretrained(folder)
    assert store.ids.count("new") == 1
    assert "1" not in store.ids
    assert store.label_names[store.labels[store.ids.index("0")]] == "garden"
    _, after = server.send("POST", "/v1/classify", {"text": NEW["text"], "top_k": 0})
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
        ({"add": [NEW], "remove": ["unknown"]}, "No example has the id 'unknown'."),
        ({"add": [NEW, {"text": " ", "label": "river"}]}, "empty"),
        ({"relabel": {"0": "nowhere"}}, "'nowhere'"),
        ({"relabel": {"0": "river"}, "remove": ["0"]}, "relabeled and removed"),
        ({"remove": ["0", "0"]}, "removed twice"),
        ({}, "Nothing is to be changed"),
        ({"add": [{**NEW, "label": "x" * 201}]}, "201 characters"),
        ({"add": [{**NEW, "label": "a\nb"}]}, "control character"),
    ]:
        status, answer = server.edit("/v1/examples", body)
        assert status == 422
        assert sentence in answer["error"]["message"]
    assert server.send("GET", "/ready")[1] == before
    assert (folder / "edits.jsonl").read_text() == ""


def test_a_repeated_request_is_made_once(start, folder):
    server = start(str(folder))
    body = {"add": [{"text": NEW["text"], "label": "river"}]}
    first = server.edit("/v1/examples", body, key="one")[1]
    again = server.edit("/v1/examples", body, key="one")[1]
    assert again == first | {"repeated": True}
    server.kill()
    server = start(str(folder))
    assert server.edit("/v1/examples", body, key="one")[1] == again
    status, refused = server.edit("/v1/examples", {"remove": ["0"]}, key="one")
    assert (status, refused["error"]["code"]) == (409, "key_reused")
    assert ids_in(folder).count(first["ids"][0]) == 1


def test_the_log_says_who_when_and_what(start, folder, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("# of the office\nanna=0123456789abcdef\nben=fedcba9876543210\n")
    server = start(str(folder), "--edit_token_file", str(tokens), DOCSPLIT_SERVE_EDIT_TOKEN="")
    status, _ = server.send("POST", "/v1/examples", {"add": [NEW]}, Authorization="Bearer fedcba9876543210")
    assert status == 200
    [edit] = map(json.loads, (folder / "edits.jsonl").read_text().splitlines())
    assert (edit["who"], edit["answer"]["ids"]) == ("ben", ["new"])
    assert edit["content"]["added"] == [{**NEW, "text_pair": None}]
    assert stat.S_IMODE((folder / "edits.jsonl").stat().st_mode) == 0o600


def test_an_edit_that_a_kill_left_unmade_is_made_when_it_is_sent_again(start, folder):
    server = start(str(folder))
    server.edit("/v1/examples", {"add": [NEW]}, key="whole")
    server.kill()
    log = folder / "edits.jsonl"
    made = log.read_text()
    begun = json.loads(made) | {"key": "cut", "version": version_on_disk(folder)}
    log.write_text(made + json.dumps(begun) + "\n")  # it was logged, and not saved
    server = start(str(folder))
    assert log.read_text() == made
    other = {"text": "The harbour opens the market.", "label": "river", "id": "second"}
    assert "repeated" not in server.edit("/v1/examples", {"add": [other]}, key="cut")[1]
    assert (ids_in(folder).count("new"), ids_in(folder).count("second")) == (1, 1)
    server.kill()
    with log.open("a") as file:
        file.write('{"who": "an')  # and a line that a crash cut off
    start(str(folder))
    assert len(log.read_text().splitlines()) == 2


def test_a_second_server_takes_no_edits(start, folder):
    start(str(folder))
    second = start(str(folder), wait=False)
    assert second.process.wait(timeout=120) == 1
    assert "Another server takes edits of" in second.log.read_text()


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
            status, refused = server.edit("/v1/examples", added, key="one")
            assert (status, refused["error"]["code"]) == (503, "not_saved")
            assert server.send("POST", "/v1/classify", {"text": NEW["text"]})[0] == 200
            assert server.stop() in (0, -15)
            server = start(str(folder))
        assert server.edit("/v1/examples", added, key="one")[1]["ids"] == ["new"]
        aside = folder.rename(disk / "aside")
        status, refused = server.edit("/v1/examples", {"remove": ["new"]}, key="two")
        assert (status, refused["error"]["code"]) == (503, "no_folder")
        assert server.send("POST", "/v1/classify", {"text": NEW["text"]})[0] == 200
        assert not folder.exists()
        aside.rename(folder)
        assert server.edit("/v1/examples", {"remove": ["new"]}, key="two")[0] == 200
        assert server.stop() in (0, -15)


def test_stopping_finishes_requests_and_lets_others_edit(start, folder):
    server = start(str(folder))
    server.edit("/v1/examples", {"add": [NEW]})
    assert server.stop() in (0, -15)
    again: ServerProcess = start(str(folder))
    assert "new" in ids_in(folder)
    assert again.edit("/v1/examples", {"remove": ["new"]})[0] == 200
