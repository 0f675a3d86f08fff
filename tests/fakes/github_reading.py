"""The reading side of the REST double: pull requests, and git's objects out of a real repository.

What is not said of a pull request here comes from the examples in GitHub's own description.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.fakes.github_api import SLICE, GithubApi, Reply, error


class GithubReading(GithubApi):
    """Serve the objects of `origin`.

    `most_entries` is where a recursive tree is truncated; `lies` replaces the content of blobs.
    """

    def __init__(self, origin: Path, **options: Any) -> None:
        super().__init__(**options)
        self.origin = origin
        self.most_entries = 100_000
        self.lies: dict[str, bytes] = {}
        self.pulls: dict[int, dict[str, Any]] = {}

    def propose(self, number: int, head_sha: str, base_sha: str, **facts: Any) -> dict[str, Any]:
        """Open a pull request; `facts` are repository, branch, base_ref, state, draft, bot."""
        pull = copy.deepcopy(_example("pull-request"))
        repository = facts.get("repository", self.repository)
        pull |= {"number": number, "state": facts.get("state", "open"), "draft": facts.get("draft", False)}
        pull["requested_teams"] = []  # the example there does not fit GitHub's own description
        pull["user"]["type"] = "Bot" if facts.get("bot") else "User"
        _aim(pull["head"], head_sha, facts.get("branch", "topic"), repository)
        _aim(pull["base"], base_sha, facts.get("base_ref", "main"), self.repository)
        self.pulls[number] = pull
        return pull

    def git(self, *arguments: str) -> bytes:
        """Ask the repository."""
        command = ["git", "-C", str(self.origin), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout

    def asked(self, word: str) -> int:
        """Count the requests with a word in their path."""
        return sum(word in line for line in self.log)

    def _route(self, method: str, path: str, query: dict[str, str], content: dict[str, Any]) -> Reply:
        home = f"/repos/{self.repository}"
        routes = {
            "/pulls": lambda: self._pulls_by(query),
            r"/pulls/(\d+)": lambda number: self._pull(int(number)),
            r"/commits/(\w+)/pulls": lambda sha: self._pulls_of(sha),
            r"/git/trees/(\w+)": lambda sha: self._tree(sha, is_deep="recursive" in query),
            r"/git/blobs/(\w+)": lambda sha: self._blob(sha),
            r"/compare/(\w+)\.\.\.(\w+)": lambda base, head: self._comparison(base, head),
        }
        for pattern, answer in routes.items():
            if method == "GET" and (found := re.fullmatch(home + pattern, path)):
                return answer(*found.groups())
        return super()._route(method, path, query, content)

    # --- pull requests ---------------------------------------------------------------

    def _pull(self, number: int) -> Reply:
        return Reply(200, self.pulls[number]) if number in self.pulls else error(404, "Not Found")

    def _pulls_by(self, query: dict[str, str]) -> Reply:
        owner, _, branch = query.get("head", "").partition(":")
        found = [
            _simple(pull)
            for pull in self.pulls.values()
            if pull["state"] == query.get("state", "open")
            and pull["head"]["ref"] == branch
            and pull["head"]["repo"]["full_name"].startswith(f"{owner}/")
        ]
        return Reply(200, found)

    def _pulls_of(self, sha: str) -> Reply:
        """As GitHub does: of a commit of a fork it knows nothing here."""
        pulls = [pull for pull in self.pulls.values() if pull["head"]["sha"] == sha]
        mine = [pull for pull in pulls if pull["head"]["repo"]["full_name"] == self.repository]
        return Reply(200, [_simple(pull) for pull in mine])

    # --- objects -----------------------------------------------------------------------

    def _tree(self, sha: str, *, is_deep: bool) -> Reply:
        try:
            deep = ("-r", "-t") if is_deep else ()
            rows = self.git("ls-tree", "-l", "-z", *deep, sha).decode("utf-8", "replace").split("\0")[:-1]
        except subprocess.CalledProcessError:
            return error(404, "Not Found")
        entries = [_entry(row) for row in rows]
        body = {"sha": sha, "url": f"{self.url}/repos/{self.repository}/git/trees/{sha}"}
        is_cut = is_deep and len(entries) > self.most_entries
        return Reply(
            200, {**body, "tree": entries[: self.most_entries] if is_cut else entries, "truncated": is_cut}
        )

    def _blob(self, sha: str) -> Reply:
        try:
            content = self.lies.get(sha) or self.git("cat-file", "blob", sha)
        except subprocess.CalledProcessError:
            return error(404, "Not Found")
        url = f"{self.url}/repos/{self.repository}/git/blobs/{sha}"
        said = {"encoding": "base64", "content": base64.encodebytes(content).decode()}
        return Reply(200, {"sha": sha, "node_id": "B1", "size": len(content), "url": url, **said})

    def _comparison(self, base: str, head: str) -> Reply:
        try:
            start = self.git("merge-base", base, head).decode().strip()
        except subprocess.CalledProcessError as problem:
            return error(
                404, "Not Found" if problem.returncode > 1 else f"No common ancestor: {base}, {head}."
            )
        comparison = copy.deepcopy(_example("commit-comparison"))
        comparison["merge_base_commit"]["sha"] = start
        return Reply(200, comparison)


def _aim(side: dict[str, Any], sha: str, branch: str, repository: str) -> None:
    owner, _, name = repository.partition("/")
    side |= {"sha": sha, "ref": branch, "label": f"{owner}:{branch}"}
    side["repo"] |= {"full_name": repository, "name": name}


def _entry(row: str) -> dict[str, Any]:
    facts, _, path = row.partition("\t")
    mode, kind, sha, size = facts.split()
    entry = {"path": path, "mode": mode, "type": kind, "sha": sha}
    return entry | ({"size": int(size)} if kind == "blob" else {})


def _simple(pull: dict[str, Any]) -> dict[str, Any]:
    """As a list shows a pull request: it does not say how many files there are."""
    return {name: value for name, value in pull.items() if name in _example("pull-request-simple-items")[0]}


@cache
def _example(name: str) -> Any:
    return json.loads(SLICE.read_bytes())["components"]["examples"][name]["value"]
