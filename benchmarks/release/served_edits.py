"""Kill ``docsplit serve`` under load while it is edited, and check that no edit is lost, doubled or mixed.

    python -m benchmarks.release.served_edits --classifier output/kinds --edits 200 --fits 20 --kills 30

The classifier is copied. Clients classify without a pause while edits (add, relabel, remove) and fits are sent, each
sent again until it is acknowledged. The server is killed by SIGKILL at random moments of
random edits, and started again. After each kill the folder must hold every acknowledged edit, each once, and at most
the one edit more that was under way. Each answer names its version, and all answers of a version to a text must be
equal; those of the version that is in the folder at a kill must equal the pipeline's.
"""

import argparse
import http.client
import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from transformers import pipeline

import docsplit_hf  # noqa: F401  which registers the pipeline
from benchmarks.served import EDIT_TOKEN, ServerProcess, free_port
from docsplit_hf import KNNDatastore
from docsplit_hf.apps.server.states import version_on_disk

CLIENTS = 3
TOLERANCE = 1e-6
LONGEST_DELAY = 1.0  # seconds between an acknowledgment and a kill
LONGEST_WAIT = 120  # seconds for a first answer
LOST = (OSError, http.client.HTTPException, json.JSONDecodeError)
TEXTS = [f"Text number {number} about a river, an engine and a garden." for number in range(12)]


@dataclass
class Observed:
    """What clients saw: the scores of each text in each version."""

    scores: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    answers: int = 0
    mixed: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, version: str, text: str, scores: dict[str, float]) -> None:
        """Compare an answer with the earlier ones of its version."""
        with self.lock:
            self.answers += 1
            known = self.scores.setdefault((version, text), scores)
            if not are_equal(known, scores):
                self.mixed.append(f"{version}: {known} and {scores}")

    def versions(self) -> set[str]:
        """The versions that were seen."""
        with self.lock:
            return {version for version, _ in self.scores}


@dataclass
class Expected:
    """The examples that acknowledged edits have made, and the edit under way."""

    labels: dict[str, str]
    pending: dict[str, object] | None = None
    acknowledged: int = 0
    fits: int = 0
    problems: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--classifier", type=Path, required=True, help="The folder of a fitted classifier.")
    add("--edits", type=int, default=200, help="Default: %(default)s.")
    add("--fits", type=int, default=20, help="Default: %(default)s.")
    add("--kills", type=int, default=30, help="Default: %(default)s.")
    add("--seed", type=int, default=0, help="Default: %(default)s.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        record = run(options.classifier, Path(home), options.edits, options.fits, options.kills, options.seed)
    print(json.dumps(record, indent=1))
    if record["lost_or_doubled"] or record["mixed"] or record["unlike_the_pipeline"]:
        raise SystemExit(1)


def run(classifier: Path, home: Path, edits: int, fits: int, kills: int, seed: int) -> dict[str, object]:
    """Edit, kill and check; return the record."""
    folder = shutil.copytree(classifier, home / "classifier")
    rng = random.Random(seed)
    port = free_port()
    expected = Expected(labels_in(folder))
    observed = Observed()
    is_over = threading.Event()
    editor = threading.Thread(target=send_edits, args=(port, edits, fits, rng, expected))
    clients = [threading.Thread(target=classify_all, args=(port, observed, is_over)) for _ in range(CLIENTS)]
    server = ServerProcess(str(folder), log=home / "log", port=port)
    server.wait_until_ready()
    for thread in clients:
        thread.start()
    wait_for_answers(folder, observed)
    editor.start()
    done = 0
    unlike = []
    for acknowledged in sorted(random.Random(seed + 1).sample(range(edits + fits - 1), kills)):
        while expected.acknowledged < acknowledged and editor.is_alive():
            time.sleep(0.01)
        time.sleep(rng.uniform(0, LONGEST_DELAY))  # so that steps of edits and of fits are interrupted
        server.kill()
        done += 1
        check_folder(folder, expected)
        unlike += check_answers(folder, observed)
        server = ServerProcess(str(folder), log=home / "log", port=port)
        server.wait_until_ready()
        check_folder(folder, expected)
    editor.join()
    wait_for_answers(folder, observed)
    is_over.set()
    for thread in clients:
        thread.join()
    server.stop()
    check_folder(folder, expected)
    unlike += check_answers(folder, observed)
    return {
        "edits": expected.acknowledged - expected.fits,
        "fits": expected.fits,
        "kills": done,
        "answers": observed.answers,
        "versions_seen": len(observed.versions()),
        "lost_or_doubled": expected.problems,
        "mixed": observed.mixed,
        "unlike_the_pipeline": unlike,
    }


def wait_for_answers(folder: Path, observed: Observed) -> None:
    """Wait until clients have seen the version that is in a folder."""
    deadline = time.monotonic() + LONGEST_WAIT
    version = version_on_disk(folder)
    while version not in observed.versions():
        if time.monotonic() > deadline:
            raise AssertionError(f"No answer of version {version} in {LONGEST_WAIT} seconds.")
        time.sleep(0.05)


def labels_in(folder: Path) -> dict[str, str]:
    """The label of each example in a folder; an id that is there twice is refused."""
    store = KNNDatastore.from_pretrained(folder)
    labels = [store.label_names[number] for number in store.labels]
    twice = [row_id for row_id, count in Counter(store.ids).items() if count > 1]
    if twice:
        raise AssertionError(f"Ids are there twice: {twice}.")
    return dict(zip(store.ids, labels, strict=True))


def send_edits(port: int, edits: int, fits: int, rng: random.Random, expected: Expected) -> None:
    """Send edits and fits, each until it is acknowledged."""
    names = sorted(set(expected.labels.values()))
    fit_after = max(edits // max(fits, 1), 1)
    for number in range(edits):
        body = make_edit(number, names, rng, expected)
        expected.pending = body
        answer = send_until_acknowledged(port, "/v1/examples", body)
        apply(body, answer, expected)
        if (number + 1) % fit_after == 0 and expected.fits < fits:
            send_until_acknowledged(port, "/v1/fit", {})
            expected.acknowledged += 1
            expected.fits += 1


def make_edit(number: int, names: list[str], rng: random.Random, expected: Expected) -> dict[str, object]:
    """An edit that adds an example, and sometimes relabels or removes another one that was added."""
    label = rng.choice(names)
    text = f"Added text {number} is about {label} and the number {rng.random():.6f}."
    body: dict[str, object] = {"add": [{"text": text, "label": label, "id": f"added-{number}"}]}
    added = [row_id for row_id in expected.labels if row_id.startswith("added-")]
    if added and number % 3 == 1:
        body["relabel"] = {rng.choice(added): rng.choice(names)}
    elif added and number % 3 == 2:
        body["remove"] = [rng.choice(added)]
    return body


def send_until_acknowledged(port: int, path: str, body: dict[str, object]) -> dict[str, object]:
    """Send a request again and again, until it is answered."""
    while True:
        try:
            status, answer = send(port, path, body)
        except LOST:
            time.sleep(0.05)
            continue
        if status == 200:
            return answer
        if status not in (409, 429, 503):
            raise AssertionError(f"{path} was refused: {status} {answer}")
        time.sleep(0.1)


def send(port: int, path: str, body: dict[str, object]) -> tuple[int, dict[str, object]]:
    """Send a request; return the status and the JSON of the answer."""
    headers = {"Authorization": f"Bearer {EDIT_TOKEN}"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def apply(body: dict[str, object], answer: dict[str, object], expected: Expected) -> None:
    """Note what an acknowledged edit has made."""
    labels = dict(expected.labels)
    changed(labels, body)
    expected.labels = labels
    expected.pending = None
    expected.acknowledged += 1
    given = [example["id"] for example in body["add"]]
    if answer["ids"] != given:
        expected.problems.append(f"An answer names {answer['ids']}, and {given} were added.")


def changed(labels: dict[str, str], body: dict[str, object]) -> None:
    """Make the changes of an edit."""
    for row_id in body.get("remove", ()):
        labels.pop(row_id)
    labels.update(body.get("relabel", {}))
    labels.update({example["id"]: example["label"] for example in body["add"]})


def check_folder(folder: Path, expected: Expected) -> None:
    """Compare a folder with the acknowledged edits, and the one under way."""
    before = expected.labels
    pending = expected.pending
    found = labels_in(folder)
    allowed = [before, expected.labels]  # an edit may be acknowledged while the folder is read
    for labels in list(allowed):
        if pending is not None:
            with_pending = dict(labels)
            try:
                changed(with_pending, pending)
            except KeyError:  # it was acknowledged meanwhile
                continue
            allowed.append(with_pending)
    if found not in allowed and found != expected.labels:
        missing = sorted(set(before) - set(found))
        extra = sorted(set(found) - set(before))
        expected.problems.append(f"Missing: {missing}; extra: {extra}; under way: {pending}.")


def classify_all(port: int, observed: Observed, is_over: threading.Event) -> None:
    """Classify texts without a pause."""
    number = 0
    while not is_over.is_set():
        texts = [TEXTS[(number + row) % len(TEXTS)] for row in range(3)]
        number += 1
        try:
            status, answer = send(port, "/v1/classify", {"texts": texts, "top_k": None})
        except LOST:
            time.sleep(0.05)
            continue
        if status == 200:
            for text, answers in zip(texts, answer["answers"], strict=True):
                observed.add(answer["version"], text, {one["label"]: one["score"] for one in answers})


def check_answers(folder: Path, observed: Observed) -> list[str]:
    """Compare the answers of the version in a folder with the pipeline's."""
    version = version_on_disk(folder)
    with observed.lock:
        seen = {text: scores for (one, text), scores in observed.scores.items() if one == version}
    if not seen:
        return []
    pipe = pipeline("docsplit-knn", model=str(folder))
    unlike = []
    for text, scores in seen.items():
        own = {one["label"]: one["score"] for one in pipe([text], top_k=None)[0]}
        if not are_equal(own, scores):
            unlike.append(f"{version}: {own} and {scores}")
    return unlike


def are_equal(scores: dict[str, float], others: dict[str, float]) -> bool:
    """Whether two answers are equal but for rounding."""
    return scores.keys() == others.keys() and all(abs(scores[name] - others[name]) <= TOLERANCE for name in scores)


if __name__ == "__main__":
    main()
