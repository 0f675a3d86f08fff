"""How fast `skillgate lint` is beside two peers: `python benchmarks/lint.py [CORPUS] [--repeats N]`.

Times whole commands on the same files, the tools in turn in every round, so that a busy machine slows them
alike; shows medians and the median of the rounds' ratios to agnix. Without a corpus it writes its own skills.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from peers import CACHE, OURS, ROOT, install, read_tools
from traps import Trap, read_traps, write_trap

from skillgate.skill import discover

CORPUS = ROOT.parent / "shared" / "corpus"
PEERS = ("agnix", "amagi-skill-lint")
YARDSTICK = "agnix"
GENERATED = 300


class Case(NamedTuple):
    """One command to time; `skills` is how many SKILL.md it reads, 0 for none."""

    what: str
    tool: str
    command: tuple[str, ...]
    skills: int


def generate(folder: Path) -> None:
    """Write skills of about the usual weight, each with a reference."""
    texts = read_traps().texts
    entry = "- An entry that names a function becomes a sentence on what a reader can now do with it.\n"
    for number in range(GENERATED):
        name = f"notes-{number}"
        trap = Trap(
            id=name,
            group="",
            says="",
            caught="",
            folder=name,
            lines={"name": name},
            add=f"Read [the style](style.md) when an entry is hard to word.\n\n{{60 x {entry}}}",
            files={"style.md": f"# Style\n\n{{100 x {entry}}}"},
        )
        write_trap(trap, texts, folder)


def cases(corpus: Path, one: Path, cache: Path) -> list[Case]:
    """Return what is timed, in the order of a round."""
    peers = [tool for tool in read_tools() if tool.name in PEERS]
    programs = {tool.name: str(install(tool, cache) / tool.name) for tool in peers}
    ours = (sys.executable, "-m", "skillgate")
    listed = [Case("start (`--help`)", OURS, (*ours, "--help"), 0)]
    listed += [Case("start (`--help`)", name, (program, "--help"), 0) for name, program in programs.items()]
    for what, path in (("one skill", one), ("corpus", corpus)):
        skills = len(discover(path))
        lint = (*ours, "lint", str(path), "--format", "json", "--fail-on", "none")
        listed += [Case(what, f"{OURS}, cold", (*lint, "--no-cache"), skills)]
        listed += [Case(what, f"{OURS}, warm", lint, skills)]
        for name, program in programs.items():
            listed.append(Case(what, name, (program, "--format", "json", str(path)), skills))
    return listed


def clock(case: Case, home: Path) -> float:
    """Return the seconds of one run."""
    env = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home), "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    done = subprocess.run(case.command, env=env, cwd=home, capture_output=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(case.command)}: {done.stderr.decode()[-500:]}")
    return seconds


def table(listed: list[Case], seconds: dict[Case, list[float]]) -> str:
    """Write the medians as Markdown."""
    rows = [
        f"| what | tool | seconds | SKILL.md/s | times the time of {YARDSTICK} |",
        "|---|---|--:|--:|--:|",
    ]
    for case in listed:
        beside = next(other for other in listed if (other.what, other.tool) == (case.what, YARDSTICK))
        ratios = [mine / its for mine, its in zip(seconds[case], seconds[beside], strict=True)]
        median = statistics.median(seconds[case])
        speed = f"{case.skills / median:.0f}" if case.skills > 1 else ""
        ratio = statistics.median(ratios)
        rows.append(f"| {case.what} | {case.tool} | {median:.3f} | {speed} | {ratio:.2f} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="?", type=Path, help="[../shared/corpus, or generated skills]")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cache", type=Path, default=CACHE)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        corpus = (asked.corpus or (CORPUS if CORPUS.is_dir() else Path(folder) / "corpus")).resolve()
        if not corpus.is_dir():
            generate(corpus)
        found = sorted(discover(corpus), key=lambda skill: (corpus / skill / "SKILL.md").stat().st_size)
        listed = cases(corpus, corpus / found[len(found) // 2], asked.cache.resolve())
        for case in listed:
            clock(case, home)  # fills the caches, ours and the machine's
        rounds = [[clock(case, home) for case in listed] for _ in range(asked.repeats)]
        seconds = {case: [times[index] for times in rounds] for index, case in enumerate(listed)}
        print(f"{len(found)} skills, {asked.repeats} rounds, {os.cpu_count()} cores, whole commands.\n")
        print(table(listed, seconds))


if __name__ == "__main__":
    main()
