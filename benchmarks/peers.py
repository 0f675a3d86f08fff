"""Which linter finds which fault: `python benchmarks/peers.py [--only TOOL]... [--cache DIR]`.

Installs the tools of peers/tools.yml each into a folder of its own, runs every one on every trap of
peers/traps.yml, keeps what it said in peers/results.json and writes docs/peers.md. With `--only` the other
columns stay as they were; `--only skillgate` needs no peer. `--show TRAP` prints instead all that the tools
say of a trap and not of the clean skill, to judge the expressions by hand.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import msgspec
from traps import CLEAN, DATA, Trap, Traps, read_traps, write_trap

import skillgate
from skillgate.document import decode
from skillgate.values import Struct

ROOT = DATA.parent.parent
PAGE = ROOT / "docs" / "peers.md"
CACHE = Path.home() / ".cache" / "skillgate-peers"
TIMEOUT_S = 120
OURS = "skillgate"
SEVERITY_KEYS = ("severity", "level")
RULE_KEYS = ("rule", "rule_id", "ruleId", "check_id", "check", "code", "slug", "name", "field")
MESSAGE_KEYS = ("message", "title", "description", "summary")
LIST_KEYS = ("errors", "warnings", "problems", "issues", "suggestions")
CRASH = re.compile(
    r"a bug in skillgate|Traceback \(most recent call last\)|panicked at|^\s+at .+\(.+:\d+:\d+\)", re.M
)
Said = tuple[list[str], str]  # the findings of a tool, and the last line of a crash or an empty text


class Tool(Struct, kw_only=True):
    """A linter: where it comes from and its commands. `layout`: where it looks for skills."""

    name: str
    version: str
    source: Literal["pypi", "npm"] = msgspec.field(name="from")
    runs: tuple[tuple[str, ...], ...]
    layout: str = "skills"


class Result(Struct, kw_only=True):
    """What one tool said: the finding by the trap that it matches, the last line by the trap it broke on."""

    version: str
    date: str
    said: dict[str, str]
    broke: dict[str, str]


def read_tools() -> list[Tool]:
    peers = decode((DATA / "tools.yml").read_text(encoding="utf-8"), tuple[Tool, ...], "tools.yml")
    run = (sys.executable, "-m", "skillgate", "lint", "{root}", "--format", "json")
    return [Tool(name=OURS, version="", source="pypi", runs=(run,)), *peers]


def install(tool: Tool, cache: Path) -> Path:
    """Put a tool into a folder of its own; return where its commands are."""
    home = cache / f"{tool.name}-{tool.version}"
    commands = home / ("bin" if tool.source == "pypi" else "node_modules/.bin")
    if tool.name == OURS or (home / "ready").is_file():
        return commands
    home.mkdir(parents=True, exist_ok=True)
    if tool.source == "pypi":
        venv.create(home, with_pip=True)
        pip = (home / "bin" / "pip", "--disable-pip-version-check", "install", "--quiet")
        subprocess.run([*pip, f"{tool.name}=={tool.version}"], check=True)
    else:
        npm = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
        subprocess.run([*npm, f"{tool.name}@{tool.version}"], check=True, cwd=home)
    (home / "ready").touch()
    return commands


def run(tool: Tool, commands: Path, trap: Trap, texts: Mapping[str, str]) -> Said:
    """Return what the tool says of a trap, and the last line of a crash or an empty text."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "repository"
        skills = write_trap(trap, texts, root, tool.layout)
        said: list[str] = []
        for command, target in _commands(tool, skills):
            places = {"{root}": str(root), "{skills}": str(skills), "{skill}": str(target)}
            found, crash = _call([places.get(part, part) for part in command], commands, root)
            said += found
            if crash:
                return said, crash
        return said, ""


def _commands(tool: Tool, skills: Path) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield each command with the skill folder that it is for; without a skill it gets what is there."""
    there = sorted(skills.iterdir())
    folders = [folder for folder in there if (folder / "SKILL.md").is_file()] or there or [skills]
    for command in tool.runs:
        yield from ((command, folder) for folder in (folders if "{skill}" in command else [skills]))


def _call(command: list[str], commands: Path, root: Path) -> Said:
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    settings = {"NO_COLOR": "1", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    env = {"PATH": path, "HOME": str(root.parent), **settings}  # no configuration or cache of this machine
    program = commands / command[0]
    command[0] = str(program) if program.exists() else command[0]
    try:
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return [], f"no answer within {TIMEOUT_S} s"
    out, err = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    out, err = (text.replace(f"{root}/", "").replace(str(root), ".") for text in (out, err))
    return heard(done.returncode, out, err)


def heard(code: int, out: str, err: str) -> Said:
    """Return the findings in a command's output, and the last line of a crash or an empty text."""
    said = list(findings(out))
    if code >= 0 and not CRASH.search(err + out):
        return (said or list(findings(err))) + (["ended with a failure"] if code else []), ""
    return said, (err.strip() or out.strip() or f"signal {-code}").splitlines()[-1][:200]


def findings(output: str) -> Iterator[str]:
    """Yield `severity rule: message` of each finding in a tool's JSON, or the lines of its text."""
    start = min((output.find(mark) for mark in "[{" if mark in output), default=len(output))
    try:
        yield from _walk(json.loads(output[start:]))
        output = output[:start]
    except ValueError:
        pass  # text then
    yield from filter(None, map(str.strip, output.splitlines()))


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _walk(item)
    if not isinstance(value, dict):
        return
    messages = [value[key] for key in MESSAGE_KEYS if isinstance(value.get(key), str)]
    if messages and value.get("passed") is not True:
        rules = [value[key] for key in SEVERITY_KEYS + RULE_KEYS if isinstance(value.get(key), str)]
        yield " ".join(f"{' '.join(rules)}: {' - '.join(messages)}".split())
    for key, item in value.items():
        if key in LIST_KEYS and isinstance(item, list):
            yield from (text for text in item if isinstance(text, str))
        yield from _walk(item)


def new(said: list[str], clean: list[str]) -> list[str]:
    """Return what a tool does not say of the clean skill as well, numbers aside."""
    known = {_key(text) for text in clean}
    return [text for text in said if _key(text) not in known]


def _key(text: str) -> str:
    return re.sub(r"\d+", "0", text.lower())


def judge(trap: Trap, said: list[str], clean: list[str]) -> str:
    """Return the finding that names the concern of a trap, or an empty text."""
    pattern = re.compile(trap.caught)
    return next((text for text in new(said, clean) if pattern.search(text.lower())), "")


def measure(tool: Tool, traps: Traps, cache: Path) -> Result:
    """Run one tool on every trap."""
    commands = install(tool, cache)
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda trap: recall(tool, commands, trap, traps.texts, cache), (CLEAN, *traps.traps))
    (clean, crash), *rest = runs
    if crash:
        raise SystemExit(f"{tool.name} breaks on the clean skill: {crash}")
    said, broke = {}, {}
    for trap, (found, crash) in zip(traps.traps, rest, strict=True):
        if finding := judge(trap, found, clean):
            said[trap.id] = finding[:300]
        elif crash:
            broke[trap.id] = crash[:60]
    version = tool.version or skillgate.__version__
    return Result(version=version, date=datetime.date.today().isoformat(), said=said, broke=broke)


def recall(tool: Tool, commands: Path, trap: Trap, texts: Mapping[str, str], cache: Path) -> Said:
    """Return what `run` returns; of a peer it is kept, since neither the peer nor the trap changes."""
    if tool.name == OURS:
        return run(tool, commands, trap, texts)
    what = msgspec.json.encode((tool, msgspec.structs.replace(trap, caught="", says=""), texts))
    kept = cache / "said" / tool.name / f"{trap.id}-{hashlib.sha256(what).hexdigest()[:16]}.json"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(run(tool, commands, trap, texts)), encoding="utf-8")
    found, crash = json.loads(kept.read_text(encoding="utf-8"))
    return found, crash


def show(tools: list[Tool], traps: Traps, name: str, cache: Path) -> None:
    """Print all that the tools say of one trap (or of all) and not of the clean skill."""
    for trap, tool in itertools.product(traps.traps, tools):
        if name in (trap.id, "all"):
            commands = install(tool, cache)
            clean, _ = recall(tool, commands, CLEAN, traps.texts, cache)
            said, crash = recall(tool, commands, trap, traps.texts, cache)
            print(f"== {trap.id} {tool.name}: {judge(trap, said, clean) or '-'} {crash}")
            print("\n".join(f"     {text[:300]}" for text in new(said, clean)))


def read_results() -> dict[str, Result]:
    path = DATA / "results.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Result]) if path.is_file() else {}


def keep(name: str, result: Result) -> None:
    results = {**read_results(), name: result}
    text = msgspec.json.format(msgspec.json.encode(dict(sorted(results.items()))))
    (DATA / "results.json").write_bytes(text + b"\n")


def page(traps: Traps, tools: list[Tool], results: Mapping[str, Result]) -> str:
    """Write docs/peers.md."""
    there = [tool for tool in tools if tool.name in results]
    text = (DATA / "page.md").read_text(encoding="utf-8").strip()
    parts = [text, "## Totals", _totals(traps, there, results)]
    for group, members in itertools.groupby(traps.traps, lambda trap: trap.group):
        parts += [f"## {group}", _table(list(members), there, results)]
    return "\n\n".join(parts) + "\n"


def _totals(traps: Traps, tools: list[Tool], results: Mapping[str, Result]) -> str:
    faults = {trap.id for trap in traps.traps if not trap.silent}
    harmless = {trap.id for trap in traps.traps if trap.silent}
    heads = f"faults found, of {len(faults)} | false alarms, of {len(harmless)} | broke on"
    rows = [f"| tool | version | from | run on | {heads} |", "|---|---|---|---|--:|--:|--:|"]
    for tool in tools:
        result = results[tool.name]
        said = set(result.said)
        source = "this repository" if tool.name == OURS else {"pypi": "PyPI", "npm": "npm"}[tool.source]
        counts = f"{len(said & faults)} | {len(said & harmless)} | {len(result.broke)}"
        rows.append(f"| {tool.name} | {result.version} | {source} | {result.date} | {counts} |")
    return "\n".join(rows)


def _table(traps: list[Trap], tools: list[Tool], results: Mapping[str, Result]) -> str:
    heads = " | ".join(tool.name.replace("-", "-<br>") for tool in tools)
    rows = [f"| trap | | {heads} |", "|---|---|" + ":-:|" * len(tools)]
    for trap in traps:
        asked = (results[tool.name] for tool in tools)
        marks = [mark(trap, result.said.get(trap.id, ""), result.broke.get(trap.id, "")) for result in asked]
        cells = (trap.id, trap.says.replace("|", r"\|"), *marks)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def mark(trap: Trap, finding: str, crash: str) -> str:
    """Return what a cell shows."""
    if finding:
        return "alarm" if trap.silent else "**yes**"
    return "broke" if crash else "·"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", metavar="TOOL", help="run this tool alone")
    parser.add_argument("--show", metavar="TRAP", help="print what the tools say of a trap, or of `all`")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the peers are installed")
    asked = parser.parse_args()
    traps, tools = read_traps(), read_tools()
    chosen = [tool for tool in tools if not asked.only or tool.name in asked.only]
    if asked.show:
        show(chosen, traps, asked.show, asked.cache.resolve())
        return
    for tool in chosen:
        print(tool.name, file=sys.stderr)
        keep(tool.name, measure(tool, traps, asked.cache.resolve()))
    PAGE.write_text(page(traps, tools, read_results()), encoding="utf-8")


if __name__ == "__main__":
    main()
