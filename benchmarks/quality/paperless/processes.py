"""Paperless: paperless-ngx from its source, with its web server, worker, consumer and Redis, in a folder of its own."""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.served import free_port

USER = "admin"
PASSWORD = "only-on-this-machine"
START_SECONDS = 300
CONSUME_SECONDS = 3_600
DOCUMENTS = "/api/documents/"
STOP_SECONDS = 60
POLL_SECONDS = 2
# Unlike in its container, a process consumes many documents, which saves the imports of each. With several processes,
# some documents fail with "database is locked".
WORKER_OPTIONS = ("--concurrency", "1", "--max-tasks-per-child", "1000", "--without-mingle", "--without-gossip")
# NLTK's sentence model, which paperless loads, without parameters. They would change nothing, as paperless removes all
# punctuation before: there is one sentence.
SENTENCE_MODEL = ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab")

# Run by manage.py shell: documents that were sorted before, without files, as nothing that is measured reads them.
STORE = """
import json
from documents.models import Document

for number, row in enumerate(json.load(open({path!r}))):
    tags = row.pop("tags")
    document = Document(checksum=f"sorted{{number}}", mime_type="text/plain", page_count=1, **row)
    Document.objects.bulk_create([document])
    Document.tags.through.objects.bulk_create([Document.tags.through(document=document, tag_id=tag) for tag in tags])
"""


class Paperless:
    """An archive that listens on this machine only.

    Args:
        source: The folder ``src`` of its repository.
        python: The Python in which its requirements are installed.
        home: A folder for its data, its logs and the files to consume.
        stop_words: NLTK's folder ``stopwords``, which its container brings.
        post_consume: A script to run after each document, if any. It is told the address and a token of the archive.
        **environment: Further environment variables of the script.
    """

    def __init__(
        self,
        source: Path,
        python: Path,
        home: Path,
        stop_words: Path,
        post_consume: Path | None = None,
        **environment: str,
    ) -> None:
        self._source = source
        self._python = python
        self._home = home
        self._started: list[subprocess.Popen] = []
        self._redis_port = free_port()
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._token = ""
        self._environment = os.environ | self._settings(stop_words) | environment
        self._environment.pop("PYTHONPATH", None)  # its own libraries, not ours
        if post_consume is not None:
            self._environment["PAPERLESS_POST_CONSUME_SCRIPT"] = str(post_consume)

    def start(self) -> None:
        """Make the database, start everything, and get a token."""
        redis = ("redis-server", "--port", str(self._redis_port), "--bind", "127.0.0.1", "--save", "")
        self._start("redis", *redis)
        self.manage("migrate", "--skip-checks")
        self.manage("manage_superuser")
        bin_folder = self._python.parent
        web = ("--interface", "asginl", "--ws", "--loop", "uvloop", "paperless.asgi:application")
        self._start("web", str(bin_folder / "granian"), *web)
        self._token = self._wait_for_token()
        self._environment |= self.script_environment()
        self._start("worker", str(bin_folder / "celery"), "--app", "paperless", "worker", *WORKER_OPTIONS)
        self._start("consumer", str(self._python), "manage.py", "document_consumer", "--skip-checks")

    def stop(self) -> None:
        """Stop everything that was started, the last one first."""
        for process in reversed(self._started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(timeout=STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def version(self) -> str:
        """The version that it says it has."""
        return self.send("GET", "/api/status/")["pngx_version"]

    def script_environment(self) -> dict[str, str]:
        """What examples/paperless must know of the archive."""
        return {"DOCSPLIT_PAPERLESS_URL": self.address, "DOCSPLIT_PAPERLESS_TOKEN": self._token}

    def manage(self, *arguments: str) -> float:
        """Run a command of ``manage.py``; return its seconds."""
        begun = time.perf_counter()
        with (self._home / "manage.log").open("ab") as log:
            subprocess.run(
                [str(self._python), "manage.py", *arguments],
                cwd=self._source,
                env=self._environment,
                stdout=log,
                stderr=log,
                check=True,
            )
        return time.perf_counter() - begun

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request with the token; return the JSON of the answer."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Token {self._token}"
        request = urllib.request.Request(self.address + path, content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read(1_000)!r}") from error

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield all documents, without their texts."""
        number = 1
        while True:
            query = {"page": number, "page_size": 100, "ordering": "id", "truncate_content": "true"}
            page = self.send("GET", f"{DOCUMENTS}?{urllib.parse.urlencode(query)}")
            yield from page["results"]
            if not page["next"]:
                return
            number += 1

    def store(self, documents: list[dict[str, Any]]) -> None:
        """Put documents that were sorted before into the database, which takes seconds; ``documents``: their fields."""
        path = self._home / "sorted.json"
        path.write_text(json.dumps(documents), encoding="utf-8")
        self.manage("shell", "--command", STORE.format(path=str(path)))

    def consume(self, texts: dict[str, str]) -> float:
        """Put texts into the folder that is consumed, as files of these names; return the seconds this took."""
        begun = time.perf_counter()
        expected = self._count() + len(texts)
        for name, text in texts.items():
            part = self._home / "part"
            part.write_text(text, encoding="utf-8")
            shutil.move(part, self._home / "consume" / name)
        deadline = begun + CONSUME_SECONDS
        while self._count() < expected:
            if time.perf_counter() > deadline:
                raise AssertionError(f"{self._count()} of {expected} documents are there: see {self._home}.")
            self._look_at_tasks()
            time.sleep(POLL_SECONDS)
        self.wait_for_tasks()
        return time.perf_counter() - begun

    def wait_for_tasks(self) -> None:
        """Wait for the tasks under way: the script runs after a document is there."""
        while self._look_at_tasks():
            time.sleep(POLL_SECONDS)

    def _look_at_tasks(self) -> bool:
        """Whether tasks are under way; one that failed is an error."""
        count = {}
        for status in ("failure", "pending", "started"):
            found = self.send("GET", f"/api/tasks/?status={status}&page_size=1")
            count[status] = found["count"]
            if status == "failure" and found["count"]:
                raise AssertionError(f"{found['count']} tasks failed, such as {found['results'][0]}.")
        return count["pending"] + count["started"] > 0

    def _count(self) -> int:
        return self.send("GET", f"{DOCUMENTS}?page_size=1&fields=id")["count"]

    def _settings(self, stop_words: Path) -> dict[str, str]:
        """Its environment variables; it listens on this machine, and reads no scans."""
        for name in ("data", "media", "consume"):
            (self._home / name).mkdir(parents=True, exist_ok=True)
        nltk = self._home / "nltk"
        model = nltk / "tokenizers" / "punkt_tab" / "english"
        model.mkdir(parents=True, exist_ok=True)
        for name in SENTENCE_MODEL:
            (model / name).touch()
        words = nltk / "corpora" / "stopwords"
        words.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(stop_words / "english", words / "english")  # not its mode: NLTK refuses what others may write
        return {
            "PAPERLESS_DATA_DIR": str(self._home / "data"),
            "PAPERLESS_MEDIA_ROOT": str(self._home / "media"),
            "PAPERLESS_CONSUMPTION_DIR": str(self._home / "consume"),
            "PAPERLESS_NLTK_DIR": str(nltk),
            "PAPERLESS_REDIS": f"redis://127.0.0.1:{self._redis_port}",
            "PAPERLESS_SECRET_KEY": "only-for-a-measurement-0123456789",
            "PAPERLESS_ADMIN_USER": USER,
            "PAPERLESS_ADMIN_PASSWORD": PASSWORD,
            "PAPERLESS_DB_TIMEOUT": "300",  # seconds in which SQLite waits for the other processes
            "PAPERLESS_OCR_MODE": "skip",
            "PAPERLESS_TASK_WORKERS": "1",
            "PAPERLESS_CONSUMER_STABILITY_DELAY": "1",
            "PAPERLESS_THUMBNAIL_FONT_NAME": str(_font()),
            "GRANIAN_HOST": "127.0.0.1",
            "GRANIAN_PORT": str(self.port),
        }

    def _start(self, name: str, *command: str) -> None:
        """Start a process, in a group of its own; it appends to a log of its own."""
        with (self._home / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                command, cwd=self._source, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self._started.append(started)

    def _wait_for_token(self) -> str:
        """Wait for the web server, and get a token of the administrator."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.send("POST", "/api/token/", {"username": USER, "password": PASSWORD})["token"]
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)


def _font() -> Path:
    """A font of this machine, for pictures of first pages."""
    found = sorted(Path("/usr/share/fonts").rglob("*Serif*.ttf"))
    if not found:
        raise SystemExit("There is no font: install fonts-dejavu-core or fonts-liberation.")
    return found[0]
