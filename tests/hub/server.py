"""A small Hub in memory: the part of its HTTP API that huggingface_hub 2.4 uses, its errors, and a count of requests.

Repositories of models with commits, private ones with tokens, large files by git-lfs in one part or in several, ETags,
redirects, and ranges. Not here: Xet, branches but main, pull requests, pages of long lists.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

TOKENS = {"hf_right": "me", "hf_other": "somebody"}
PART = 50_000  # bytes: larger files come in parts
LARGE = (".safetensors", ".parquet")


class Repository:
    """Its commits, oldest first: each a full list of files, by path."""

    def __init__(self, private: bool) -> None:
        self.private = private
        self.commits: dict[str, dict[str, bytes]] = {}
        self.add({".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n"})

    @property
    def head(self) -> str:
        return list(self.commits)[-1]

    def add(self, files: dict[str, bytes]) -> str:
        oid = hashlib.sha1(f"{len(self.commits)} {sorted(files)}".encode()).hexdigest()
        self.commits[oid] = files
        return oid

    def files(self, revision: str) -> dict[str, bytes]:
        revision = self.head if revision == "main" else revision
        if revision not in self.commits:
            raise Refused(404, "RevisionNotFound")
        return self.commits[revision]


class Refused(Exception):  # noqa: N818
    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        self.status = status
        self.headers = {"X-Error-Code": code, "X-Error-Message": message}


class Request(NamedTuple):
    method: str
    path: str
    received: int  # bytes
    sent: int  # bytes


class Hub(ThreadingHTTPServer):
    """The server; tests read its repositories and requests, and set which requests fail."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.requests: list[Request] = []
        self.cut: dict[str, int] = {}  # by method, how many large files are cut in the middle
        self.refuse_commits = 0

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        return self.repositories[name].files(revision)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def do_GET(self) -> None:  # noqa: N802
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, *arguments: Any) -> None:
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        self.place = unquote(url.path)
        self.received = b""
        length = int(self.headers.get("Content-Length", 0))
        if self.command == "PUT" and self._is_cut():
            self.rfile.read(length // 2)
            self._hang_up(length // 2, 0)
            return
        self.received = self.rfile.read(length)
        try:
            for pattern, method in ROUTES:
                match = re.fullmatch(pattern, f"{self.command} {self.place}")
                if match:
                    method(self, *match.groups())
                    return
            raise Refused(501, "", f"{self.command} {self.place} is not in this Hub.")
        except Refused as refused:
            self._send(refused.status, b"{}", refused.headers)

    def _send(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        sent = content if self.command != "HEAD" else b""
        if sent and status < 300 and "cdn" in self.place and self._is_cut():
            self.wfile.write(sent[: len(sent) // 2])
            self._hang_up(0, len(sent) // 2)
            return
        self.wfile.write(sent)
        self._count(len(self.received), len(sent))

    def _json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _count(self, received: int, sent: int) -> None:
        self.server.requests.append(Request(self.command, self.place, received, sent))

    def _is_cut(self) -> bool:
        left = self.server.cut.get(self.command, 0)
        self.server.cut[self.command] = max(left - 1, 0)
        return left > 0

    def _hang_up(self, received: int, sent: int) -> None:
        self._count(received, sent)
        self.close_connection = True
        self.connection.shutdown(2)

    def _user(self) -> str | None:
        given = self.headers.get("Authorization")
        if given is None:
            return None
        user = TOKENS.get(given.removeprefix("Bearer "))
        if user is None:
            raise Refused(401, "", "Invalid credentials in Authorization header")
        return user

    def _repository(self, name: str, to_write: bool = False) -> Repository:
        user = self._user()
        owner = name.partition("/")[0]
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and user != owner):
            raise Refused(404 if user else 401, "RepoNotFound", "Repository not found")
        if to_write and user != owner:
            raise Refused(403, "", "You have no right to write here")
        return repository

    def who_am_i(self) -> None:
        if self._user() is None:
            raise Refused(401)
        self._json({"type": "user", "name": self._user(), "orgs": [], "auth": {"accessToken": {"role": "write"}}})

    def create(self) -> None:
        asked = json.loads(self.received)
        user = self._user()
        if user is None:
            raise Refused(401)
        name = f"{asked.get('organization') or user}/{asked['name']}"
        if not name.startswith(f"{user}/"):
            raise Refused(403)
        answer = json.dumps({"url": f"{self.server.url}/{name}", "name": name}).encode()
        if name in self.server.repositories:
            self._send(409, answer)
            return
        self.server.repositories[name] = Repository(asked.get("visibility") == "private")
        self._send(200, answer)

    def control(self) -> None:
        """Set what fails next; a request of the test, which the real Hub does not have."""
        vars(self.server).update(json.loads(self.received))
        self._json({})

    def validate(self) -> None:
        self._json({"errors": [], "warnings": []})

    def information(self, name: str, revision: str | None = None) -> None:
        repository = self._repository(name)
        sha = repository.head if revision in (None, "main") else revision
        siblings = [{"rfilename": path} for path in repository.files(sha)]
        self._json({"id": name, "sha": sha, "private": repository.private, "siblings": siblings, "tags": []})

    def tree(self, name: str, revision: str, folder: str | None = None) -> None:
        start = f"{folder}/" if folder else ""
        entries = []
        for path, content in self._repository(name).files(revision).items():
            if path.startswith(start):
                entry = {"type": "file", "path": path, "size": len(content), "oid": blob(content)}
                entries.append(entry | large(path, content))
        if not entries:
            raise Refused(404, "EntryNotFound")
        self._json(entries)

    def preupload(self, name: str, revision: str) -> None:
        self._repository(name, to_write=True).files(revision)
        answers = []
        for file in json.loads(self.received)["files"]:
            mode = "lfs" if file["path"].endswith(LARGE) else "regular"
            answers.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False})
        self._json({"files": answers})

    def batch(self, name: str) -> None:
        self._repository(name, to_write=True)
        objects = []
        for wanted in json.loads(self.received)["objects"]:
            if wanted["oid"] in self.server.objects:
                objects.append(wanted)
                continue
            href = f"{self.server.url}/objects/{wanted['oid']}"
            header = {}
            if wanted["size"] > PART:
                header["chunk_size"] = str(PART)
                for part in range(1, math.ceil(wanted["size"] / PART) + 1):
                    header[str(part)] = f"{href}/{part}"
            objects.append(wanted | {"actions": {"upload": {"href": href, "header": header}}})
        self._json({"transfer": "basic", "objects": objects})

    def put(self, oid: str, part: str | None = None) -> None:
        if part is None:
            self._keep(oid, self.received)
        else:
            self.server.parts.setdefault(oid, {})[int(part)] = self.received
        self._send(200, b"", {"ETag": f'"{hashlib.md5(self.received).hexdigest()}"'})

    def complete(self, oid: str) -> None:
        parts = self.server.parts.pop(oid)
        numbers = [part["partNumber"] for part in json.loads(self.received)["parts"]]
        self._keep(oid, b"".join(parts[number] for number in numbers))
        self._json({})

    def _keep(self, oid: str, content: bytes) -> None:
        if hashlib.sha256(content).hexdigest() != oid:
            raise Refused(400, "", "The content is not what was announced")
        self.server.objects[oid] = content

    def commit(self, name: str, revision: str) -> None:
        repository = self._repository(name, to_write=True)
        if self.server.refuse_commits:
            self.server.refuse_commits -= 1
            raise Refused(400, "", "No commits now")
        files = dict(repository.files(revision))
        for line in self.received.splitlines():
            operation = json.loads(line)
            kind = operation["key"]
            value = operation["value"]
            if kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif kind == "deletedFile":
                del files[value["path"]]
        oid = repository.add(dict(sorted(files.items())))
        self._json({"commitUrl": f"{self.server.url}/{name}/commit/{oid}", "commitOid": oid, "hookOutput": ""})

    def resolve(self, name: str, revision: str, path: str) -> None:
        repository = self._repository(name)
        commit = repository.head if revision == "main" else revision
        files = repository.files(commit)
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if path not in files:
            self._send(404, b"", headers | {"X-Error-Code": "EntryNotFound"})
        elif path.endswith(LARGE):
            oid = hashlib.sha256(files[path]).hexdigest()
            linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(files[path]))}
            elsewhere = self.server.url.replace("127.0.0.1", "localhost")  # large files are another host's
            self._send(302, b"", headers | linked | {"Location": f"{elsewhere}/cdn/{oid}"})
        else:
            self._content(files[path], headers | {"ETag": f'"{blob(files[path])}"'})

    def cdn(self, oid: str) -> None:
        self._content(self.server.objects[oid], {"ETag": f'"{oid}"', "Accept-Ranges": "bytes"})

    def _content(self, content: bytes, headers: dict[str, str]) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            start = int(asked[1])
            end = int(asked[2] or len(content) - 1) + 1
            span = {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
            self._send(206, content[start:end], headers | span)
        else:
            self._send(200, content, headers)


def blob(content: bytes) -> str:
    """The name of a file in git."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def large(path: str, content: bytes) -> dict[str, Any]:
    if not path.endswith(LARGE):
        return {}
    return {"lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}}


REPOSITORY = r"([\w.-]+/[\w.-]+)"
ROUTES = [
    (r"GET /api/agent-harnesses", lambda handler: handler._json({})),
    (r"POST /control", Handler.control),
    (r"GET /api/whoami-v2", Handler.who_am_i),
    (r"POST /api/repos/create", Handler.create),
    (r"POST /api/validate-yaml", Handler.validate),
    (rf"GET /api/models/{REPOSITORY}", Handler.information),
    (rf"GET /api/models/{REPOSITORY}/revision/([^/]+)", Handler.information),
    (rf"GET /api/models/{REPOSITORY}/tree/([^/]+)(?:/(.+))?", Handler.tree),
    (rf"POST /api/models/{REPOSITORY}/preupload/([^/]+)", Handler.preupload),
    (rf"POST /{REPOSITORY}\.git/info/lfs/objects/batch", Handler.batch),
    (r"PUT /objects/(\w+)(?:/(\d+))?", Handler.put),
    (r"POST /objects/(\w+)", Handler.complete),
    (rf"POST /api/models/{REPOSITORY}/commit/([^/]+)", Handler.commit),
    (rf"(?:GET|HEAD) /{REPOSITORY}/resolve/([^/]+)/(.+)", Handler.resolve),
    (r"(?:GET|HEAD) /cdn/(\w+)", Handler.cdn),
]


@contextlib.contextmanager
def serve() -> Any:
    with Hub() as hub:
        threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True).start()
        yield hub
        hub.shutdown()
