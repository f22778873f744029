"""examples/paperless: against a real docsplit serve, and a stand-in for paperless' REST API, over HTTP.

The stand-in has the shapes of paperless-ngx 3.0.5 (docs/api.md and serialisers.py there), and refuses what it does not
know. ``benchmarks/quality/paperless`` runs the same script with paperless-ngx itself.
"""

import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from docsplit_hf import KNNDatastore

from .processes import EDIT_TOKEN

SCRIPT = Path(__file__).parents[3] / "examples" / "paperless" / "docsplit_paperless.py"
TOKEN = "token-of-paperless"
INBOX = 1
WORDS = {
    "invoice": "amount due payment bank account total",
    "contract": "parties agree terms clause signature law",
    "letter": "dear regards garden summer holiday family",
}
NEW = "The telescope saw a comet beyond the orbit of Neptune."
WRITABLE = {"document_type", "correspondent", "tags", "custom_fields", "remove_inbox_tags"}


class StandIn:
    """An archive behind the addresses of paperless' REST API."""

    def __init__(self):
        self.names = {
            "document_types": dict(enumerate(WORDS, start=1)),
            "correspondents": {1: "bank"},
            "tags": {INBOX: "inbox", 2: "paid", 3: "old"},
            "custom_fields": {7: "other"},
        }
        self.documents = {}
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def respond(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                is_known = self.headers.get("Authorization") == f"Token {TOKEN}"
                status, content = (
                    stand_in.answer(self.command, self.path, body) if is_known else (401, {"detail": "No."})
                )
                written = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(written)))
                self.end_headers()
                self.wfile.write(written)

            def log_message(self, *_):
                pass

        for method in ("GET", "POST", "PATCH"):
            setattr(Handler, f"do_{method}", Handler.respond)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    def add(self, content, document_type=None, correspondent=None, tags=(INBOX,)):
        """Add a document; return its id."""
        number = len(self.documents) + 1
        self.documents[number] = {
            "id": number,
            "content": content,
            "document_type": document_type,
            "correspondent": correspondent,
            "tags": list(tags),
            "custom_fields": [{"field": 7, "value": "kept"}],
        }
        return number

    def answer(self, method, path, body):
        parts = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        found = re.fullmatch(r"/api/(\w+)/(?:(\d+)/)?", parts.path)
        assert found, path
        kind, number = found.groups()
        if kind == "documents" and number:
            return self.document(method, int(number), body)
        if method == "POST":
            assert kind == "custom_fields" and body == {"name": "docsplit", "data_type": "longtext"}
            self.names[kind][8] = body["name"]
            return 201, {"id": 8, **body}
        if kind == "documents":
            assert query.pop("is_in_inbox") == "false" and query.pop("ordering") == "id"
            names = query.pop("fields").split(",")
            chosen = [one for one in self.documents.values() if INBOX not in one["tags"]]
            return 200, self.page([{name: one[name] for name in names} for one in chosen], query)
        asked = query.pop("name__iexact", None)
        rows = [
            {"id": one, "name": name, "is_inbox_tag": kind == "tags" and one == INBOX}
            for one, name in self.names[kind].items()
            if asked is None or name.lower() == asked.lower()
        ]
        return 200, self.page(rows, query)

    def page(self, rows, query):
        assert set(query) == {"page", "page_size"}
        size = min(int(query["page_size"]), 25)  # of an archive that allows fewer than are asked for
        start = (int(query["page"]) - 1) * size
        following = f"http://a.proxy/?page={int(query['page']) + 1}" if start + size < len(rows) else None
        return {"count": len(rows), "next": following, "previous": None, "results": rows[start : start + size]}

    def document(self, method, number, body):
        document = self.documents[number]
        if method == "PATCH":
            if not set(body) <= WRITABLE:
                return 400, {name: ["unknown"] for name in set(body) - WRITABLE}
            is_done = body.pop("remove_inbox_tags")
            document.update(body)
            if is_done:
                document["tags"] = [tag for tag in document["tags"] if tag != INBOX]
        return 200, document


@pytest.fixture
def archive():
    stand_in = StandIn()
    thread = threading.Thread(target=stand_in.http.serve_forever)
    thread.start()
    yield stand_in
    stand_in.http.shutdown()
    thread.join()
    stand_in.http.server_close()


@pytest.fixture
def run(archive):
    """Function that runs the script, and returns its exit code and what it printed."""

    def run(*arguments, server="http://127.0.0.1:1", **environment):
        own = {"DOCSPLIT_PAPERLESS_URL": archive.address, "DOCSPLIT_PAPERLESS_TOKEN": TOKEN}
        own |= {"DOCSPLIT_SERVE_URL": server, "DOCSPLIT_SERVE_EDIT_TOKEN": EDIT_TOKEN, "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [sys.executable, "-I", SCRIPT, *arguments],
            env=own | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout

    return run


def text_of(name, number):
    words = WORDS[name].split()
    return f"Number {number}: " + " ".join(words[(number + step) % len(words)] for step in range(10)) + "."


def fill(archive, per_type=16):
    """Add documents that a person has sorted."""
    for number in range(per_type):
        for one, name in archive.names["document_types"].items():
            archive.add(text_of(name, number), one, tags=(2,) if name == "invoice" else ())


@pytest.fixture
def fitted(archive, run, make_tiny_config, tokenizer, tmp_path):
    """A folder with a classifier, fitted on the file that the script wrote."""
    import torch
    from transformers import BertModel

    from docsplit_hf.apps.cli.fit import fit_classifier
    from docsplit_hf.apps.cli.fit_arguments import FitArguments
    from docsplit_hf.apps.cli.labeled_arguments import LabeledArguments

    fill(archive)
    code, printed = run("learn", str(tmp_path / "learned"))
    assert code == 0 and "48 examples of 3 labels" in printed and "docsplit fit --dataset_name" in printed
    assert "correspondent: 1 labels in 48 documents outside the inbox, and two are needed" in printed
    torch.manual_seed(0)
    encoder = str(tmp_path / "encoder")
    BertModel(make_tiny_config()).save_pretrained(encoder)
    tokenizer.save_pretrained(encoder)
    data = LabeledArguments(dataset_name=str(tmp_path / "learned" / "document_type.jsonl"), id_column="id")
    fit_classifier(data, FitArguments(encoder, output_dir=str(tmp_path / "document_type"), use_cpu=True))
    return tmp_path / "document_type"


def labels_in(folder):
    store = KNNDatastore.from_pretrained(folder)
    return {one: store.label_names[label] for one, label in zip(store.ids, store.labels, strict=True)}


def test_sure_answers_are_written_the_rest_is_left_and_people_are_learned_from(archive, run, start, fitted):
    server = start(f"document_type={fitted}").address
    learned = str(fitted.parent / "learned")
    sure = archive.add(text_of("contract", 90), tags=(INBOX, 3))
    unsure = archive.add(NEW)
    by_rule = archive.add(text_of("letter", 91), document_type=1)
    for number, reject in ((sure, "0.1"), (unsure, "0.01"), (by_rule, "0.1")):  # 48 examples cannot promise 0.01
        code, printed = run(server=server, DOCUMENT_ID=str(number), DOCSPLIT_REJECT=reject)
        assert code == 0, printed
    written = archive.documents[sure]
    assert (written["document_type"], written["tags"]) == (2, [3])
    assert written["custom_fields"][0] == {"field": 7, "value": "kept"}
    assert json.loads(written["custom_fields"][1]["value"]) == {"document_type": 2, "left": []}
    assert (archive.documents[unsure]["document_type"], archive.documents[unsure]["tags"]) == (None, [INBOX])
    assert archive.documents[by_rule]["document_type"] == 1

    assert archive.documents[by_rule]["tags"] == [INBOX] and len(archive.documents[by_rule]["custom_fields"]) == 1

    def learn():
        code, printed = run("learn", learned, server=server)
        assert code == 0, printed
        return printed.splitlines()[0]

    assert learn() == "document_type: 0 new or corrected, 0 gone, 48 examples in all"
    written["document_type"] = 3  # a person corrects it
    archive.names["document_types"][4] = "report"
    archive.documents[unsure] |= {"document_type": 4, "tags": []}
    archive.documents[1]["document_type"] = 2
    archive.documents[2]["tags"] = [INBOX]  # back into the inbox
    assert learn() == "document_type: 3 new or corrected, 1 gone, 49 examples in all"
    labels = labels_in(fitted)
    assert (labels[str(sure)], labels[str(unsure)], labels["1"]) == ("letter", "report", "contract")
    assert len(labels) == 49 and "2" not in labels
    assert learn() == "document_type: 0 new or corrected, 0 gone, 49 examples in all"
    for document_type, label in ((1, "invoice"), (2, "contract"), (1, "invoice")):  # equal edits are not taken for one
        archive.documents[1]["document_type"] = document_type
        assert learn() == "document_type: 1 new or corrected, 0 gone, 49 examples in all"
        assert labels_in(fitted)["1"] == label


def test_a_document_is_consumed_whatever_happens(archive, run):
    number = archive.add("A text.")
    before = dict(archive.documents[number])
    code, printed = run(DOCUMENT_ID=str(number))
    assert code == 0 and "is it running?" in printed
    code, printed = run(DOCUMENT_ID=str(number), DOCSPLIT_PAPERLESS_TOKEN="wrong")
    assert code == 0
    code, printed = run(DOCUMENT_ID=str(number), DOCSPLIT_PAPERLESS_TOKEN="")
    assert code == 0 and "DOCSPLIT_PAPERLESS_TOKEN" in printed
    assert archive.documents[number] == before
    code, printed = run("learn", "somewhere", DOCSPLIT_CHARACTERS="a little")
    assert code == 1 and "'a little'" in printed
    assert run()[0] == 2
