"""paperless-ngx with its own classifier, and with docsplit serve asked by examples/paperless: assigned, wrong, left.

    git clone --branch v3.0.5 https://github.com/paperless-ngx/paperless-ngx
    python3.12 -m venv paperless_venv
    paperless_venv/bin/pip install ...    (the dependencies in its pyproject.toml; torch and llama-index are not needed)
    for reject in "" "--reject 0.05"; do
    python -m benchmarks.quality.paperless --data sets --source paperless-ngx/src --python paperless_venv/bin/python \\
        --stop_words nltk_data/corpora/stopwords --output docs/results/paperless.jsonl $reject
    done

It needs redis-server. A person has sorted some documents of each kind, which are put into the database. Others arrive
there in batches, in the inbox, where our script is run for each as after consumption, and the command document_retagger
asks paperless' own classifier as consumption does. With --consume, they are consumed from files, which takes longer.
After each batch a person sorts what is in the inbox, rightly, and both classifiers learn. With its own classifier,
everything stays in the inbox, so the person sees all of it; with ours, only what was left.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.served import EDIT_TOKEN, ServerProcess, free_port

from .archive import FIELDS, Archive, Paper, read_archive
from .processes import DOCUMENTS, Paperless

SCRIPT = Path(__file__).parents[3] / "examples" / "paperless" / "docsplit_paperless.py"
LISTS = {"document_type": "document_types", "correspondent": "correspondents", "tags": "tags"}
AUTO = 6  # paperless' matching algorithm that asks its own classifier
NEVER = 0
INBOX = "inbox"
SCRIPTS = 3  # that are run at a time
RETAGGED = ("--inbox-only", "--document_type", "--correspondent", "--tags", "--skip-checks")


@dataclass
class Counts:
    """What became of a property in a batch.

    Args:
        with_value: Documents that should have a value.
        right: Those that got it.
        wrong: Those that got another one, or none although they left the inbox.
        left: Those that got none, and are in the inbox.
        without_value: Documents that should have no value.
        given: Those that got one.
    """

    with_value: int = 0
    right: int = 0
    wrong: int = 0
    left: int = 0
    without_value: int = 0
    given: int = 0

    def add(self, truth: str | None, value: str | None, is_in_inbox: bool) -> None:
        """Count one document."""
        if truth is None:
            self.without_value += 1
            self.given += value is not None
            return
        self.with_value += 1
        self.right += value == truth
        self.left += value is None and is_in_inbox
        self.wrong += value != truth and not (value is None and is_in_inbox)


@dataclass
class Batch:
    """What became of the documents of a batch.

    Args:
        documents: How many arrived.
        fields: The counts of each property.
        out_of_inbox: Documents that no person needs to see.
        out_of_inbox_wrong: Those among them with a wrong property.
        all_right: Documents with all properties right, in the inbox or not.
        seconds_consuming: From the first file to the last answer.
        seconds_learning: Training or fitting after the batch, if another one follows.
    """

    documents: int
    fields: dict[str, Counts]
    out_of_inbox: int
    out_of_inbox_wrong: int
    all_right: int
    seconds_consuming: float
    seconds_learning: float = 0.0


class Measured(NamedTuple):
    """The version of paperless, and its batches."""

    version: str
    batches: list[Batch]


class Measurement:
    """An archive in paperless, with the person who sorts it."""

    def __init__(self, paperless: Paperless, archive: Archive, algorithm: int) -> None:
        self.paperless = paperless
        self.archive = archive
        self.papers: dict[str, Paper] = {}
        self.ids: dict[str, dict[str, int]] = {}
        self.inbox = self._create("tags", INBOX, NEVER, is_inbox_tag=True)
        for field in FIELDS:
            values = archive.values(field)
            self.ids[field] = {value: self._create(LISTS[field], value, algorithm) for value in values}

    def run(self, learn: Callable[[], float], arrive: Callable[[list[Paper]], float]) -> list[Batch]:
        """Let all documents arrive, and learn before each batch; both functions return their seconds."""
        self.store(self.archive.sorted_at_first, is_sorted=True)
        learn()
        batches: list[Batch] = []
        for papers in self.archive.batches:
            if batches:
                self._sort_inbox()
                batches[-1].seconds_learning = round(learn(), 1)
            seconds = arrive(papers)
            batches.append(self._look({paper.name for paper in papers}, seconds))
            print(json.dumps(asdict(batches[-1])), flush=True)
        return batches

    def _create(self, path: str, name: str, algorithm: int, **more: Any) -> int:
        body = {"name": name, "matching_algorithm": algorithm, **more}
        return self.paperless.send("POST", f"/api/{path}/", body)["id"]

    def store(self, papers: list[Paper], is_sorted: bool) -> None:
        """Put documents into the database: with their right values, or into the inbox."""
        self.papers |= {paper.name: paper for paper in papers}
        documents = []
        for paper in papers:
            document = {"original_filename": paper.name, "content": paper.text, "tags": [self.inbox]}
            if is_sorted:
                tag = self.ids["tags"].get(paper.truth("tags"))
                document["tags"] = [tag] if tag else []
                for field in ("document_type", "correspondent"):
                    document[f"{field}_id"] = self.ids[field].get(paper.truth(field))
            documents.append(document)
        self.paperless.store(documents)

    def consume(self, papers: list[Paper]) -> float:
        """Let documents arrive through the consumption folder."""
        self.papers |= {paper.name: paper for paper in papers}
        return self.paperless.consume({paper.name: paper.text for paper in papers})

    def _look(self, names: set[str], seconds: float) -> Batch:
        """Count what became of the documents with these names of files."""
        batch = Batch(len(names), {field: Counts() for field in FIELDS}, 0, 0, 0, round(seconds, 1))
        for document in self.paperless.documents():
            if document["original_file_name"] not in names:
                continue
            paper = self.papers[document["original_file_name"]]
            is_in_inbox = self.inbox in document["tags"]
            is_right = True
            for field, counts in batch.fields.items():
                value = self._value(document, field)
                counts.add(paper.truth(field), value, is_in_inbox)
                is_right &= value == paper.truth(field)
            batch.all_right += is_right
            batch.out_of_inbox += not is_in_inbox
            batch.out_of_inbox_wrong += not is_in_inbox and not is_right
        return batch

    def _value(self, document: dict[str, Any], field: str) -> str | None:
        """The name of what a document has; None for nothing. Several tags are joined, and so are wrong."""
        if field == "tags":
            given = [value for value, one in self.ids[field].items() if one in document["tags"]]
            return " and ".join(given) or None
        names = {one: value for value, one in self.ids[field].items()}
        return names.get(document[field])

    def in_inbox(self) -> list[dict[str, Any]]:
        """The documents in the inbox."""
        return [one for one in self.paperless.documents() if self.inbox in one["tags"]]

    def _sort_inbox(self) -> None:
        """Set the right values of all documents in the inbox, and take them out, as a person does with many at once."""
        documents = self.in_inbox()
        for field in ("document_type", "correspondent"):
            to_set = defaultdict(list)
            for document in documents:
                value = self.ids[field].get(self._truth(document, field))
                if document[field] != value:
                    to_set[value].append(document["id"])
            for value, chosen in to_set.items():
                self._edit(chosen, f"set_{field}", **{field: value})
        for value, tag in self.ids["tags"].items():
            right = {document["id"] for document in documents if self._truth(document, "tags") == value}
            given = {document["id"] for document in documents if tag in document["tags"]}
            self._edit(sorted(right - given), "modify_tags", add_tags=[tag], remove_tags=[])
            self._edit(sorted(given - right), "modify_tags", add_tags=[], remove_tags=[tag])
        self._edit([document["id"] for document in documents], "remove_tag", tag=self.inbox)
        self.paperless.wait_for_tasks()

    def _truth(self, document: dict[str, Any], field: str) -> str | None:
        return self.papers[document["original_file_name"]].truth(field)

    def _edit(self, documents: list[int], method: str, **parameters: Any) -> None:
        """Edit several documents."""
        if documents:
            body = {"documents": documents, "method": method, "parameters": parameters}
            self.paperless.send("POST", f"{DOCUMENTS}bulk_edit/", body)


def measure_own(options: argparse.Namespace, archive: Archive, home: Path) -> Measured:
    """paperless with its own classifier."""
    paperless = Paperless(options.source, options.python, home, options.stop_words)
    try:
        paperless.start()
        measurement = Measurement(paperless, archive, AUTO)

        def arrive(papers: list[Paper]) -> float:
            if options.consume:
                return measurement.consume(papers)
            measurement.store(papers, is_sorted=False)
            return paperless.manage("document_retagger", *RETAGGED)

        batches = measurement.run(lambda: paperless.manage("document_create_classifier", "--skip-checks"), arrive)
        return Measured(paperless.version(), batches)
    finally:
        paperless.stop()


def measure_ours(options: argparse.Namespace, archive: Archive, home: Path) -> Measured:
    """paperless with our script after each document."""
    port = free_port()
    asking = {"DOCSPLIT_SERVE_URL": f"http://127.0.0.1:{port}", "DOCSPLIT_REJECT": str(options.reject)}
    paperless = Paperless(options.source, options.python, home, options.stop_words, SCRIPT, **asking)
    folder = home / "docsplit"
    servers: list[ServerProcess] = []

    def learn() -> float:
        begun = time.perf_counter()
        known = {**asking, **paperless.script_environment(), "DOCSPLIT_SERVE_EDIT_TOKEN": EDIT_TOKEN}
        subprocess.run([sys.executable, SCRIPT, "learn", folder], env=known, check=True)
        if not servers:
            servers.append(fit_and_serve(folder, port))
        return time.perf_counter() - begun

    try:
        paperless.start()
        measurement = Measurement(paperless, archive, NEVER)

        def arrive(papers: list[Paper]) -> float:
            if options.consume:
                return measurement.consume(papers)
            begun = time.perf_counter()
            known = {**os.environ, **asking, **paperless.script_environment()}
            measurement.store(papers, is_sorted=False)
            with ThreadPoolExecutor(SCRIPTS) as pool:
                list(pool.map(lambda document: answer(document, known), measurement.in_inbox()))
            paperless.wait_for_tasks()
            return time.perf_counter() - begun

        batches = measurement.run(learn, arrive)
        return Measured(paperless.version(), batches)
    finally:
        for server in servers:
            server.stop()
        paperless.stop()


def answer(document: dict[str, Any], environment: dict[str, str]) -> None:
    """Run our script as paperless does after a document was consumed."""
    environment = {**environment, "DOCUMENT_ID": str(document["id"])}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, check=True, capture_output=True, text=True)
    if not done.stdout:
        raise AssertionError(f"Document {document['id']} was not answered: {done.stderr}")


def fit_and_serve(folder: Path, port: int) -> ServerProcess:
    """Fit a classifier of each property as the script says, unless it is there from an earlier run; serve them."""
    log = folder / "server.log"
    fitting = []
    for field in FIELDS:
        if (folder / field).exists():
            continue
        examples = str(folder / f"{field}.jsonl")
        command = (
            "fit",
            "--dataset_name",
            examples,
            "--id_column",
            "id",
            "--output_dir",
            str(folder / field),
            "--use_cpu",
        )
        with (folder / f"{field}.log").open("wb") as output:
            started = [sys.executable, "-m", "docsplit_hf", *command]
            fitting.append(subprocess.Popen(started, stdout=output, stderr=output, start_new_session=True))
    if any([process.wait() for process in fitting]):
        raise AssertionError(f"A classifier was not fitted: see the logs in {folder}.")
    server = ServerProcess(*(str(folder / field) for field in FIELDS), log=log, port=port)
    server.wait_until_ready()
    return server


def versions(python: Path) -> dict[str, str]:
    """The versions of what both classifiers are made of."""
    ask = "from importlib.metadata import version; print(version('scikit-learn'))"
    learned = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "scikit_learn_of_paperless": learned,
        "docsplit_hf": version("docsplit_hf"),
        "torch": version("torch"),
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="A folder with contracts_lexpredict, 20news and bbc_news.")
    add("--source", type=Path, required=True, help="The folder src of paperless-ngx.")
    add("--python", type=Path, required=True, help="The Python with the requirements of paperless-ngx.")
    add("--stop_words", type=Path, required=True, help="NLTK's folder corpora/stopwords.")
    add("--per_value", type=int, default=10, help="Documents of each value sorted at first. Default: %(default)s.")
    add("--arriving", type=int, default=120, help="Documents that arrive later. Default: %(default)s.")
    add("--batches", type=int, default=2, help="In how many parts. Default: %(default)s.")
    add("--reject", type=float, help="The share of wrong answers to allow. Default: its own classifier, without ours.")
    add("--consume", action="store_true", help="Let them arrive through the consumption folder.")
    add("--seed", type=int, default=0, help="Default: %(default)s.")
    add("--keep", type=Path, help="A folder for the archives and logs; what docsplit/ has there is not fitted again.")
    add("--output", type=Path, required=True, help="The record, a line for each run.")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything that was started is stopped
    signal.signal(signal.SIGINT, signal.default_int_handler)
    archive = read_archive(options.data, options.per_value, options.arriving, options.batches, options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        home = options.keep or Path(temporary)
        measured = (
            measure_own(options, archive, home) if options.reject is None else measure_ours(options, archive, home)
        )
    record = {
        "when": datetime.now(UTC).date().isoformat(),
        "system": "its own classifier" if options.reject is None else "docsplit serve",
        "reject": options.reject,
        "versions": versions(options.python) | {"paperless": measured.version},
        "per_value": options.per_value,
        "sorted_at_first": len(archive.sorted_at_first),
        "values": {field: len(archive.values(field)) for field in FIELDS},
        "seed": options.seed,
        "consumed": options.consume,
        "batches": [asdict(batch) for batch in measured.batches],
    }
    with options.output.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
