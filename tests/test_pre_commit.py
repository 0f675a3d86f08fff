"""The pre-commit hook, run by pre-commit itself: its environment is built from what this checkout holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("skillgate", "rules", "fixtures", "examples")
FILES = ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")
SKILL = "---\nname: {0}\ndescription: Adds two numbers. Use when a sum is asked for.\n---\n\nAdd them.\n"
TOLD = re.compile(r"^skillgate\.+.*?(Passed|Failed|Skipped)$|^(\S+): error: ", re.MULTILINE)
GIT_USER = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")


def environment(home: Path) -> dict[str, str]:
    """Let pip build and install without any network: what it wants lies beside pytest."""
    return dict.fromkeys(GIT_USER, "t@example.org") | {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # means yes: pip reads it as the value of build isolation
    }


def commit(repo: Path, env: dict[str, str]) -> str:
    """Make a repository of a folder; return the revision."""
    for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "all"]):
        subprocess.run(["git", *command], cwd=repo, env=env, check=True)
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.run(head, cwd=repo, env=env, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.long
def test_the_hook_lints_the_skills_of_the_files_that_change(tmp_path: Path) -> None:
    env, hooks, user = environment(tmp_path), tmp_path / "hooks", tmp_path / "user"
    hooks.mkdir()
    for name in FOLDERS:
        shutil.copytree(ROOT / name, hooks / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, hooks)
    revision = commit(hooks, env)
    for skill in ("one", "two"):
        (user / "skills" / skill).mkdir(parents=True)
        (user / "skills" / skill / "SKILL.md").write_text(SKILL.format("wrong"))
    (user / ".pre-commit-config.yaml").write_text(
        f"repos: [{{repo: {hooks}, rev: {revision}, hooks: [{{id: skillgate}}]}}]\n"
    )
    commit(user, env)

    def change(name: str, text: str) -> list[str]:
        """Commit one changed file; return what pre-commit says of the hook, and where errors are."""
        (user / name).write_text(text)
        subprocess.run(["git", "add", name], cwd=user, env=env, check=True)
        run = [sys.executable, "-m", "pre_commit", "run", "--color", "never"]
        done = subprocess.run(run, cwd=user, env=env, capture_output=True, text=True)
        subprocess.run(["git", "commit", "-q", "-m", name], cwd=user, env=env, check=True)
        print(done.stdout, done.stderr)
        return [state or where for state, where in TOLD.findall(done.stdout)]

    assert change("skills/one/how.md", "Add one to the other.\n") == ["Failed", "skills/one/SKILL.md:2:7"]
    assert change("skills/two/SKILL.md", SKILL.format("two")) == ["Passed"]
    assert change("skills/README.md", "No skill.\n") == ["Passed"]
    assert change("notes.md", "No skill.\n") == ["Skipped"]
