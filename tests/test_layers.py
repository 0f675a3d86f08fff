"""Imports go down only, and a level's rooms do not know each other."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "skillgate"
LEVELS = (
    {"values", "comparison", "core", "errors", "document"},
    {"config", "skill", "tokens", "model_tokens", "weights", "prices", "git", "shipped"},
    {"lint", "bench", "stats", "report"},
    {"gate", "github"},
    {
        "agents",
        "calibrating",
        "cli",
        "__main__",
        "console",
        "demo",
        "doctor",
        "init",
        "linting",
        "output",
        "run_options",
        "suites",
        "weighing",
    },
)
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
MIXED_LEVELS = (0, 1, 4)  # small modules that may know each other


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room != "__init__":
            yield room, path


def imported_rooms(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: import by full name"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("skillgate.")} - {"__version__"}


def test_every_room_has_a_level() -> None:
    assert {room for room, _ in modules()} == set(LEVEL_OF) | set()


@pytest.mark.parametrize(("room", "path"), list(modules()), ids=lambda value: str(value)[-40:])
def test_imports_go_down_only(room: str, path: Path) -> None:
    level = LEVEL_OF[room]
    wrong = {
        other
        for other in imported_rooms(path) - {room}
        if LEVEL_OF[other] > level or (LEVEL_OF[other] == level and level not in MIXED_LEVELS)
    }
    assert wrong == set()


@pytest.mark.parametrize("path", [path for _, path in modules()], ids=lambda value: str(value)[-40:])
def test_a_file_is_read_in_one_sitting(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [f.name for f in functions if (f.end_lineno or 0) - f.lineno >= 80] == []
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= 450


@pytest.mark.parametrize("path", [path for _, path in modules()], ids=lambda value: str(value)[-40:])
def test_only_the_command_line_reads_the_environment_or_exits(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    # git.py passes the environment on, without what a hook puts there
    if path.name not in ("cli.py", "__main__.py", "git.py"):
        assert [word for word in ("os.environ", "os.getenv", "sys.exit(") if word in text] == []


HEAVY = ("docker", "anthropic", "scipy", "github", "numpy", "tiktoken", "aiohttp", "openai")


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("import skillgate.cli", []),
        ("import skillgate.linting", []),
        (
            "from skillgate.cli import main; assert main(['lint', 'fixtures/skills/careful-changes']) == 0",
            [],
        ),
        ("from skillgate.cli import main; assert main(['--help']) == 0", []),
    ],
)
def test_lint_does_not_load_what_only_a_gate_needs(code: str, loaded: list[str]) -> None:
    probe = f"import sys; {code}; print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(done.stderr.strip().splitlines()[-1]) == loaded
