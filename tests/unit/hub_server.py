"""A fake Hub on this machine: the part of its protocol that huggingface_hub's snapshot_download speaks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

Repos = Mapping[str, Mapping[str, bytes]]

GATED = "acme/gated"


@dataclass
class Hub:
    """Where it listens, and every file it was asked for."""

    url: str
    files_sent: list[str] = field(default_factory=list)


def commit_of(repo: str) -> str:
    return hashlib.sha1(repo.encode()).hexdigest()


@contextmanager
def serve(repos: Repos) -> Iterator[Hub]:
    """A Hub with these repositories, each with the one revision main."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            parts = self.path.split("?")[0].strip("/").split("/")
            if len(parts) < 4:
                self.refuse(404, "EntryNotFound")
                return
            if parts[:2] == ["api", "models"]:
                repo, verb, revision = "/".join(parts[2:4]), *(parts[4:6] or ["revision", "main"])
            else:
                repo, verb, revision = "/".join(parts[:2]), *parts[2:4]
            if repo == GATED:
                self.refuse(403, "GatedRepo")
            elif repo not in repos:
                self.refuse(401, "RepoNotFound")
            elif revision not in ("main", commit_of(repo)):
                self.refuse(404, "RevisionNotFound")
            elif verb == "revision":
                self.send_json(
                    {"id": repo, "sha": commit_of(repo), "siblings": [{"rfilename": n} for n in repos[repo]]}
                )
            elif verb == "tree":
                self.send_json(
                    [
                        {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                        for name, data in repos[repo].items()
                    ]
                )
            else:
                name = "/".join(parts[4:])
                if self.command == "GET":
                    hub.files_sent.append(name)
                self.send(200, repos[repo][name], {"ETag": f'"{hashlib.sha1(repos[repo][name]).hexdigest()}"'}, repo)

        def refuse(self, status: int, code: str) -> None:
            self.send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code}, "")

        def send_json(self, value: object) -> None:
            self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"}, "")

        def send(self, status: int, body: bytes, headers: Mapping[str, str], repo: str) -> None:
            self.send_response(status)
            for name, text in {**headers, "Content-Length": str(len(body)), "X-Repo-Commit": commit_of(repo)}.items():
                self.send_header(name, text)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
