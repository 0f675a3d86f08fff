"""`skillgate weigh` from the command line, against a real server that counts as the API does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from skillgate.cli import main
from skillgate.weighing import Request

KEY = "sk-not-a-key"
FRAME = 7


class CountingServer(ThreadingHTTPServer):
    """Counts words and FRAME for each message; every request is kept. `status` other than 200 refuses."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.refuse_after = 10**9
        self.requests: list[tuple[str, str, str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: CountingServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        (message,) = body["messages"]
        key = self.headers["x-api-key"] or self.headers["authorization"].removeprefix("Bearer ")
        kept = (self.path, key, body["model"], message["content"])
        self.server.requests.append(kept)
        refuses = self.server.status != 200 and len(self.server.requests) > self.server.refuse_after
        status = self.server.status if refuses else 200
        error = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
        answer = error if refuses else {"input_tokens": FRAME + len(message["content"].split())}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with CountingServer() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "demo"
    folder.mkdir()
    text = "---\nname: demo\ndescription: hello world\n---\n# Steps\n\nhello wide world\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    (folder / "a.md").write_text("one two three four\n", encoding="utf-8")
    (folder / "blank.md").write_text(" \n\n", encoding="utf-8")
    return "demo"


def counts(out: str) -> dict[str, int]:
    return {part["name"]: part["tokens"] for part in json.loads(out)["parts"]}


def test_the_tokenizer_of_the_package_counts(skill: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weigh", skill]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("demo: ")
    assert "tokens, counted with cl100k_base\n" in out
    assert "$" not in out
    assert err == ""


def test_a_claude_model_counts_itself(
    skill: str, server: CountingServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    assert main(["weigh", skill, "--model", "claude-sonnet-5-5", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert counts(out) == {
        "name and description": 3,
        "SKILL.md": 5,
        "Steps": 5,
        "a.md": 4,
        "blank.md": 0,
        "all files": 12,
    }
    weighing = json.loads(out)
    assert weighing["counted_with"] == "claude-sonnet-5-5 itself"
    assert weighing["price"] == {
        "usd_per_mtok": 2.0,
        "source": "claude-sonnet-5-5, list prices of Anthropic, 2026-11",
    }
    assert weighing["parts"][0]["heavier_than"] is None
    assert [request[:3] for request in server.requests] == [
        ("/v1/messages/count_tokens", KEY, "claude-sonnet-5-5")
    ] * 5
    body = "# Steps\n\nhello wide world\n"
    sent = [request[3] for request in server.requests]
    assert sent == ["a", "one two three four\n", "demo: hello world", body, body]


@pytest.mark.parametrize("refuse_after", [0, 2])
def test_a_refusal_is_told_and_the_tokenizer_counts_everything(
    skill: str,
    server: CountingServer,
    refuse_after: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    server.status, server.refuse_after = 401, refuse_after
    assert main(["weigh", skill, "--model", "claude-haiku-5-5", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["counted_with"] == "cl100k_base"
    assert counts(out)["name and description"] == 4
    assert err == (
        "skillgate: the API refuses to count for `claude-haiku-5-5` (HTTP 401);"
        " counted with cl100k_base instead\n"
        "  Check ANTHROPIC_API_KEY and the name of the model.\n"
    )
    assert KEY not in out


def test_no_network_is_told(
    skill: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        url = f"http://127.0.0.1:{closed.server_port}"
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    assert main(["weigh", skill, "--model", "claude-opus-5-5"]) == 0
    out, err = capsys.readouterr()
    assert "counted with cl100k_base" in out
    assert "(claude-opus-5-5, list prices of Anthropic, 2026-11), without a cache." in out
    assert err == (
        "skillgate: the API does not count for `claude-opus-5-5` (Connection error);"
        " counted with cl100k_base instead\n  Check the network and ANTHROPIC_BASE_URL.\n"
    )


def test_the_file_may_be_named_for_its_folder(skill: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weigh", skill]) == 0
    folder = capsys.readouterr().out
    assert main(["weigh", f"{skill}/SKILL.md"]) == 0
    assert capsys.readouterr().out == folder


def test_no_key_and_other_models_ask_nobody(
    skill: str, server: CountingServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    assert main(["weigh", skill, "--model", "claude-haiku-5-5"]) == 0
    assert "claude-haiku-5-5, prompts of at most 100,000 tokens, list prices" in capsys.readouterr().out
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert main(["weigh", skill]) == 0
    assert main(["weigh", skill, "--model", "other-1", "--input-usd-per-mtok", "4"]) == 0
    assert "$4 per million input tokens (as given)" in capsys.readouterr().out
    assert main(["weigh", skill, "--model", "other-1"]) == 0
    out, err = capsys.readouterr()
    assert "$" not in out
    assert err.startswith(
        "skillgate: no price is known for `other-1`\n"
        "  Give it with --input-usd-per-mtok, or name one of claude-"
    )
    assert server.requests == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], "gone: there is no SKILL.md"),
        (["."], ".: there is no SKILL.md"),
        (["demo", "--input-usd-per-mtok", "nan"], "--input-usd-per-mtok is no amount"),
        (["demo", "--input-usd-per-mtok", "-1"], "--input-usd-per-mtok is no amount"),
    ],
)
def test_what_cannot_be_weighed(
    skill: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["weigh", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"skillgate: {message}\n")


def test_the_key_is_in_no_repr() -> None:
    assert KEY not in repr(Request(Path("demo"), "claude-x", key=KEY))
