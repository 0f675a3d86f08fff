"""`skillgate init`: a repository -> the files that it needs to gate its skills, those that are not there yet.

What exists is left as it is, and links are not followed, so nothing outside the repository is written.
Imports what it needs when it runs, as `cli` does.
"""

from __future__ import annotations

import glob
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import click

from skillgate.config import FILE_NAME, matches
from skillgate.errors import UsageError, writing
from skillgate.output import show
from skillgate.shipped import shipped

WORKFLOW = ".github/workflows/skillgate.yml"
SUITE = "fixtures/first-suite"
_MAX_NAMED = 20


class Draft(NamedTuple):
    """A file that would be written, or (with `kept`) why it is not."""

    path: str
    content: str = ""
    kept: str = ""


@click.command()
@click.option(
    "--skills", "globs", multiple=True, metavar="GLOB", help="Skill folders. Default: where they are."
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
def init(globs: tuple[str, ...], dry_run: bool) -> None:
    """Write what a repository needs: skillgate.yml, a workflow, a first suite.

    Leaves what is there as it is.
    """
    root = _root(Path.cwd())
    skills = _skills(root, globs)
    drafts = tuple(_drafts(root, globs or _globs(skills), skills))
    for draft in drafts:
        show(_preview(draft) if dry_run else _write(root, draft))
    _tell(root, skills, globs, dry_run)


def _root(here: Path) -> Path:
    """Return the root of the repository around a folder. Raises: UsageError when there is none."""
    from skillgate.git import Repository

    try:
        inside = Repository(here).prefix()
    except UsageError as problem:
        if "not a git repository" not in problem.message:
            raise
        raise UsageError(f"{here}: not a git repository", "Run `git init`, or change into one.") from None
    return here if inside == "." else here.resolve().parents[len(PurePosixPath(inside).parts) - 1]


def _skills(root: Path, globs: Sequence[str]) -> tuple[str, ...]:
    """Return the skills of the repository: none that git ignores, none that a suite brings."""
    from skillgate.git import Repository
    from skillgate.skill import SKILL_FILE

    paths = map(PurePosixPath, Repository(root).files())
    folders = {path.parent.as_posix() for path in paths if path.name == SKILL_FILE}
    own = (folder for folder in folders if not _is_in_suite(folder, root))
    return tuple(sorted(one for one in own if not globs or any(matches(one, pattern) for pattern in globs)))


def _is_in_suite(folder: str, root: Path) -> bool:
    from skillgate.bench.suite import SUITE_FILE

    return any((root / parent / SUITE_FILE).is_file() for parent in PurePosixPath(folder).parents)


def _globs(skills: Sequence[str]) -> tuple[str, ...]:
    """Return globs for the folders that hold skills, the usual one where there is no skill yet."""
    if not skills:
        return ("skills/**",)
    parents = {PurePosixPath(skill).parent.as_posix() for skill in skills}
    outer = {one for one in parents if not any(other != one and _holds(other, one) for other in parents)}
    return tuple("**" if one == "." else f"{glob.escape(one)}/**" for one in sorted(outer))


def _holds(outer: str, inner: str) -> bool:
    return outer == "." or inner.startswith(f"{outer}/")


def _drafts(root: Path, globs: Sequence[str], skills: Sequence[str]) -> Iterator[Draft]:
    yield _draft(root, FILE_NAME, _configuration(globs, skills))
    if kept := _workflow_there(root):
        yield Draft(WORKFLOW, kept=kept)
    else:
        workflow = shipped("examples") / "workflows/pull-request.yml"
        yield _draft(root, WORKFLOW, workflow.read_text(encoding="utf-8"))
    if kept := _suite_there(root):
        yield Draft(SUITE, kept=kept)
    else:
        yield from (_draft(root, path, content) for path, content in _suite().items())


def _workflow_there(root: Path) -> str:
    """Say which workflow calls the action already, or nothing: two would write one comment."""
    for path in sorted((root / WORKFLOW).parent.glob("*.y*ml")):
        if path.is_file() and b"skillgate/skillgate@" in path.read_bytes():
            return f"{_one_line(path.relative_to(root).as_posix())} calls skillgate already"
    return ""


def _suite_there(root: Path) -> str:
    """Say which suite there is already, or nothing."""
    from skillgate.bench.suite import SUITE_FILE

    found = sorted(path.parent.relative_to(root).as_posix() for path in root.glob(f"fixtures/*/{SUITE_FILE}"))
    return f"{found[0]} is there already" if found else _in_the_way(root, SUITE)


def _suite() -> Mapping[str, str]:
    from skillgate.bench.scaffold import new_suite

    with tempfile.TemporaryDirectory(prefix="skillgate-") as scratch:
        made = new_suite(Path(scratch, SUITE))
        return {path.relative_to(scratch).as_posix(): path.read_text(encoding="utf-8") for path in made}


def _draft(root: Path, path: str, content: str) -> Draft:
    return Draft(path, content, _in_the_way(root, path))


def _in_the_way(root: Path, path: str) -> str:
    """Say what keeps a path from being new: itself, or a link on the way, which may lead elsewhere."""
    for parent in reversed(PurePosixPath(path).parents):
        if (root / parent).is_symlink():
            return f"{parent} is a link"
        if (root / parent).exists() and not (root / parent).is_dir():
            return f"{parent} is a file"
    target = root / path
    return "is there already" if target.is_symlink() or target.exists() else ""


def _configuration(globs: Sequence[str], skills: Sequence[str]) -> str:
    """Fill in the template; names of folders are anybody's text, and stay on their line."""
    template = (Path(__file__).parent / "templates" / FILE_NAME).read_text(encoding="utf-8")
    named = [f"#   {_one_line(skill)}" for skill in skills[:_MAX_NAMED]]
    if len(skills) > _MAX_NAMED:
        named.append(f"#   and {len(skills) - _MAX_NAMED} more")
    found = "\n".join(["# Found here:", *named] if named else ["# None was found here yet."])
    listed = ", ".join(json.dumps(_printable(pattern), ensure_ascii=False) for pattern in globs)
    return template.replace('["{skills}"]', f"[{listed}]").replace("# {found}", found)


def _printable(pattern: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in pattern)  # `?` is any character


def _one_line(name: str) -> str:
    return name if name.isprintable() else json.dumps(name)


def _preview(draft: Draft) -> str:
    if draft.kept:
        return f"==> {draft.path}: not written, {draft.kept}\n\n"
    return f"==> {draft.path}: new\n{draft.content.rstrip()}\n\n"


def _write(root: Path, draft: Draft) -> str:
    """Write a file that is not there; say what was done. Raises: UsageError, PrerequisiteError."""
    if draft.kept:
        return f"left   {draft.path}: {draft.kept}\n"
    target = root / draft.path
    with writing(target, "Move away what is there, or change its rights."):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:  # never over a file, or through a link
            file.write(draft.content)
    return f"wrote  {draft.path}\n"


def _tell(root: Path, skills: Sequence[str], globs: Sequence[str], dry_run: bool) -> None:
    """Say to the person what was found, and the three steps from here."""
    where = f" that match {' '.join(globs)}" if globs else ""
    lines = [f"{len(skills) or 'No'} {'skill' if len(skills) == 1 else 'skills'}{where} in {root}."]
    lines += ["Nothing was written: this was a dry run."] if dry_run else []
    click.echo(_one_line(" ".join(lines)) + f"\n{_NEXT}", err=True)


_NEXT = f"""\
Next:
  1. Run `skillgate lint`, commit what is new, and open a pull request: it is linted, and costs nothing.
  2. Make {SUITE} ask what your skills teach (docs/suites.md), and prove it:
     skillgate suite check {SUITE} --sandbox local
  3. Switch on `suites` and `run` in {FILE_NAME}, and put ANTHROPIC_API_KEY into an environment `skillgate`
     of the repository (docs/github.md).
"""
