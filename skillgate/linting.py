"""`skillgate lint`: paths on disk -> findings, and their rendering.

Skills are checked on all cores, and not again while neither they nor the rules have changed: what a
check gave is kept in a cache folder, keyed by the content of the skill, the rules and the tasks.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import posixpath
import signal
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from skillgate import __version__
from skillgate.config import Config
from skillgate.core import Finding, TaskFacts
from skillgate.errors import ConfigError, UsageError, writing
from skillgate.gate.changes import changed_on_disk
from skillgate.gate.sources import (
    FolderSource,
    decode_text,
    read_config,
    read_known,
    read_rules,
    read_suites,
    relative,
)
from skillgate.lint.check import Library, listed
from skillgate.lint.engine import Checked, check_skill, lint_library
from skillgate.lint.fix import FIXES, fix
from skillgate.lint.rule import Rule
from skillgate.lint.sift import NOTHING_KNOWN, Baseline, Sifted, merged, read_baseline, sift, write_baseline
from skillgate.report import findings, sarif
from skillgate.report.annotations import render as render_annotations
from skillgate.report.escape import clean
from skillgate.skill import MAX_FILE_BYTES, SKILL_FILE, Files, Stray, parse, scan
from skillgate.skill.source import decode

FEW = 24  # skills that one process has checked before another has started
Facts = tuple[TaskFacts, ...]


class Request(NamedTuple):
    """What to lint: `paths` at or below `root`, or what the configuration covers when there is none.

    With `since`, a revision, only skills that differ from it. `baseline` overrides the configured one,
    `forget` does without any; `cache` is the folder for what may be remembered, None to remember nothing.
    """

    paths: Sequence[Path]
    root: Path
    since: str | None = None
    baseline: Path | None = None
    forget: bool = False
    cache: Path | None = None


class Linted(NamedTuple):
    """What was found, in how many skills, and where the findings point into."""

    config: Config
    sifted: Sifted
    skills: int
    root: Path

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings to show, equal ones once."""
        return tuple(merged(self.sifted.findings))


def lint_paths(request: Request) -> Linted:
    """Lint skills. Raises: UsageError, ConfigError, RuleError, SuiteError."""
    source = FolderSource(request.root)
    config = read_config(source)
    rules = read_rules(source, config)
    baseline = _baseline(request, source, config)
    folders, strays = _folders(request, config)
    chosen = folders
    if request.since is not None:
        chosen = changed_on_disk(request.root, request.since, folders)
    facts = _facts(source, config, chosen)
    checked = _check_all(request, rules, {folder: facts[config.suites_for(folder)] for folder in chosen})
    others = [listed(parse(Files.from_folder(request.root / f), f)) for f in folders if f not in checked]
    searched = relative(request.paths[0], request.root).as_posix() if request.paths else "."
    library = Library((*others, *(one.listed for one in checked.values())), strays, searched)
    found = [finding for one in checked.values() for finding in one.findings]
    untold = {other.name_at.path for other in others}
    found += [f for f in lint_library(library, rules) if f.where.path not in untold]
    comments = [comment for one in checked.values() for comment in one.comments]
    sifted = sift(found, comments, rules, config.lint, baseline=baseline)
    return Linted(config, sifted, len(checked), request.root)


def render(linted: Linted, style: str) -> str:
    """Render as text, json, sarif or github annotations."""
    sifted = linted.sifted
    if style == "json":
        return findings.render_json(linted.findings, linted.skills, len(sifted.ignored), sifted.baselined)
    if style == "sarif":
        return sarif.render(linted.findings)
    if style == "github":
        return render_annotations(linted.findings)
    return findings.render_text(linted.findings, _texts(linted), len(sifted.ignored), sifted.baselined)


def save_baseline(linted: Linted, path: Path) -> str:
    """Write the findings down as known; return what to say about it."""
    with writing(path, "Choose another file."):
        path.write_text(write_baseline(linted.sifted.findings), encoding="utf-8")
    return f"{len(linted.sifted.findings)} findings are in {path}: `lint --baseline` shows only others.\n"


def mend(linted: Linted) -> Iterator[str]:
    """Mend what can be mended safely in each SKILL.md with findings; say what was done to which.

    Raises: UsageError when a file cannot be written.
    """
    wanted: dict[str, set[str]] = {}
    for finding in linted.findings:
        if finding.rule in FIXES and posixpath.basename(finding.where.path) == SKILL_FILE:
            wanted.setdefault(finding.where.path, set()).add(finding.rule)
    for path, rules in sorted(wanted.items()):
        file = linted.root / path
        raw = _read(file)
        fixed = fix(raw, posixpath.dirname(path) or ".", rules) if raw is not None else None
        if fixed and fixed.rules:
            _replace(file, fixed.raw)
            yield f"fixed {len(fixed.rules)}: {clean(path)} ({', '.join(fixed.rules)})"


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, with the rights that it has."""
    with writing(path, "Allow yourself to write it, or run without --fix."):
        path.open("r+b").close()  # its folder may allow what the file does not
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as part:
                part.write(content)
            Path(name).chmod(stat.S_IMODE(path.stat().st_mode))
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)


def _texts(linted: Linted) -> dict[str, str]:
    """Read the files that findings point into once more: most skills have none."""
    contents = ((path, _read(linted.root / path)) for path in {f.where.path for f in linted.findings})
    return {path: decode(raw, path).text for path, raw in contents if raw is not None}


def _read(path: Path) -> bytes | None:
    """Read a file that findings point into; None for a pipe, and for a link, which may lead anywhere."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return None


def _baseline(request: Request, source: FolderSource, config: Config) -> Baseline:
    if request.forget:
        return NOTHING_KNOWN
    if request.baseline is None:
        return read_known(source, config)
    content = source.read(str(request.baseline))
    if content is None:
        raise ConfigError(f"{request.baseline}: no such file", "Write it with --write-baseline FILE.")
    return read_baseline(decode_text(content, str(request.baseline)), str(request.baseline))


def _folders(request: Request, config: Config) -> tuple[list[str], tuple[Stray, ...]]:
    if not request.paths:
        found = scan(request.root)
        return [folder for folder in found.skills if config.covers(folder)], found.strays
    folders: list[str] = []
    strays: list[Stray] = []
    for start, is_owner in dict.fromkeys(_start(path, request.root) for path in request.paths):
        found = scan(request.root / start)
        folders += [(start / folder).as_posix() for folder in ((".",) if is_owner else found.skills)]
        strays += [stray._replace(path=(start / stray.path).as_posix()) for stray in found.strays]
    return list(dict.fromkeys(folders)), tuple(dict.fromkeys(strays))


def _start(given: Path, root: Path) -> tuple[Path, bool]:
    """Return where to search, and whether that is the skill which owns the file that was given."""
    path = relative(given, root)
    if not (root / path).exists():
        raise UsageError(f"{path}: no such file or folder", "Name a skill folder, or a folder of skills.")
    if not (root / path).is_file():
        return path, False
    above = path.parents if ".." not in path.parts else ()
    owner = next((folder for folder in above if (root / folder / SKILL_FILE).is_file()), None)
    return (path.parent, False) if owner is None else (owner, True)


def _facts(source: FolderSource, config: Config, folders: Sequence[str]) -> dict[tuple[str, ...], Facts]:
    wanted = {config.suites_for(folder) for folder in folders}
    if wanted <= {()}:
        return {(): ()}
    from skillgate.bench.suite import task_facts

    return {
        names: tuple(fact for suite in read_suites(source, names) for fact in task_facts(suite))
        for names in wanted
    }


# --- checking many skills ----------------------------------------------------------


def _check_all(request: Request, rules: Sequence[Rule], tasks: Mapping[str, Facts]) -> dict[str, Checked]:
    """Check every skill, those that the cache does not know on all cores."""
    cache = Cache(request.cache, request.root, rules)
    keys = {folder: cache.key(folder, facts) for folder, facts in tasks.items()}
    known = {folder: one for folder, key in keys.items() if (one := cache.get(folder, key))}
    todo = {folder: facts for folder, facts in tasks.items() if folder not in known}
    known |= dict(zip(todo, _check_each(request.root, rules, todo), strict=True))
    cache.put(keys, known)
    return {folder: known[folder] for folder in tasks}


def _check_each(root: Path, rules: Sequence[Rule], tasks: Mapping[str, Facts]) -> Iterator[Checked]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if len(tasks) < FEW or cores == 1:
        yield from (_check(root, folder, rules, facts) for folder, facts in tasks.items())
        return
    from concurrent.futures import ProcessPoolExecutor  # here, as for few skills it costs more than it saves

    with ProcessPoolExecutor(cores, initializer=_begin, initargs=(root, rules)) as pool:
        yield from pool.map(_work, tasks.items(), chunksize=4)


def _check(root: Path, folder: str, rules: Sequence[Rule], facts: Facts) -> Checked:
    return check_skill(parse(Files.from_folder(root / folder), folder), rules, facts)


_state: list[tuple[Path, Sequence[Rule]]] = []  # of a worker process


def _begin(root: Path, rules: Sequence[Rule]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells the user, once
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.set_threshold(100_000)  # a tenth of the time went into looking for cycles, of which there are few
    _state.append((root, rules))


def _work(task: tuple[str, Facts]) -> Checked:
    ((root, rules),) = _state
    return _check(root, task[0], rules, task[1])


class _Entry(msgspec.Struct, frozen=True):
    key: str
    checked: Checked


class Cache:
    """What checks gave last time, one file for each root; without a folder it knows nothing."""

    def __init__(self, folder: Path | None, root: Path, rules: Sequence[Rule]) -> None:
        self._root = root
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:24]
        self._file = folder / f"lint-{name}.msgpack" if folder is not None else None
        self._common = _hash(__version__, repr(rules)) if folder is not None else ""
        self._entries = self._load()

    def key(self, folder: str, facts: Facts) -> str:
        """Identify a skill with its rules and tasks; empty when it cannot be remembered."""
        if self._file is None:
            return ""
        files = Files.from_folder(self._root / folder)
        try:
            parts = (
                files.digest(),
                *sorted(files.known),
                *sorted(files.links),
                *sorted(files.programs or ()),
            )
        except OSError:
            return ""
        return _hash(self._common, *parts, repr(facts))

    def get(self, folder: str, key: str) -> Checked | None:
        """Return what the check gave, None when something has changed since."""
        entry = self._entries.get(folder)
        return entry.checked if entry and key and entry.key == key else None

    def put(self, keys: Mapping[str, str], checked: Mapping[str, Checked]) -> None:
        """Remember these beside the others, whole or not at all; a cache that cannot be written is none."""
        entries = {folder: _Entry(key, checked[folder]) for folder, key in keys.items() if key}
        new = {folder: entry for folder, entry in entries.items() if _is_text(folder, entry)}
        if self._file is None or all(self._entries.get(folder) == entry for folder, entry in new.items()):
            return
        part = self._file.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(msgspec.msgpack.encode(self._entries | new))
                part.replace(self._file)
            finally:
                part.unlink(missing_ok=True)

    def _load(self) -> dict[str, _Entry]:
        try:
            content = self._file.read_bytes() if self._file is not None else b""
            return msgspec.msgpack.decode(content, type=dict[str, _Entry]) if content else {}
        except (OSError, msgspec.DecodeError):
            return {}


def _is_text(folder: str, entry: _Entry) -> bool:
    """Say whether it can be written down: a file name, or an escape in YAML, may hold what is no text."""
    try:
        msgspec.msgpack.encode((folder, entry))
    except UnicodeEncodeError:
        return False
    return True


def _hash(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
