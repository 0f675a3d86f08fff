"""A name -> a new suite folder that passes `suite check` at once: a copy of `fixtures/template`.

The template is a suite like any other, so it is checked like any other, and what it teaches works.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from skillgate.bench.suite import SUITE_FILE, files_of
from skillgate.errors import UsageError, writing
from skillgate.shipped import shipped

TEMPLATE, TITLE = "template", "A suite to start from"
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def check_name(name: str) -> None:
    """Refuse what is no name of a suite: it heads the ids of tasks. Raises: UsageError."""
    if not _KEBAB.fullmatch(name):
        hint = "Use lower-case letters, digits and single hyphens, such as `our-library`."
        raise UsageError(f"`{name}` is not the name of a suite", hint)


def new_suite(folder: Path) -> tuple[Path, ...]:
    """Write a small suite into `folder`, which is new or empty and names it; return its files.

    Raises: UsageError; the folder is then as it was.
    """
    check_name(folder.name)
    if folder.is_symlink() or (folder.exists() and not _is_empty(folder)):
        raise UsageError(f"{folder}: is there already", "Choose another name, or another folder with --into.")
    with writing(folder, "Choose another folder with --into."):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
            made = Path(beside, folder.name)
            _write(made)
            made.rename(folder)  # all of it or nothing
    return tuple(folder / name for name in sorted(files_of(folder)))


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _write(folder: Path) -> None:
    template = shipped("fixtures") / TEMPLATE
    for name in files_of(template):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(template / name, folder / name)
    path = folder / SUITE_FILE
    text = path.read_text(encoding="utf-8").replace(TITLE, folder.name)  # in quotes: a name may be `123`
    path.write_text(text, encoding="utf-8")
