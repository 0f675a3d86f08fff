"""A git repository with a suite, a script, a configuration and a skill that changes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CONFIG = """\
version: 1
suites:
  "skills/**": [suites/tiny]
run:
  agent: scripted
  script: script.yml
  sandbox: local
  repeats: 3
  budget-usd: 2.00
  per-run-usd: 0.20
"""
SCRIPT = """\
price: {input: 2.0, output: 10.0}
arms:
  none: &idle {moves: {nothing: 1}, input: {median: 9000}, output: {median: 900}}
  base: *idle
  head: {moves: {oracle: 1}, input: {median: 9000}, output: {median: 900}}
"""
SKILL = """\
---
name: {name}
description: Adds functions to the calculator. Use when a task asks for a new function.
---

# Functions

{body}
"""


class Repo:
    """A repository that tests write to and commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    @classmethod
    def of(cls, folder: Path) -> Repo:
        """Return a repository that is there."""
        found = cls.__new__(cls)
        found.folder = folder
        return found

    def rev(self, name: str) -> str:
        """Return the id of a commit."""
        command = ["git", "-C", str(self.folder), "rev-parse", name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false")
        subprocess.run(
            ["git", "-C", str(self.folder), *identity, *arguments], check=True, capture_output=True
        )

    def write(self, path: str, text: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def skill(self, name: str, body: str) -> None:
        self.write(f"skills/{name}/SKILL.md", SKILL.format(name=name, body=body))

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "step", "--allow-empty")


@pytest.fixture
def repo(tmp_path: Path, tiny_suite: Path) -> Repo:
    """Return a repository whose first commit has everything and a first version of `skills/calc`."""
    made = Repo(tmp_path / "repo")
    shutil.copytree(tiny_suite, made.folder / "suites" / "tiny")
    made.write("skillgate.yml", CONFIG)
    made.write("script.yml", SCRIPT)
    made.skill("calc", "To be written.")
    made.commit()
    return made
