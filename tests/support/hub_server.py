"""A stand-in for the Hugging Face hub on loopback: dataset repositories, the LFS way of large files, one branch.

It speaks the part of the hub's HTTP protocol that huggingface_hub uses to make a repository, upload, commit, look up
and download; Xet storage is not part of it. ``refused`` are files
that cannot be downloaded for now, and of those in ``cut`` only some bytes arrive.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import unquote, urlsplit

TOKEN = "hf_test"


@dataclass
class Repository:
    """The files of every commit, oldest first."""

    commits: list[dict[str, bytes]] = field(default_factory=lambda: [{}])

    def commit_id(self, number: int) -> str:
        content = "".join(f"{n}{sorted(map(hash, c.items()))}" for n, c in enumerate(self.commits[: number + 1]))
        return hashlib.sha1(content.encode()).hexdigest()

    def files(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        ids = [self.commit_id(number) for number in range(len(self.commits))]
        if revision == "main":
            return ids[-1], self.commits[-1]
        return (revision, self.commits[ids.index(revision)]) if revision in ids else None


@dataclass
class Hub:
    """What the server holds, what was asked of it, and the faults that a test plants."""

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    uploads: list[str] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    failing_commits: int = 0


class Handler(BaseHTTPRequestHandler):
    """One request; the hub is the server's."""

    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        return cast("Server", self.server).hub

    def log_message(self, *_: Any) -> None:
        """Silent: tests read ``Hub.asked``."""

    def handle_one(self, method: str) -> None:
        path = unquote(urlsplit(self.path).path)
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        self.hub.asked.append((method, path, self.headers.get("Range") or ""))
        if method in ("POST", "PUT") and not path.startswith("/lfs/") and not self.authorised():
            return self.refuse(401, "RepoNotFound")
        for verb, pattern, answer in ROUTES:
            if verb == method and (match := re.fullmatch(pattern, path)):
                return answer(self, content, *match.groups())
        return self.refuse(404, "EntryNotFound")

    def authorised(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    do_GET = lambda self: self.handle_one("GET")  # noqa: E731, N815
    do_HEAD = lambda self: self.handle_one("HEAD")  # noqa: E731, N815
    do_POST = lambda self: self.handle_one("POST")  # noqa: E731, N815
    do_PUT = lambda self: self.handle_one("PUT")  # noqa: E731, N815

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def give(self, value: Any, status: int = 200) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def create(self, content: bytes) -> None:
        asked = json.loads(content)
        name = f"{asked['organization']}/{asked['name']}"
        status = 409 if name in self.hub.repositories else 200
        self.hub.repositories.setdefault(name, Repository())
        self.give({"url": f"{self.hub.address}/datasets/{name}"}, status)

    def validate_yaml(self, content: bytes) -> None:
        self.give({"errors": [], "warnings": []})

    def preupload(self, content: bytes, name: str, revision: str) -> None:
        modes = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                "shouldIgnore": False,
            }
            for file in json.loads(content)["files"]
        ]
        self.give({"files": modes})

    def lfs_batch(self, content: bytes, name: str) -> None:
        objects = []
        for item in json.loads(content)["objects"]:
            upload = {"href": f"{self.hub.address}/lfs/{item['oid']}"}
            known = item["oid"] in self.hub.large
            objects.append(item | ({} if known else {"actions": {"upload": upload}}))
        self.give({"transfer": "basic", "objects": objects})

    def lfs_upload(self, content: bytes, digest: str) -> None:
        if hashlib.sha256(content).hexdigest() != digest:
            return self.refuse(400, "")
        self.hub.large[digest] = content
        self.hub.uploads.append(digest)
        return self.give({})

    def commit(self, content: bytes, name: str, revision: str) -> None:
        if self.hub.failing_commits:
            self.hub.failing_commits -= 1
            return self.refuse(403, "")
        repository = self.hub.repositories[name]
        files = dict(repository.commits[-1])
        for line in content.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
        repository.commits.append(files)
        oid = repository.commit_id(len(repository.commits) - 1)
        return self.give({"commitUrl": f"{self.hub.address}/datasets/{name}/commit/{oid}", "commitOid": oid})

    def info(self, content: bytes, name: str, revision: str | None = None) -> None:
        if name not in self.hub.repositories:
            return self.refuse(404, "RepoNotFound")
        known = self.hub.repositories[name].files(revision or "main")
        if known is None:
            return self.refuse(404, "RevisionNotFound")
        return self.give({"id": name, "sha": known[0], "siblings": [{"rfilename": file} for file in known[1]]})

    def tree(self, content: bytes, name: str, revision: str) -> None:
        known = self.hub.repositories[name].files(revision)
        assert known is not None
        self.give(
            [{"type": "file", "path": file, "size": len(text), "oid": "0" * 40} for file, text in known[1].items()]
        )

    def resolve(self, content: bytes, name: str, revision: str, file: str) -> None:
        known = self.hub.repositories[name].files(revision)
        if known is None or file not in known[1]:
            return self.refuse(404, "EntryNotFound")
        text = known[1][file]
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        if self.command == "GET" and file in self.hub.refused:
            return self.refuse(403, "")
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", known[0])
        self.send_header("ETag", f'"{hashlib.sha256(text).hexdigest()}"')
        self.send_header("Content-Length", str(len(text) - start))
        self.send_header("Accept-Ranges", "bytes")
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(text) - 1}/{len(text)}")
        self.end_headers()
        if self.command == "GET" and file in self.hub.cut:
            self.wfile.write(text[start : start + 10])
            self.close_connection = True
        elif self.command == "GET":
            self.wfile.write(text[start:])
        return None


REPOSITORY = r"([\w.-]+/[\w.-]+)"
ROUTES: list[tuple[str, str, Any]] = [
    ("POST", r"/api/repos/create", Handler.create),
    ("POST", r"/api/validate-yaml", Handler.validate_yaml),
    ("POST", rf"/api/datasets/{REPOSITORY}/preupload/(.+)", Handler.preupload),
    ("POST", rf"/datasets/{REPOSITORY}\.git/info/lfs/objects/batch", Handler.lfs_batch),
    ("PUT", r"/lfs/([0-9a-f]{64})", Handler.lfs_upload),
    ("POST", rf"/api/datasets/{REPOSITORY}/commit/(.+)", Handler.commit),
    ("GET", rf"/api/datasets/{REPOSITORY}", Handler.info),
    ("GET", rf"/api/datasets/{REPOSITORY}/revision/(.+)", Handler.info),
    ("GET", rf"/api/datasets/{REPOSITORY}/tree/(.+)", Handler.tree),
    ("HEAD", rf"/datasets/{REPOSITORY}/resolve/([^/]+)/(.+)", Handler.resolve),
    ("GET", rf"/datasets/{REPOSITORY}/resolve/([^/]+)/(.+)", Handler.resolve),
]


class Server(ThreadingHTTPServer):
    """The server with its hub; requests still open at the end are not waited for."""

    daemon_threads = True
    hub: Hub


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub on a free port of the loopback device."""
    server = Server(("127.0.0.1", 0), Handler)
    server.hub = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.hub
    finally:
        server.shutdown()
        server.server_close()
