"""The agent `api` with plain text: what a small model is shown, and what becomes of its answer."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from skillgate.bench.agents.api.agent import ApiSettings
from skillgate.bench.agents.api.text import ranked
from skillgate.bench.failure import Failure
from skillgate.bench.suite import load_suite
from skillgate.config import Protocol
from skillgate.values import Usage
from tests.fakes.agent_jobs import ADDER, BODY, QUICK, Played, played, texts
from tests.fakes.metering import KEY
from tests.fakes.model_api import Script
from tests.fakes.wires import Turn, Used

KINDS = ("anthropic", "openai")
DOUBLE = "def double(n):\n    return 2 * n\n"
ANSWER = f"calc/double.py\n```python\n{DOUBLE}```\n"
CALL = Usage(requests=1, turns=1, input=10, output=5, usd_micros=35)


def settings(kind: str = "openai", **members: object) -> ApiSettings:
    return ApiSettings(kind=kind, protocol=Protocol.TEXT, pauses_s=QUICK, **members)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_one_question_and_its_files(tiny_suite: Path, kind: str) -> None:
    with played(tiny_suite, texts(ANSWER), settings(kind)) as run:
        assert (run.root / "calc/double.py").read_text() == DOUBLE
        assert (run.result.failure, run.result.usage, run.result.detail) == (None, CALL, "")
        assert run.result.skill_used is None
        keeps_secrets(run)


def keeps_secrets(run: Played) -> None:
    sent = {name.lower(): value.removeprefix("Bearer ") for name, value in run.api.calls[0].headers.items()}
    assert KEY in (sent.get("x-api-key"), sent.get("authorization"))  # the meter sent it
    for text in (run.trace, repr(run.result), repr(run.agent), run.result.detail):
        assert KEY not in text
        assert "sgm-" not in text


TABLE: dict[str, tuple[tuple[Turn, ...], Failure | None, int, Usage | None]] = {
    "rate limit": ((Turn(status=429),), Failure.API_RATE_LIMIT, 3, Usage(requests=3)),
    "rate limit, then well": ((Turn(status=429), Turn(text=ANSWER)), None, 2, CALL + Usage(requests=1)),
    "500": ((Turn(status=500),), Failure.API_SERVER, 3, Usage(requests=3)),
    "overload": ((Turn(status=529),), Failure.API_OVERLOADED, 3, Usage(requests=3)),
    "cut": ((Turn(cut_after=2),), Failure.API_SERVER, 3, None),
    "error in the middle": ((Turn(error_after=2),), Failure.API_SERVER, 3, None),
    "no key": ((Turn(status=401, error="authentication_error"),), Failure.API_AUTH, 1, Usage(requests=1)),
    "too long": (
        (Turn(status=400, message="the request exceeds the available context size"),),
        Failure.AGENT_TURNS,
        1,
        Usage(requests=1),
    ),
    "refusal": ((Turn(stop="refusal"),), Failure.AGENT_REFUSED, 1, CALL),
    "max tokens": ((Turn(stop="max-tokens", text=ANSWER),), Failure.AGENT_TURNS, 1, CALL),
    "no file": ((Turn(text="I would add it."),), None, 2, CALL + CALL),
    "no file, then one": ((Turn(text="Sure!"), Turn(text=ANSWER)), None, 2, CALL + CALL),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TABLE)
def test_how_it_ends(tiny_suite: Path, name: str, kind: str) -> None:
    script, failure, requests, usage = TABLE[name]
    with played(tiny_suite, Script(turns=script), settings(kind)) as run:
        assert (run.result.failure, len(run.api.calls)) == (failure, requests), run.result.detail
        if usage is None:  # the whole holds of three calls
            assert run.result.usage.usd_micros > 3 * 40_000
        else:
            assert run.result.usage == usage
        keeps_secrets(run)


def test_half_a_file_is_not_written(tiny_suite: Path) -> None:
    cut = Turn(text=f"{ANSWER}calc/__init__.py\n```\ndef ad", stop="max-tokens")
    with played(tiny_suite, Script(turns=(cut,)), settings()) as run:
        assert run.result.failure is Failure.AGENT_TURNS
        assert (run.root / "calc/double.py").read_text() == DOUBLE
        assert (run.root / "calc/__init__.py").read_text().startswith("def add(a, b)")


@pytest.mark.parametrize("kind", KINDS)
def test_exhausted_money(tiny_suite: Path, kind: str) -> None:
    turn = Turn(text="Sure!", used=Used(worst=True))
    with played(tiny_suite, Script(turns=(turn,)), settings(kind, max_output=8000), budget=45_000) as run:
        assert (run.result.failure, len(run.api.calls)) == (Failure.AGENT_BUDGET, 1)
        assert run.result.usage.usd_micros <= 45_000
        keeps_secrets(run)


@pytest.mark.parametrize("kind", KINDS)
def test_the_arms_differ_in_the_skill_alone(tiny_suite: Path, kind: str) -> None:
    said = []
    for skill in (None, ADDER):
        with played(tiny_suite, texts(ANSWER), settings(kind), skill=skill) as run:
            asked = run.asked(0)
            said.append(asked["messages"][-1].pop("content"))
            asked.pop("seed", None)
            said.append(asked)
            assert run.result.skill_used is (True if skill else None)
    without, asked_without, with_skill, asked_with = said
    assert asked_without == asked_with
    given = (
        f'Follow this skill where it helps: How we add.\n\n<skill name="adder">\n{BODY.strip()}\n</skill>\n\n'
    )
    assert with_skill.replace(given, "") == without
    assert "skill" not in without


def test_the_prompt(tiny_suite: Path) -> None:
    with played(tiny_suite, texts(ANSWER), settings(temperature=0.7)) as run:
        asked = run.asked(0)
        assert (asked["temperature"], asked["max_tokens"], asked["stream"]) == (0.7, 8000, True)
        assert 0 <= asked["seed"] < 2**31
        assert asked["messages"][1]["content"] == (
            "# Files of the repository\n\n- calc/__init__.py\n- run.sh\n- tests/test_add.py\n\n"
            "# What is in them\n\n### calc/__init__.py\n\n```py\ndef add(a, b):\n    return a + b\n```\n\n"
            "### run.sh\n\n```sh\n#!/bin/sh\necho run\n```\n\n"
            f"### tests/test_add.py\n\n```py\n{(tiny_suite / 'repo/tests/test_add.py').read_text()}```\n\n"
            "# Task\n\n## Requirement\nAdd `double(n)` to `calc/double.py`.\n\n# Answer\n\n"
            "Write all of `calc/double.py`: "
            "for each a heading with its path, as above, then a code block with its content."
        )


def test_only_what_there_is_room_for_is_shown(tiny_suite: Path) -> None:
    (tiny_suite / "repo/calc/table.py").write_text("numbers = [" + "1, " * 5000 + "]\n")
    (tiny_suite / "repo/calc/logo.bin").write_bytes(b"\xff\xfe\x00")
    with played(tiny_suite, texts(ANSWER), settings(shown_tokens=30)) as run:
        said = run.asked(0)["messages"][1]["content"]
        assert "- calc/logo.bin\n- calc/table.py\n" in said
        assert "def add(a, b)" in said
        assert "numbers" not in said
        assert "unittest" not in said


def test_a_fence_is_longer_than_those_in_the_file(tiny_suite: Path) -> None:
    (tiny_suite / "repo/README.md").write_text("# Calc\n\n````\n```\ncalc\n````\n")
    with played(tiny_suite, texts(ANSWER), settings()) as run:
        assert "### README.md\n\n`````md\n# Calc\n\n````\n```\n" in run.asked(0)["messages"][1]["content"]


def test_files_that_the_task_is_about_come_first(tiny_suite: Path) -> None:
    (task,) = load_suite(tiny_suite).tasks
    task = msgspec.structs.replace(
        task, prompt="See `docs/how.md`.", deliverables=("calc/double.py", "calc/a.py")
    )
    names = ["a.md", "calc/a.py", "calc/z.py", "docs/how.md", "more/docs/how.md"]
    assert ranked(names, task) == ["calc/a.py", "docs/how.md", "calc/z.py", "a.md", "more/docs/how.md"]


OUTSIDE = (
    "../outside.py\n```\nx\n```\n/tmp/outside.py\n```\nx\n```\n.git/hooks/pre-commit\n```\nx\n```\n"
    "calc/../../outside.py\n```\nx\n```\nlinked/outside.py\n```\nx\n```\nlink.py\n```\nx\n```\n"
    f"calc\n```\nx\n```\n{ANSWER}"
)


def test_paths_that_lead_out_are_refused(tiny_suite: Path, tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()

    def link(root: Path) -> None:
        (root / "linked").symlink_to(outside)
        (root / "link.py").symlink_to(outside / "outside.py")

    with played(tiny_suite, texts(OUTSIDE), settings(), before=link) as run:
        assert list(outside.iterdir()) == []
        assert (run.root / "calc/double.py").read_text() == DOUBLE
        refused = {line["path"]: line["refused"] for line in run.lines if "refused" in line}
        out = "leads out of the repository"
        assert refused == {
            path: f"{path} {why}"
            for path, why in {
                "../outside.py": out,
                "/tmp/outside.py": out,
                ".git/hooks/pre-commit": out,
                "calc/../../outside.py": out,
                "linked/outside.py": "is a link, or lies behind one",
                "link.py": "is a link, or lies behind one",
            }.items()
        }
        assert run.result.detail.startswith("../outside.py leads out")
        assert not Path("/tmp/outside.py").exists()


def test_files_are_not_read_through_links(tiny_suite: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("top secret")

    def link(root: Path) -> None:
        (root / "calc/double.py").symlink_to(tmp_path / "secret")

    with played(tiny_suite, texts(ANSWER), settings(), before=link) as run:
        assert "top secret" not in json.dumps([call.json for call in run.api.calls])
        assert (tmp_path / "secret").read_text() == "top secret"


def test_seeds_differ_between_repeats_arms_and_attempts(tiny_suite: Path) -> None:
    from skillgate.bench.agents.agent import AgentJob
    from skillgate.bench.agents.api.agent import seed_of
    from skillgate.core import Cell

    (task,) = load_suite(tiny_suite).tasks

    def seed(arm: str, repeat: int, attempt: int) -> int:
        cell = Cell(task=task.id, arm=arm, repeat=repeat)
        return seed_of(AgentJob(cell, task, "", None, None, None, 1, 1, attempt))  # type: ignore[arg-type]

    seeds = [
        seed(arm, repeat, attempt) for arm in ("none", "head") for repeat in (0, 1) for attempt in (1, 2)
    ]
    assert len(set(seeds)) == 8
    assert seed("none", 0, 1) == seeds[0]


def test_a_large_file_arrives_whole(tiny_suite: Path) -> None:
    text = "".join(f"row {number} é\n" for number in range(20_000))
    with played(tiny_suite, texts(f"calc/double.py\n```\n{text}```\n"), settings()) as run:
        assert (run.root / "calc/double.py").read_text() == text
        assert len(run.commands) > 5
