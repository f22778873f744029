#!/usr/bin/env python3
"""paperless-ngx asks docsplit serve, which fills in what it is sure of; the rest stays in the inbox.

    PAPERLESS_POST_CONSUME_SCRIPT=/path/docsplit_paperless.py    answers a document that paperless has consumed
    docsplit_paperless.py learn FOLDER                           learns from what people have set since

README.md beside this file explains both. Python 3.9 with its standard library is enough.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# What is asked, which is the name of its classifier and of its property in a document, and where paperless lists it.
LISTS = {"document_type": "document_types", "correspondent": "correspondents", "tags": "tags"}
NOTHING = "(none)"  # the label of documents that people have left without a type, a correspondent or a tag
BETWEEN_TAGS = " | "  # all tags of a document are one label, so that they are right or wrong together
RECORD = "docsplit"  # the custom field with what was written to a document
SECONDS = 120  # for an answer
TRIES = 6  # of a request to a server that is busy
LONGEST_WAIT = 30  # seconds between two tries
PAGE_SIZE = 100  # documents that are listed at a time
BATCH_CHARACTERS = 300_000  # of the examples in a request
BATCH_EXAMPLES = 500
REMEDY = "set {} in the environment of paperless, as the README beside this script says."


class UserError(Exception):
    """An error with a sentence for the person who runs this."""


@dataclass(frozen=True)
class Settings:
    """What the environment says.

    Args:
        paperless: The address of paperless.
        paperless_token: A token of paperless, of a user who may view and change documents.
        server: The address of docsplit serve.
        server_token: A token of those who may ask it; "" if it needs none.
        edit_token: A token of those who may edit its examples, for learning.
        reject: The share of wrong answers to allow.
        characters: How much of a text is read.
    """

    paperless: str
    paperless_token: str
    server: str
    server_token: str
    edit_token: str
    reject: float
    characters: int

    @classmethod
    def read(cls) -> Settings:
        """Read the environment."""
        token = os.environ.get("DOCSPLIT_PAPERLESS_TOKEN", "")
        if not token:
            raise UserError("There is no token of paperless: " + REMEDY.format("DOCSPLIT_PAPERLESS_TOKEN"))
        return cls(
            paperless=os.environ.get("DOCSPLIT_PAPERLESS_URL", "http://127.0.0.1:8000"),
            paperless_token=token,
            server=os.environ.get("DOCSPLIT_SERVE_URL", "http://127.0.0.1:8001"),
            server_token=os.environ.get("DOCSPLIT_SERVE_TOKEN", ""),
            edit_token=os.environ.get("DOCSPLIT_SERVE_EDIT_TOKEN", ""),
            reject=_number("DOCSPLIT_REJECT", 0.05),
            characters=int(_number("DOCSPLIT_CHARACTERS", 10_000)),
        )


def _number(name: str, default: float) -> float:
    """A number from the environment."""
    given = os.environ.get(name, str(default))
    try:
        return float(given)
    except ValueError:
        raise UserError(f"{name} is {given!r}: write a number, such as {default}.") from None


class Address:
    """A server that takes and gives JSON.

    Args:
        url: Its address.
        headers: Headers of each request.
    """

    def __init__(self, url: str, **headers: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {name.replace("_", "-"): value for name, value in headers.items() if value}

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request, again if the server is busy, and return the JSON of the answer."""
        content = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self._url + path, content, self._headers | named, method=method)
        if content is not None:
            request.add_header("Content-Type", "application/json")
        for left in reversed(range(TRIES)):
            try:
                with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                    return json.loads(answer.read())
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503) or not left:
                    said = error.read(1_000).decode(errors="replace")
                    raise UserError(f"{method} {self._url}{path} was refused: {error.code} {said}") from None
                time.sleep(min(float(error.headers.get("Retry-After") or 1), LONGEST_WAIT))
            except (OSError, ValueError) as error:
                raise UserError(f"{self._url}{path} gives no answer ({error}): is it running?") from None
        raise AssertionError("The last try returns or raises.")

    def pages(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yield everything that paperless lists at an address."""
        number = 1
        while True:
            asked = urllib.parse.urlencode({"page": number, "page_size": PAGE_SIZE, **query})
            page = self.send("GET", f"{path}?{asked}")
            yield from page["results"]
            if not page["next"]:
                return
            number += 1


def paperless_of(settings: Settings) -> Address:
    """The REST API of paperless."""
    return Address(settings.paperless, Authorization=f"Token {settings.paperless_token}", Accept="application/json")


def server_of(settings: Settings, token: str) -> Address:
    """The server of docsplit, for those who have a token, which may be empty."""
    return Address(settings.server, Authorization=f"Bearer {token}" if token else "")


def served_fields(server: Address) -> list[str]:
    """Which properties of documents the server answers."""
    names = {model["name"] for model in server.send("GET", "/v1/models")["models"]}
    return [name for name in LISTS if name in names]


@dataclass
class Catalog:
    """The types, correspondents and tags of an archive.

    Args:
        names: For each property, the name of each id.
        inbox: The ids of inbox tags.
    """

    names: dict[str, dict[int, str]] = field(default_factory=dict)
    inbox: set[int] = field(default_factory=set)

    @classmethod
    def read(cls, paperless: Address) -> Catalog:
        """List them."""
        catalog = cls()
        for name, path in LISTS.items():
            entries = list(paperless.pages(f"/api/{path}/"))
            catalog.names[name] = {entry["id"]: entry["name"] for entry in entries}
            catalog.inbox |= {entry["id"] for entry in entries if entry.get("is_inbox_tag")}
        if not catalog.inbox:
            raise UserError("paperless has no inbox tag: make a tag, and mark it as an inbox tag.")
        return catalog

    def value(self, document: dict[str, Any], name: str) -> Any:
        """What a document has: an id or None; of tags, a sorted list without inbox tags."""
        if name == "tags":
            return sorted(set(document["tags"]) - self.inbox)
        return document[name]

    def label(self, name: str, value: Any) -> str:
        """The label of what a document has; NOTHING if it has nothing."""
        ids = value if name == "tags" else [value] if value else []
        labels = sorted(self.names[name][one] for one in ids if one in self.names[name])
        return BETWEEN_TAGS.join(labels) or NOTHING

    def find(self, name: str, label: str) -> Any:
        """What a label stands for, as ``value`` gives it; KeyError if paperless no longer has it."""
        if label == NOTHING:
            return [] if name == "tags" else None
        ids = {known: one for one, known in self.names[name].items()}
        if name == "tags":
            return sorted(ids[one] for one in label.split(BETWEEN_TAGS))
        return ids[label]


# ---- a document that was consumed ----


def answer(document_id: int, settings: Settings) -> str:
    """Fill in what the server is sure of, and return a line for paperless' log.

    Args:
        document_id: A document that was just consumed.
        settings: Where to ask.

    Returns:
        What was written, and what is left.

    Raises:
        UserError: If one of the servers cannot be asked.
    """
    paperless = paperless_of(settings)
    server = server_of(settings, settings.server_token)
    served = served_fields(server)
    catalog = Catalog.read(paperless)
    document = paperless.send("GET", f"/api/documents/{document_id}/")
    written: dict[str, Any] = {}
    left: list[str] = []
    said: list[str] = []
    for name in served:
        if catalog.value(document, name):
            continue  # a rule, a workflow or a person was first
        found = ask(server, name, document["content"][: settings.characters], settings.reject)
        try:
            written[name] = catalog.find(name, found["label"] or "")
            said.append(f"{name} {found['label']!r} ({found['score']:.0%})")
        except KeyError:  # it is too unsure, or was removed from paperless since
            left.append(name)
    if written or left:
        write(paperless, document, written, left)
    return f"document {document_id}: {', '.join(said) or 'nothing'}; left in the inbox: {', '.join(left) or 'nothing'}"


def ask(server: Address, name: str, text: str, reject: float) -> dict[str, Any]:
    """The answer of a classifier to a text; its label is None if it is too unsure."""
    if not text.strip():
        return {"label": None}
    answered = server.send("POST", "/v1/classify", {"model": name, "text": text, "reject": reject})
    return answered["answers"][0]


def write(paperless: Address, document: dict[str, Any], written: dict[str, Any], left: list[str]) -> None:
    """Write answers and their record in one request; without anything left, the document leaves the inbox."""
    record = record_field(paperless)
    others = [one for one in document["custom_fields"] if one["field"] != record]
    content = json.dumps({**written, "left": left})
    changes: dict[str, Any] = {name: value for name, value in written.items() if value}
    if "tags" in changes:
        changes["tags"] = sorted({*document["tags"], *written["tags"]})
    changes["custom_fields"] = [*others, {"field": record, "value": content}]
    changes["remove_inbox_tags"] = not left
    paperless.send("PATCH", f"/api/documents/{document['id']}/", changes)


def record_field(paperless: Address) -> int:
    """The id of the custom field for records, which is made if there is none."""
    for one in paperless.pages("/api/custom_fields/", name__iexact=RECORD):
        if one["name"] == RECORD:
            return one["id"]
    return paperless.send("POST", "/api/custom_fields/", {"name": RECORD, "data_type": "longtext"})["id"]


# ---- what people have set since ----


@dataclass(frozen=True)
class Example:
    """A text, and the label that people gave it."""

    text: str
    label: str


def learn(folder: Path, settings: Settings) -> list[str]:
    """Bring the examples of the server to what people have set, and fit it.

    The folder has a file for each property with the examples that the server has, as ``docsplit fit`` reads them.

    Args:
        folder: A folder for these files.
        settings: Where to ask.

    Returns:
        What was done, and the commands to run for what is not served yet.

    Raises:
        UserError: If one of the servers cannot be asked, or refuses an edit.
    """
    present = collect(paperless_of(settings), settings.characters)
    folder.mkdir(parents=True, exist_ok=True)
    server = server_of(settings, settings.edit_token)
    try:
        served = served_fields(server_of(settings, settings.server_token))
    except UserError as error:
        served = []
        print(error, file=sys.stderr)
    said = []
    for name, examples in present.items():
        file = folder / f"{name}.jsonl"
        if name in served:
            said.append(f"{name}: {edit(server, name, file, examples)}")
        else:
            save_examples(file, examples)
            said.append(first_steps(file, examples))
    return said


def collect(paperless: Address, characters: int) -> dict[str, dict[str, Example]]:
    """For each property, the examples of an archive by the id of the document; equal texts are taken once."""
    catalog = Catalog.read(paperless)
    record = record_field(paperless)
    present: dict[str, dict[str, Example]] = {name: {} for name in LISTS}
    seen = set()
    fields = "id,content,tags,document_type,correspondent,custom_fields"
    for document in paperless.pages("/api/documents/", is_in_inbox="false", ordering="id", fields=fields):
        text = document["content"][:characters]
        if not text.strip() or text in seen:
            continue
        seen.add(text)
        written = {}
        for one in document["custom_fields"]:
            if one["field"] == record:
                written = read_record(one["value"])
        for name in LISTS:
            value = catalog.value(document, name)
            if is_from_people(written, name, value):
                present[name][str(document["id"])] = Example(text, catalog.label(name, value))
    return present


def read_record(content: str | None) -> dict[str, Any]:
    """What was written to a document; nothing if a person has changed the record to something else."""
    try:
        record = json.loads(content or "{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def is_from_people(written: dict[str, Any], name: str, value: Any) -> bool:
    """Whether people chose what a document outside the inbox has, or at least saw it there.

    Without anything left, the script itself took the document out of the inbox; an answer that is still there then may
    not have been seen by anybody, and to learn from it would make the classifier believe itself.
    """
    if written.get("left", ["unknown"]):
        return True
    return name not in written or written[name] != value


def edit(server: Address, name: str, file: Path, present: dict[str, Example]) -> str:
    """Send what has changed since the last time, and fit; return what was done."""
    known = load_examples(file)
    gone = [one for one in known if one not in present]
    changed = [one for one in present if known.get(one) != present[one]]
    if not gone and not changed:
        return f"nothing new, {len(known)} examples"
    for batch in batches(gone, changed, present):
        body = {
            "model": name,
            "add": [{"id": one, "text": present[one].text, "label": present[one].label} for one in batch.changed],
            "remove": [one for one in (*batch.gone, *batch.changed) if one in known],
        }
        key = hashlib.sha256(json.dumps(body).encode()).hexdigest()
        server.send("POST", "/v1/examples", body, Idempotency_Key=key)
        for one in batch.gone:
            del known[one]
        known |= {one: present[one] for one in batch.changed}
        save_examples(file, known)
    server.send("POST", "/v1/fit", {"model": name})
    return f"{len(changed)} new or corrected, {len(gone)} gone, {len(known)} examples in all"


@dataclass
class Batch:
    """Ids of examples that are sent together: those to remove, and those to add or to replace."""

    gone: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def batches(gone: list[str], changed: list[str], present: dict[str, Example]) -> Iterator[Batch]:
    """Yield changes in requests that the server takes; new ones come first, so that some examples are always left."""
    batch = Batch()
    characters = 0
    for one in changed:
        length = len(present[one].text)
        if batch.changed and (characters + length > BATCH_CHARACTERS or len(batch.changed) == BATCH_EXAMPLES // 2):
            yield batch
            batch = Batch()
            characters = 0
        batch.changed.append(one)
        characters += length
    if batch.changed:
        yield batch
    for start in range(0, len(gone), BATCH_EXAMPLES):
        yield Batch(gone=gone[start : start + BATCH_EXAMPLES])


def load_examples(file: Path) -> dict[str, Example]:
    """The examples that the server has, by their ids."""
    if not file.exists():
        raise UserError(f"{file} is not there, so it is unknown what the server has: fit its classifier on it anew.")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    return {row["id"]: Example(row["text"], row["label"]) for row in rows}


def save_examples(file: Path, examples: dict[str, Example]) -> None:
    """Replace the file in one moment."""
    part = file.with_suffix(".part")
    with part.open("w", encoding="utf-8") as output:
        for one, example in examples.items():
            output.write(json.dumps({"id": one, "text": example.text, "label": example.label}) + "\n")
    part.replace(file)


def first_steps(file: Path, examples: dict[str, Example]) -> str:
    """What to do about a property that is not served."""
    name = file.stem
    labels = {example.label for example in examples.values()}
    if len(labels) < 2:
        return f"{name}: {len(labels)} labels in {len(examples)} documents outside the inbox, and two are needed"
    command = f"docsplit fit --dataset_name {file} --id_column id --output_dir {file.with_suffix('')}"
    return f"{name}: {len(examples)} examples of {len(labels)} labels. It is not served. Fit it: {command}"


def main(arguments: list[str]) -> int:
    """Run one of both; a document that cannot be answered must not make paperless report a failure."""
    document_id = os.environ.get("DOCUMENT_ID")
    is_learning = len(arguments) == 2 and arguments[0] == "learn"
    if not is_learning and (arguments or document_id is None):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        settings = Settings.read()
        if is_learning:
            print("\n".join(learn(Path(arguments[1]), settings)))
        else:
            print(f"docsplit: {answer(int(document_id or ''), settings)}")
    except UserError as error:
        print(f"docsplit: {error}", file=sys.stderr)
        return 1 if is_learning else 0  # the document is in the inbox, where a person sees it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
