#!/usr/bin/env python3
"""paperless-ngx asks docsplit serve, which fills in what it is sure of; the rest stays in the inbox.

    PAPERLESS_POST_CONSUME_SCRIPT=/path/docsplit_paperless.py    answers a document that paperless has consumed
    docsplit_paperless.py learn FOLDER                           learns from what people have set since

README.md beside this file explains both. Python 3.9 with its standard library is enough.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What is asked, which is the name of its classifier and of its property in a document, and where paperless lists it.
LISTS = {"document_type": "document_types", "correspondent": "correspondents", "tags": "tags"}
NOTHING = "(none)"  # the label of documents that people have left without a type, a correspondent or a tag
BETWEEN_TAGS = " | "  # all tags of a document are one label, so that they are right or wrong together
RECORD = "docsplit"  # the custom field with what was written to a document
SECONDS = 120  # for an answer
PAGE_SIZE = 100  # documents that are listed at a time
BATCH = 100  # examples in a request
DEFAULTS = {
    "DOCSPLIT_PAPERLESS_URL": "http://127.0.0.1:8000",
    "DOCSPLIT_SERVE_URL": "http://127.0.0.1:8001",
    "DOCSPLIT_SERVE_TOKEN": "",  # of those who ask; a server on the same machine needs none
    "DOCSPLIT_REJECT": "0.05",  # the share of documents to allow that leave the inbox with something wrong
    "DOCSPLIT_CHARACTERS": "5000",  # how much of a text is read, about two pages
}


class UserError(Exception):
    """An error with a sentence for the person who runs this."""


def setting(name: str) -> str:
    """What the environment says, or the default."""
    value = os.environ.get(name) or DEFAULTS.get(name)
    if value is None:
        raise UserError(f"{name} is not set: put it into the environment, as the README beside this script says.")
    return value


def number(name: str) -> float:
    """A number from the environment."""
    try:
        return float(setting(name))
    except ValueError:
        raise UserError(f"{name} is {setting(name)!r}: write a number, such as {DEFAULTS[name]}.") from None


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
        """Send a request, and return the JSON of the answer."""
        content = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self._url + path, content, self._headers | named, method=method)
        if content is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answered:
                return json.loads(answered.read())
        except urllib.error.HTTPError as error:
            said = error.read(1_000).decode(errors="replace")
            raise UserError(f"{method} {self._url}{path} was refused: {error.code} {said}") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{self._url}{path} gives no answer ({error}): is it running?") from None

    def pages(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yield everything that paperless lists at an address."""
        page_number = 1
        while True:
            asked = urllib.parse.urlencode({"page": page_number, "page_size": PAGE_SIZE, **query})
            page = self.send("GET", f"{path}?{asked}")
            yield from page["results"]
            if not page["next"]:
                return
            page_number += 1


def paperless_api() -> Address:
    """The REST API of paperless."""
    token = setting("DOCSPLIT_PAPERLESS_TOKEN")
    return Address(setting("DOCSPLIT_PAPERLESS_URL"), Authorization=f"Token {token}", Accept="application/json")


def server(token_variable: str) -> Address:
    """The server of docsplit, for those who have a token, which may be empty."""
    token = setting(token_variable)
    return Address(setting("DOCSPLIT_SERVE_URL"), Authorization=f"Bearer {token}" if token else "")


def served_fields(asked: Address) -> list[str]:
    """Which properties of documents the server answers."""
    names = {model["name"] for model in asked.send("GET", "/v1/models")["models"]}
    return [name for name in LISTS if name in names]


@dataclass
class Catalog:
    """The types, correspondents and tags of an archive.

    Args:
        names: For each property, the name of each id.
        inbox: The ids of inbox tags.
    """

    names: dict[str, dict[int, str]]
    inbox: set[int]

    @classmethod
    def read(cls, paperless: Address) -> Catalog:
        """List them."""
        catalog = cls({}, set())
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


def answer(document_id: str) -> str:
    """Fill in what the server is sure of, and return a line for paperless' log.

    Args:
        document_id: A document that was just consumed.

    Returns:
        What was written, and what is left.

    Raises:
        UserError: If one of the servers cannot be asked.
    """
    reject = number("DOCSPLIT_REJECT")
    paperless = paperless_api()
    asked = server("DOCSPLIT_SERVE_TOKEN")
    served = served_fields(asked)
    catalog = Catalog.read(paperless)
    document = paperless.send("GET", f"/api/documents/{document_id}/")
    text = document["content"][: int(number("DOCSPLIT_CHARACTERS"))]
    empty = [name for name in served if not catalog.value(document, name)]  # a rule or a person has set the others
    written: dict[str, Any] = {}
    left: list[str] = []
    for name in empty:
        label = ask(asked, name, text, reject / len(empty)) if text.strip() else ""
        try:
            written[name] = catalog.find(name, label)
        except KeyError:  # it is too unsure, or was removed from paperless since
            left.append(name)
    if written or left:
        write(paperless, document, written, left)
    shown = ", ".join(f"{name} {catalog.label(name, value)!r}" for name, value in written.items())
    return f"document {document_id}: {shown or 'nothing'}; left in the inbox: {', '.join(left) or 'nothing'}"


def ask(asked: Address, name: str, text: str, reject: float) -> str:
    """The label that a classifier gives to a text; "" if it is too unsure."""
    answered = asked.send("POST", "/v1/classify", {"model": name, "text": text, "reject": reject})
    return answered["answers"][0]["label"] or ""


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


def learn(folder: Path) -> list[str]:
    """Bring the examples of the server to what people have set, and fit it.

    The folder has a file for each property with the examples that the server has, as ``docsplit fit`` reads them.

    Args:
        folder: A folder for these files.

    Returns:
        What was done, and the commands to run for what is not served yet.

    Raises:
        UserError: If one of the servers cannot be asked, or refuses an edit.
    """
    present = collect(paperless_api(), int(number("DOCSPLIT_CHARACTERS")))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        served = served_fields(server("DOCSPLIT_SERVE_TOKEN"))
    except UserError as error:
        served = []
        print(error, file=sys.stderr)
    said = []
    for name, examples in present.items():
        file = folder / f"{name}.jsonl"
        if name in served:
            said.append(f"{name}: {edit(name, file, examples)}")
        else:
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
        written = read_record(next((one["value"] for one in document["custom_fields"] if one["field"] == record), None))
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


def edit(name: str, file: Path, present: dict[str, Example]) -> str:
    """Send what has changed since the last time, and fit; return what was done."""
    editor = server("DOCSPLIT_SERVE_EDIT_TOKEN")
    known = load_examples(file)
    changed = [one for one in present if known.get(one) != present[one]]
    gone = [one for one in known if one not in present]
    todo = [*gone, *changed]
    for start in range(0, len(todo), BATCH):
        ids = todo[start : start + BATCH]
        added = {one: present[one] for one in ids if one in present}
        body = {
            "model": name,
            "add": [{"id": one, "text": example.text, "label": example.label} for one, example in added.items()],
            "remove": [one for one in ids if one in known],
        }
        editor.send("POST", "/v1/examples", body)  # one whose answer was lost is sent again, and changes nothing
        known = {one: example for one, example in known.items() if one not in ids} | added
        save_examples(file, known)
    if todo:
        editor.send("POST", "/v1/fit", {"model": name})
    return f"{len(changed)} new or corrected, {len(gone)} gone, {len(known)} examples in all"


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
    """Save the examples of a property that is not served, and return what to do."""
    save_examples(file, examples)
    labels = {example.label for example in examples.values()}
    if len(labels) < 2:
        return f"{file.stem}: {len(labels)} labels in {len(examples)} documents outside the inbox, and two are needed"
    command = f"docsplit fit --dataset_name {file} --id_column id --output_dir {file.with_suffix('')}"
    return f"{file.stem}: {len(examples)} examples of {len(labels)} labels. It is not served. Fit it: {command}"


def main(arguments: list[str]) -> int:
    """Run one of both; a document that cannot be answered must not make paperless report a failure."""
    document_id = os.environ.get("DOCUMENT_ID")
    is_learning = len(arguments) == 2 and arguments[0] == "learn"
    if not is_learning and (arguments or document_id is None):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print("\n".join(learn(Path(arguments[1]))) if is_learning else f"docsplit: {answer(document_id or '')}")
    except UserError as error:
        print(f"docsplit: {error}", file=sys.stderr)
        return 1 if is_learning else 0  # the document is in the inbox, where a person sees it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
