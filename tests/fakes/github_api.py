"""A stateful double of GitHub's REST API on 127.0.0.1.

It keeps comments and commit statuses, and checks every request and every response of its own
against GitHub's OpenAPI description. `violations` must be empty at the end of a test.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.templating.paths.exceptions import PathError
from openapi_core.templating.responses.exceptions import ResponseNotFound
from werkzeug.datastructures import Headers, ImmutableMultiDict

SLICE = Path(__file__).with_name("github-openapi-slice.json")
MAX_BODY = 65_536
# GitHub answers with these everywhere, but describes them only here and there.
EVERYWHERE = (401, 403, 404, 429, 500, 502, 503)
TIME = "2026-11-29T12:00:00Z"
BOT = "github-actions[bot]"


class Reply(NamedTuple):
    """What the server answers."""

    status: int
    body: Any
    headers: Mapping[str, str] = {}


def error(status: int, message: str, **headers: str) -> Reply:
    body = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


FORBIDDEN = "Resource not accessible by integration"
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


class GithubApi:
    """Serve one repository while used as a context manager.

    Args:
        viewer: the login of the token's user; None is a workflow's own token, which may not ask.
        prefix: where the API begins ("/api/v3" on GitHub Enterprise Server).
        server_url: where its pages are.
    """

    def __init__(
        self,
        repository: str = "acme/skills",
        *,
        viewer: str | None = None,
        prefix: str = "",
        server_url: str = "https://github.com",
    ) -> None:
        self.repository, self.token = repository, "ghs_fake"
        self.viewer, self.prefix, self.server_url = viewer, prefix, server_url
        self.comments: dict[int, dict[str, Any]] = {}
        self.statuses: list[dict[str, Any]] = []
        self.log: list[str] = []
        self.violations: list[str] = []
        self._planned: list[tuple[str, Reply]] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}{prefix}"

    def __enter__(self) -> GithubApi:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def plan(self, request: str, *replies: Reply) -> None:
        """Answer the next requests that start like `request` ("POST /repos/") with these replies."""
        self._planned += [(request, reply) for reply in replies]

    def say(self, number: int, body: str, login: str = "octocat") -> int:
        """Add a comment of somebody."""
        return int(self._new_comment(number, body, login)["id"])

    @property
    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments.values()]

    # --- one request ---------------------------------------------------------------

    def answer(self, method: str, target: str, headers: Headers, body: bytes) -> Reply:
        target = target.removeprefix(self.prefix)
        with self._lock:
            self.log.append(f"{method} {target}")
            self._check_request(method, target, headers, body)
            reply = self._reply(method, target, headers, body)
            self._check_response(method, target, headers, body, reply)
            return reply

    def _reply(self, method: str, target: str, headers: Headers, body: bytes) -> Reply:
        for planned in self._planned:
            if f"{method} {target}".startswith(planned[0]):
                self._planned.remove(planned)
                return planned[1]
        if headers.get("Authorization", "").rpartition(" ")[2] != self.token:
            return error(401, "Bad credentials")
        url = urlsplit(target)
        content = json.loads(body) if body else {}
        return self._route(method, url.path, dict(parse_qsl(url.query)), content)

    def _route(self, method: str, path: str, query: dict[str, str], content: dict[str, Any]) -> Reply:
        if (method, path) == ("GET", "/user"):
            return Reply(200, _full_user(self.viewer)) if self.viewer else error(403, FORBIDDEN)
        home = f"/repos/{self.repository}"
        if found := re.fullmatch(f"{home}/issues/(\\d+)/comments", path):
            return self._comments(method, int(found[1]), query, content)
        if found := re.fullmatch(f"{home}/issues/comments/(\\d+)", path):
            return self._comment(method, int(found[1]), content)
        if found := re.fullmatch(f"{home}/statuses/([0-9a-f]{{40}})", path):
            return self._status(found[1], content)
        return error(404, "Not Found")

    def _comments(self, method: str, number: int, query: dict[str, str], content: dict[str, Any]) -> Reply:
        if method == "POST":
            if len(content.get("body", "")) > MAX_BODY:
                return error(422, "Validation Failed")
            return Reply(201, self._new_comment(number, content.get("body", ""), self.viewer or BOT))
        issue_url = f"{self.url}/repos/{self.repository}/issues/{number}"
        mine = [comment for comment in self.comments.values() if comment["issue_url"] == issue_url]
        page, size = int(query.get("page", 1)), int(query.get("per_page", 30))
        link = f'<{issue_url}/comments?per_page={size}&page={page + 1}>; rel="next"'
        headers = {"Link": link} if len(mine) > page * size else {}
        return Reply(200, mine[(page - 1) * size : page * size], headers)

    def _comment(self, method: str, number: int, content: dict[str, Any]) -> Reply:
        if number not in self.comments:
            return error(404, "Not Found")
        if method == "PATCH":
            if len(content.get("body", "")) > MAX_BODY:
                return error(422, "Validation Failed")
            self.comments[number]["body"] = content.get("body", "")
        return Reply(200, self.comments[number])

    def _status(self, sha: str, content: dict[str, Any]) -> Reply:
        url = f"{self.url}/repos/{self.repository}/statuses/{sha}"
        fixed = {"id": 1, "node_id": "S1", "avatar_url": None, "created_at": TIME, "updated_at": TIME}
        status = {**fixed, "url": url, **content, "creator": _user(BOT)}
        self.statuses.append({"sha": sha, **content})
        return Reply(201, status)

    def _new_comment(self, number: int, body: str, login: str) -> dict[str, Any]:
        key = len(self.comments) + 1
        home = f"{self.url}/repos/{self.repository}"
        self.comments[key] = {
            "id": key,
            "node_id": f"IC{key}",
            "url": f"{home}/issues/comments/{key}",
            "html_url": f"{self.server_url}/{self.repository}/pull/{number}#issuecomment-{key}",
            "issue_url": f"{home}/issues/{number}",
            "body": body,
            "user": _user(login),
            "created_at": TIME,
            "updated_at": TIME,
            "author_association": "NONE",
        }
        return self.comments[key]

    # --- the contract ---------------------------------------------------------------

    def _check_request(self, method: str, target: str, headers: Headers, body: bytes) -> None:
        for problem in _openapi().iter_request_errors(_Request(method, target, headers, body)):
            self.violations.append(f"request {method} {target}: {problem!r}")

    def _check_response(self, method: str, target: str, headers: Headers, body: bytes, reply: Reply) -> None:
        request = _Request(method, target, headers, body)
        for problem in _openapi().iter_response_errors(request, _Response(reply)):
            if isinstance(problem, PathError):
                continue  # said of the request already
            if isinstance(problem, ResponseNotFound) and reply.status in EVERYWHERE:
                continue
            self.violations.append(f"response {reply.status} to {method} {target}: {problem!r}")


def _user(login: str) -> dict[str, Any]:
    home = f"https://api.github.com/users/{login.replace('[', '%5B').replace(']', '%5D')}"
    links = "followers following gists starred subscriptions organizations repos events received_events"
    return {
        **{f"{name}_url": f"{home}/{name}" for name in links.split()},
        "login": login,
        "id": 7,
        "node_id": "U7",
        "avatar_url": "https://avatars.githubusercontent.com/u/7",
        "gravatar_id": "",
        "url": home,
        "html_url": "https://github.com/octocat",
        "type": "Bot" if login.endswith("[bot]") else "User",
        "site_admin": False,
    }


def _full_user(login: str) -> dict[str, Any]:
    unknown = dict.fromkeys(["bio", "blog", "company", "email", "hireable", "location", "name"])
    counts = dict.fromkeys(["followers", "following", "public_gists", "public_repos"], 0)
    return {
        **_user(login),
        **unknown,
        **counts,
        "created_at": TIME,
        "updated_at": TIME,
        "user_view_type": "public",
    }


@cache
def _openapi() -> OpenAPI:
    # The slice itself is not checked: it is GitHub's own, and that would cost seconds.
    return OpenAPI.from_dict(json.loads(SLICE.read_bytes()), config=Config(spec_validator_cls=None))


class _Request:
    """A request as openapi-core wants it."""

    host_url = "https://api.github.com"

    def __init__(self, method: str, target: str, headers: Headers, body: bytes) -> None:
        url = urlsplit(target)
        self.method, self.path, self.body = method.lower(), url.path, body or None
        self.content_type = headers.get("Content-Type", "application/json")
        query = ImmutableMultiDict(parse_qsl(url.query))
        self.parameters = RequestParameters(query=query, header=headers)


class _Response:
    """A response as openapi-core wants it."""

    content_type = "application/json"

    def __init__(self, reply: Reply) -> None:
        self.status_code, self.headers = reply.status, Headers(dict(reply.headers))
        self.data = json.dumps(reply.body).encode()


def _handler(api: GithubApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = api.answer(self.command, self.path, Headers(list(self.headers.items())), body)
            content = json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in _headers(reply, content):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _handle

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def _headers(reply: Reply, content: bytes) -> Iterator[tuple[str, str]]:
    yield "Content-Type", "application/json; charset=utf-8"
    yield "Content-Length", str(len(content))
    yield from reply.headers.items()
