"""A git repository with awkward files that suites name, and an https server for such."""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import stat
import subprocess
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from skillgate.bench.repos.checkout import GitSource, checkout
from skillgate.errors import SkillgateError

WHERE = "suites/x/suite.yml:4"
ODD = "line\nbreak \"quoted\" 'single' $(touch x) -dash é"
RAW = os.fsdecode(b"raw-\xff\xfe")
Found = dict[str, tuple[str, bytes]]
FILES: Found = {
    ".gitattributes": ("644", b"hidden export-ignore\n*.up filter=up text eol=crlf ident\n"),
    ".gitignore": ("644", b"*\n"),
    "a.up": ("644", b"lower $Id$\n"),
    "bin/run": ("755", b"#!/bin/sh\n"),
    "empty": ("644", b""),
    "hidden": ("644", b"still here"),
    "link-in": ("link", b"./bin//run"),
    "link-out": ("link", b"../../../../etc/passwd"),
    "sub/deep/file": ("644", b"deep"),
    "sub/link": ("link", b"/nowhere/" + b"\xff"),
    ODD: ("644", b"odd"),
    RAW: ("644", b"\x00\xff\r\n"),
}


def git(folder: Path, *arguments: str, content: bytes | None = None) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, input=content, capture_output=True, check=True).stdout.decode().strip()


def commit_all(folder: Path, message: str = "a commit") -> str:
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


def make_repository(folder: Path, files: Found, *options: str) -> str:
    """Make a git repository with one commit; return the id of that."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", *options)
    for name, (kind, content) in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.symlink_to(os.fsdecode(content))
        else:
            path.write_bytes(content)
            path.chmod(int(kind, 8))
    return commit_all(folder)


def found(root: Path) -> Found:
    """Return everything below a folder but folders."""
    seen: Found = {}
    for path in root.rglob("*"):
        name, mode = str(path.relative_to(root)), path.lstat().st_mode
        if stat.S_ISLNK(mode):
            seen[name] = ("link", os.fsencode(os.readlink(path)))  # noqa: PTH115
        elif stat.S_ISREG(mode):
            seen[name] = (f"{mode & 0o777:o}", path.read_bytes())
        elif not stat.S_ISDIR(mode):
            seen[name] = ("other", b"")
    return seen


def unfinished(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.part"))


class Origin:
    """A repository that suites name, and the cache that it is checked out into."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "the origin"
        self.cache = root / "checkouts"
        self.commit = make_repository(self.folder, FILES)

    def source(self, commit: str = "", **more: str) -> GitSource:
        return GitSource(git=f"file://{self.folder}", commit=commit or self.commit, **more)

    def checkout(self, commit: str = "", **more: str) -> Path:
        return checkout(self.source(commit, **more), self.cache, WHERE)

    def refused(self, commit: str = "", **more: str) -> SkillgateError:
        with pytest.raises(SkillgateError) as caught:
            self.checkout(commit, **more)
        assert caught.value.message.startswith(f"{WHERE}: ")
        assert caught.value.hint
        assert unfinished(self.cache) == []
        return caught.value

    def store(self, commit: str = "") -> Path:
        """Return the bare repository of a commit in the cache."""
        url = f"file://{self.folder}".encode()
        return self.cache / "repos" / hashlib.sha256(url).hexdigest() / (commit or self.commit)

    def plant(self, commit: str) -> None:
        """Put a commit into the cache that git would not fetch."""
        shutil.copytree(self.folder / ".git", self.store(commit))

    def craft(self, *rows: tuple[str, str, str]) -> str:
        """Write a tree as nobody should, from rows of mode, name and id; return its id."""
        raw = b"".join(
            f"{mode} ".encode() + os.fsencode(name) + b"\0" + bytes.fromhex(i) for mode, name, i in rows
        )
        return git(self.folder, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", content=raw)

    def crafted(self, *rows: tuple[str, str, str]) -> str:
        """Commit such a tree; return the commit."""
        made = git(self.folder, "commit-tree", self.craft(*rows), "-m", "crafted")
        git(self.folder, "branch", "-f", "crafted", made)
        return made

    def blob(self, content: bytes) -> str:
        return git(self.folder, "hash-object", "-w", "--stdin", content=content)


class Site:
    """An https server that hands out files of a folder, and asks for a password below /private."""

    def __init__(self, root: Path) -> None:
        self.root = root / "site"
        self.root.mkdir()
        self.certificate = root / "certificate.pem"
        self.passwords: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = self._context(root / "key.pem").wrap_socket(
            self._server.socket, server_side=True
        )
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _context(self, key: Path) -> ssl.SSLContext:
        made = f"req -x509 -nodes -days 2 -subj /CN=here -keyout {key} -out {self.certificate}"
        curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -addext subjectAltName=IP:127.0.0.1"
        subprocess.run(["openssl", *made.split(), *curve.split()], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        return context

    def _handler(self) -> type[SimpleHTTPRequestHandler]:
        site = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(site.root))

            def do_GET(self) -> None:
                if "Authorization" in self.headers:
                    site.passwords.append(self.headers["Authorization"])
                if self.path.startswith("/private"):
                    self.answer(401, "WWW-Authenticate", "Basic realm=x")
                elif self.path.startswith("/moved"):
                    self.answer(302, "Location", site.url + self.path.removeprefix("/moved"))
                elif self.path.startswith("/plain"):
                    self.answer(302, "Location", site.url.replace("https", "http") + self.path[6:])
                else:
                    super().do_GET()

            def answer(self, code: int, name: str, value: str) -> None:
                self.send_response(code)
                self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
