"""Which agent `run.agent` names, and what it lacks; before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from skillgate.config import Config, ProviderConfig, RunConfig, Wire
from skillgate.errors import ExitCode, PrerequisiteError, SkillgateError, UsageError
from skillgate.gate.agents import KEY_NAMES, Machine, check_agent, hire, programs, provider_of
from skillgate.gate.pipeline import Options
from skillgate.gate.sources import FolderSource
from skillgate.values import Secret

MODEL = "claude-haiku-5-5"
KEY = "sk-canary-agents"
LOCAL = ProviderConfig(base_url="http://127.0.0.1:9")


def config(**run: Any) -> Config:
    given = {"agent": "claude-code", "models": (MODEL,), **run}
    return Config(run=RunConfig(**given))


@pytest.mark.parametrize(
    ("run", "message", "code"),
    [
        ({"agent": "claude"}, "unknown agent `claude`", ExitCode.USAGE),
        ({"models": ()}, "`run.models` names no model", ExitCode.USAGE),
        ({"models": ("a", "b")}, "`run.models` names more than one", ExitCode.USAGE),
        ({"models": ("gpt-9",)}, "no price is known for `gpt-9`", ExitCode.PREREQUISITE),
        (
            {"provider": ProviderConfig(kind=Wire.OPENAI)},
            "`run.provider.kind` does not fit the agent `claude-code`",
            ExitCode.USAGE,
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_told_without_key_or_program(
    run: dict[str, Any], message: str, code: ExitCode
) -> None:
    with pytest.raises(SkillgateError) as caught:
        check_agent(config(**run))
    assert (caught.value.message.startswith(message), caught.value.exit_code) == (True, code)


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(UsageError) as caught:
        check_agent(config(agent="claude-cod"))
    assert "claude-code" in caught.value.hint


def test_without_a_key_its_variable_is_named(tmp_path: Path) -> None:
    for name, program in programs().items():
        run = config(agent=name).run
        with pytest.raises(PrerequisiteError) as caught:
            provider_of(run, program.provider, {})
        assert KEY_NAMES[program.provider] in caught.value.hint


def test_a_server_of_ones_own_needs_no_key_and_gets_the_one_of_its_kind() -> None:
    run = config(provider=LOCAL).run
    assert provider_of(run, "anthropic", {"openai": Secret(KEY)}).key == ""
    assert provider_of(run, "anthropic", {"anthropic": Secret(KEY)}).key == KEY


def test_a_program_that_is_not_installed_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        hire(config(provider=LOCAL), FolderSource(tmp_path), Machine(cache=tmp_path))
    assert caught.value.hint == "Run `skillgate agents install claude-code`."


def test_nothing_shows_a_key() -> None:
    secret = Secret(KEY)
    options = Options(out=Path("out"), keys={"anthropic": secret})
    provider = provider_of(config(provider=LOCAL).run, "anthropic", options.keys)
    for thing in (secret, options, Machine(keys=options.keys), provider):
        assert KEY not in f"{thing} {thing!r}"
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


def test_every_program_takes_the_same_setting() -> None:
    assert set(programs()) == {"claude-code", "codex", "gemini", "opencode"}
    assert {program.provider for program in programs().values()} == {"anthropic", "openai", "gemini"}
    assert all(0 < program.memory_mb <= 2048 for program in programs().values())


def test_a_missing_program_is_fetched_where_the_machine_installs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no npm there: it gets that far and no further
    with pytest.raises(PrerequisiteError, match="npm, which fetches agent programs"):
        hire(config(provider=LOCAL), FolderSource(tmp_path), Machine(cache=tmp_path, installs=True))
