"""`lint --changed`: only the skills whose files differ from a revision, whatever git would do to them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from skillgate.cli import main
from skillgate.errors import ExitCode, UsageError
from skillgate.linting import Request, lint_paths

SKILL = "---\nname: wrong\ndescription: Adds two numbers. Use when a sum is asked for.\n---\n\nAdd them.\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def write(root: Path, path: str, text: str = SKILL) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8", newline="")


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "step", "--allow-empty")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Return a repository with three skills that all have a finding."""
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for name in ("a", "b", "c"):
        write(root, f"skills/{name}/SKILL.md")
        write(root, f"skills/{name}/scripts/x.sh", "#!/bin/sh\necho x\n")
    commit(root)
    return root


def changed(root: Path, since: str = "HEAD", *paths: str) -> list[str]:
    """Return the skills that are linted, by their finding."""
    linted = lint_paths(Request([root / path for path in paths], root, since))
    found = [
        f.where.path.removesuffix("/SKILL.md") for f in linted.findings if f.rule == "name-matches-folder"
    ]
    assert linted.skills == len(found)
    return found


def test_nothing_changed_nothing_linted_and_that_is_no_error(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert changed(repo) == []
    monkeypatch.chdir(repo)
    assert main(["lint", "--changed", "--base", "HEAD", "--no-cache"]) == ExitCode.OK
    assert main(["lint", "--no-cache"]) == ExitCode.GATE_FAILED


def test_edited_staged_untracked_and_deleted_files_make_a_skill_change(repo: Path) -> None:
    write(repo, "skills/a/SKILL.md", SKILL + "More.\n")
    assert changed(repo) == ["skills/a"]
    git(repo, "add", "-A")
    assert changed(repo) == ["skills/a"]
    write(repo, "skills/b/references/new.md", "Text.\n")
    write(repo, "skills/new/SKILL.md")
    assert changed(repo) == ["skills/a", "skills/b", "skills/new"]
    (repo / "skills/c/scripts/x.sh").unlink()
    assert changed(repo) == ["skills/a", "skills/b", "skills/c", "skills/new"]
    write(repo, "skills/README.md", "Of no skill.\n")
    assert changed(repo, "HEAD", "skills/a", "skills/c") == ["skills/a", "skills/c"]


def test_a_deleted_skill_is_not_linted_and_a_moved_one_is(repo: Path) -> None:
    git(repo, "rm", "-rq", "skills/a")
    git(repo, "mv", "skills/b", "skills/d")
    assert changed(repo) == ["skills/d"]


def test_the_comparison_starts_where_the_branch_left(repo: Path) -> None:
    git(repo, "checkout", "-qb", "topic")
    write(repo, "skills/a/SKILL.md", SKILL + "Topic.\n")
    commit(repo)
    git(repo, "checkout", "-q", "main")
    write(repo, "skills/b/SKILL.md", SKILL + "Main.\n")
    commit(repo)
    git(repo, "checkout", "-q", "topic")
    assert changed(repo, "main") == ["skills/a"]


def test_a_checkout_with_other_line_ends_changes_nothing(repo: Path) -> None:
    git(repo, "config", "core.autocrlf", "true")
    (repo / "skills/a/SKILL.md").unlink()
    git(repo, "checkout", "-q", "--", "skills/a/SKILL.md")
    assert b"\r\n" in (repo / "skills/a/SKILL.md").read_bytes()
    assert changed(repo) == []
    write(repo, "skills/a/SKILL.md", (SKILL + "More.\n").replace("\n", "\r\n"))
    assert changed(repo) == ["skills/a"]


def test_what_git_ignores_changes_nothing(repo: Path) -> None:
    write(repo, ".gitignore", "*.log\nvendor/\n")
    commit(repo)
    write(repo, "skills/a/out.log", "x")
    write(repo, "skills/b/__pycache__/x.pyc", "x")
    assert changed(repo) == []
    write(repo, "vendor/x/SKILL.md")
    assert changed(repo) == ["vendor/x"], "git knows nothing of it: better looked at than not"


def test_what_is_committed_and_never_part_of_a_skill_changes_nothing(repo: Path) -> None:
    for path in ("skills/a/node_modules/x/index.js", "skills/b/nested/SKILL.md", "skills/b/nested/x.md"):
        write(repo, path)
    git(repo, "add", "-Af")
    git(repo, "commit", "-qm", "more")
    assert changed(repo) == []
    write(repo, "skills/b/nested/x.md", "Other.\n")
    assert changed(repo) == ["skills/b/nested"]


def test_links_are_compared_by_where_they_lead(repo: Path) -> None:
    (repo / "skills/a/AGENTS.md").symlink_to("SKILL.md")
    (repo / "skills/b/shared").symlink_to("../../shared")
    commit(repo)
    assert changed(repo) == []
    (repo / "skills/a/AGENTS.md").unlink()
    (repo / "skills/a/AGENTS.md").symlink_to("scripts/x.sh")
    (repo / "skills/b/shared").unlink()
    (repo / "skills/b/shared").symlink_to("../c")
    assert changed(repo) == ["skills/a", "skills/b"]


def test_a_link_in_place_of_a_text_that_names_its_target_is_a_change(repo: Path) -> None:
    write(repo, "skills/a/x.md", "SKILL.md")
    commit(repo)
    (repo / "skills/a/x.md").unlink()
    (repo / "skills/a/x.md").symlink_to("SKILL.md")
    assert changed(repo) == ["skills/a"]


def test_a_pipe_and_a_file_that_is_no_text_do_not_stop_it(repo: Path) -> None:
    os.mkfifo(repo / "skills/a/pipe")
    (repo / "skills/b/caf\udce9.md").write_bytes(b"caf\xe9")
    assert changed(repo) == ["skills/b"], "git does not track a pipe"
    (repo / "skills/c/scripts/x.sh").unlink()
    os.mkfifo(repo / "skills/c/scripts/x.sh")
    assert changed(repo) == ["skills/b", "skills/c"]


def test_a_skill_at_the_root_owns_no_dot_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, "SKILL.md", SKILL.replace("wrong", "root"))
    for path in (".github/workflows/ci.yml", ".gitignore", "notes.md"):
        write(root, path, "")
    git(root, "init", "-q", "-b", "main")
    commit(root)
    assert lint_paths(Request([], root, "HEAD")).skills == 0
    write(root, ".gitignore", "x")
    assert lint_paths(Request([], root, "HEAD")).skills == 0
    write(root, "notes.md", "x")
    assert lint_paths(Request([], root, "HEAD")).skills == 1


def test_the_repository_may_begin_above_the_configuration(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repo, "packages/one/skillgate.yml", "skills: ['skills/**']\n")
    write(repo, "packages/one/skills/x/SKILL.md")
    write(repo, "packages/one/skills/y/SKILL.md")
    commit(repo)
    root = repo / "packages/one"
    assert changed(root) == []
    write(root, "skills/x/SKILL.md", SKILL + "More.\n")
    write(repo, "skills/a/SKILL.md", SKILL + "More.\n")
    assert changed(root) == ["skills/x"]
    assert changed(root, "HEAD", "../../skills") == ["../../skills/a"]
    monkeypatch.chdir(root / "skills/x")
    assert main(["lint", "--changed", "--base", "HEAD", "--no-cache"]) == ExitCode.GATE_FAILED


def test_what_all_skills_show_together_is_told_in_what_changed(repo: Path) -> None:
    """A skill that did not change is known to the others and told of nothing."""
    write(repo, "skills/b/SKILL.md", SKILL + "More.\n")
    linted = lint_paths(Request([], repo, "HEAD"))
    double = [str(finding.where) for finding in linted.findings if finding.rule == "duplicate-name"]
    assert (linted.skills, double) == (1, ["skills/b/SKILL.md:2:7"])


def test_the_default_base_and_wrong_ones(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo)
    assert main(["lint", "--changed"]) == ExitCode.USAGE
    assert "no base to compare with" in capsys.readouterr().err
    git(repo, "checkout", "-qb", "topic")
    write(repo, "skills/a/SKILL.md", SKILL + "More.\n")
    commit(repo)
    assert main(["lint", "--changed", "--no-cache"]) == ExitCode.GATE_FAILED
    assert "\nskills/b" not in capsys.readouterr().out
    assert main(["lint", "--base", "main"]) == ExitCode.USAGE
    assert "Add --changed." in capsys.readouterr().err
    assert main(["lint", "--changed", "--base", "--help"]) == ExitCode.USAGE
    assert "unknown revision `--help`" in capsys.readouterr().err


def test_without_a_work_tree_the_error_says_so(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    with pytest.raises(UsageError, match="must be run in a work tree"):
        lint_paths(Request([], bare, "HEAD"))
    write(tmp_path, "plain/a/SKILL.md")
    monkeypatch.chdir(tmp_path / "plain")
    assert main(["lint", "--changed"]) == ExitCode.USAGE
    assert "not a git repository" in capsys.readouterr().err
    git(tmp_path / "plain", "init", "-q")
    assert main(["lint", "--changed", "--base", "HEAD"]) == ExitCode.USAGE
    assert "unknown revision `HEAD`" in capsys.readouterr().err


def test_nothing_that_the_repository_configures_runs(repo: Path, tmp_path: Path) -> None:
    trap, sprung = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    write(repo, ".gitattributes", "*.md filter=evil diff=evil text\n")
    for key in ("filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "core.fsmonitor"):
        git(repo, "config", key, str(trap))
    write(repo, "skills/a/SKILL.md", SKILL + "More.\n")
    assert changed(repo) == ["skills/a"]
    assert not sprung.exists()
