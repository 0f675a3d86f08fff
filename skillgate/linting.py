"""`skillgate lint`: paths on disk -> findings, and their rendering.

Skills are checked on all cores, and not again while neither they nor the rules have changed (`lint.cache`).
"""

from __future__ import annotations

import gc
import os
import posixpath
import signal
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

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
from skillgate.lint.cache import Cache
from skillgate.lint.check import Check, Library, listed
from skillgate.lint.checks.frontmatter import NameFolder
from skillgate.lint.engine import Checked, check_skill, lint_library
from skillgate.lint.fix import FIXES, Fixed, fix
from skillgate.lint.rule import Rule
from skillgate.lint.sift import (
    NOTHING_KNOWN,
    Baseline,
    Known,
    Sifted,
    merged,
    read_baseline,
    sift,
    write_baseline,
)
from skillgate.report import findings, sarif
from skillgate.report.annotations import render as render_annotations
from skillgate.report.escape import clean
from skillgate.report.wording import count
from skillgate.skill import MAX_FILE_BYTES, SKILL_FILE, Files, Stray, parse, scan
from skillgate.skill.files import is_misspelt
from skillgate.skill.source import decode
from skillgate.values import Severity

RARELY = 100_000  # objects: a tenth of the time went into looking for cycles, of which there are few
FEW = 24  # skills that one process has checked before another has started
Facts = tuple[TaskFacts, ...]


class Request(NamedTuple):
    """What to lint: `paths` at or below `root`, or what the configuration covers when there is none.

    With `since`, a revision, only skills that differ from it. `baseline` overrides the configured one,
    `forget` does without any; `cache` is the folder for what may be remembered, None to remember nothing;
    `checkouts` the one for the repositories that suites pin.
    """

    paths: Sequence[Path]
    root: Path
    since: str | None = None
    baseline: Path | None = None
    forget: bool = False
    cache: Path | None = None
    checkouts: Path | None = None


class Linted(NamedTuple):
    """What was found, in which skills, and where the findings point into; `rules` are those applied.

    `starts` are the folders below which all skills were linted.
    """

    config: Config
    sifted: Sifted
    folders: frozenset[str]
    starts: frozenset[str]
    rules: Sequence[Rule]
    root: Path

    @property
    def skills(self) -> int:
        """Return how many skills were linted."""
        return len(self.folders)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings, equal ones once."""
        return tuple(merged(self.sifted.findings))

    def covers(self, known: Iterable[Known]) -> Iterator[Known]:
        """Give those lines of a baseline whose finding would have been found again.

        Where not all skills were linted, no rule that compares them can tell, nor one that is off.
        """
        able = {rule.id for rule in self.rules if isinstance(rule.checker, Check)}
        for line in known:
            path = PurePosixPath(line.path)
            owner = _owner(path, self.root)
            is_gone = owner is None and not self.starts.isdisjoint(map(str, path.parents))
            if "." in self.starts or is_gone or (line.rule in able and str(owner) in self.folders):
                yield line


def lint_paths(request: Request) -> Linted:
    """Lint skills. Raises: UsageError, ConfigError, RuleError, SuiteError."""
    gc.set_threshold(RARELY)
    source = FolderSource(request.root)
    config = read_config(source)
    rules = read_rules(source, config)
    baseline = _baseline(request, source, config)
    places = _places(request, config)
    folders = chosen = places.skills
    if request.since is not None:
        chosen = changed_on_disk(request.root, request.since, folders)
    facts = _facts(source, config, chosen, request.checkouts)
    checked = _check_all(request, rules, {folder: facts[config.suites_for(folder)] for folder in chosen})
    others = [listed(parse(Files.from_folder(request.root / f), f)) for f in folders if f not in checked]
    searched = relative(request.paths[0], request.root).as_posix() if request.paths else "."
    together = (*others, *(one.listed for one in checked.values()))
    library = Library(together, places.strays, searched, left_out=places.left_out)
    found = [finding for one in checked.values() for finding in one.findings]
    untold = {other.name_at.path for other in others}
    found += [f for f in lint_library(library, rules) if f.where.path not in untold and not places.is_empty]
    comments = [comment for one in checked.values() for comment in one.comments]
    sifted = sift(found, comments, rules, config.lint, baseline=baseline)
    starts = places.starts if request.since is None else ()
    return Linted(config, sifted, frozenset(checked), frozenset(starts), rules, request.root)


def render(linted: Linted, style: str, level: Severity = Severity.NOTE) -> str:
    """Render findings of this severity or above as text, json, sarif or github annotations."""
    shown = [finding for finding in linted.findings if finding.severity.rank >= level.rank]
    if style == "json":
        return findings.render_json(shown, _counts(linted, shown))
    if style == "sarif":
        return sarif.render(shown)
    if style == "github":
        return render_annotations(shown)
    mendable = sum(len(set(fixed.rules) & {f.rule for f in shown}) for _, fixed in _fixed(linted))
    return findings.render_text(shown, _texts(linted), _counts(linted, shown)._replace(mendable=mendable))


def _counts(linted: Linted, shown: Sequence[Finding]) -> findings.Counts:
    sifted = linted.sifted
    owners = {_owner(PurePosixPath(path), linted.root) for path in {f.where.path for f in shown}}
    return findings.Counts(
        skills=linted.skills,
        told=len(owners - {None}),
        ignored=len(sifted.ignored),
        baselined=sifted.baselined,
        stale=sum(1 for _ in linted.covers(sifted.gone)),
        hidden=len(linted.findings) - len(shown),
    )


def save_baseline(linted: Linted, path: Path) -> str:
    """Write the findings down as known; return what to say about it.

    What an older baseline in this file says of skills that were not linted stays. Raises: ConfigError.
    """
    found, kept = linted.sifted.findings, set[Known]()
    if "." not in linted.starts and path.is_file():
        before = read_baseline(decode_text(path.read_bytes(), str(path)), str(path)).findings
        again = {finding.fingerprint for finding in found}
        kept = {line for line in before if line.fingerprint not in again} - set(linted.covers(before))
    with writing(path, "Choose another file."):
        path.write_text(write_baseline(found, kept), encoding="utf-8")
    more = f", and {count(len(kept), 'older line')} of what was not linted" if kept else ""
    return f"{count(len(found), 'finding')} in {path}{more}: `lint --baseline` shows only others.\n"


def mend(linted: Linted) -> Iterator[str]:
    """Mend what can be mended safely in each SKILL.md with findings; say what was done to which.

    Raises: UsageError when a file cannot be written.
    """
    for path, fixed in _fixed(linted):
        _replace(linted.root / path, fixed.raw)
        yield f"fixed {len(fixed.rules)}: {clean(path)} ({', '.join(fixed.rules)})"


def _fixed(linted: Linted) -> Iterator[tuple[str, Fixed]]:
    """Give each SKILL.md that can be mended, as it would be."""
    wanted: dict[str, set[str]] = {}
    for finding in linted.findings:
        if finding.rule in FIXES and posixpath.basename(finding.where.path) == SKILL_FILE:
            wanted.setdefault(finding.where.path, set()).add(finding.rule)
    for path, rules in sorted(wanted.items()):
        raw = _read(linted.root / path)
        fixed = fix(raw, posixpath.dirname(path) or ".", rules) if raw is not None else None
        if fixed and fixed.rules:
            yield path, fixed


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


class _Places(NamedTuple):
    """The skills to lint and what looks like one; `starts` are the folders searched as a whole.

    There is nothing to say when `is_empty`: only files were given, and none belongs to a skill.
    """

    skills: Sequence[str]
    strays: tuple[Stray, ...]
    starts: Collection[str] = (".",)
    left_out: int = 0
    is_empty: bool = False


def _places(request: Request, config: Config) -> _Places:
    if not request.paths:
        found = scan(request.root)
        covered = [folder for folder in found.skills if config.covers(folder)]
        return _Places(covered, found.strays, left_out=len(found.skills) - len(covered))
    skills: list[str] = []
    strays: list[Stray] = []
    searched: list[str] = []
    for given in dict.fromkeys(relative(path, request.root) for path in request.paths):
        is_file = _is_file(given, request.root)
        start = _owner(given, request.root) if is_file else given
        if start is None:  # a pre-commit hook gives any file
            strays += [Stray(given.as_posix(), "case")] if is_misspelt(given.name) else []
            continue
        found = scan(request.root / start)
        skills += [(start / folder).as_posix() for folder in ((".",) if is_file else found.skills)]
        strays += [stray._replace(path=(start / stray.path).as_posix()) for stray in found.strays]
        searched += [] if is_file else [start.as_posix()]
    is_empty = not (skills or strays or searched)
    return _Places(list(dict.fromkeys(skills)), tuple(dict.fromkeys(strays)), searched, is_empty=is_empty)


def _is_file(path: Path, root: Path) -> bool:
    if not (root / path).exists():
        raise UsageError(f"{path}: no such file or folder", "Name a skill folder, or a folder of skills.")
    return (root / path).is_file()


def _owner(path: PurePath, root: Path) -> PurePath | None:
    """Return the folder of the skill that a file belongs to; None when there is none."""
    above = path.parents[: len(path.parents) - path.parts.count("..")]  # those of `..` are no folders
    return next((folder for folder in above if (root / folder / SKILL_FILE).is_file()), None)


def _facts(
    source: FolderSource, config: Config, folders: Sequence[str], checkouts: Path | None
) -> dict[tuple[str, ...], Facts]:
    wanted = {config.suites_for(folder) for folder in folders}
    if wanted <= {()}:
        return {(): ()}
    from skillgate.bench.suite import task_facts

    return {
        names: tuple(fact for suite in read_suites(source, names, checkouts) for fact in task_facts(suite))
        for names in wanted
    }


# --- checking many skills ----------------------------------------------------------


def _check_all(request: Request, rules: Sequence[Rule], tasks: Mapping[str, Facts]) -> dict[str, Checked]:
    """Check every skill, those that the cache does not know on all cores."""
    root = request.root
    cache = Cache(request.cache, root, rules)
    keys = {folder: cache.key(folder, facts, _is_clone(root, folder)) for folder, facts in tasks.items()}
    known = {folder: one for folder, key in keys.items() if (one := cache.get(folder, key))}
    todo = {folder: facts for folder, facts in tasks.items() if folder not in known}
    known |= dict(zip(todo, _check_each(root, rules, todo), strict=True))
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
    if _is_clone(root, folder):
        rules = [rule for rule in rules if not isinstance(rule.checker, NameFolder)]
    return check_skill(parse(Files.from_folder(root / folder), folder), rules, facts)


def _is_clone(root: Path, folder: str) -> bool:
    """Say whether a skill is a repository of its own, whose folder has whatever name."""
    return folder != "." and (root / folder / ".git").exists()


_state: list[tuple[Path, Sequence[Rule]]] = []  # of a worker process


def _begin(root: Path, rules: Sequence[Rule]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells the user, once
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.set_threshold(RARELY)
    _state.append((root, rules))


def _work(task: tuple[str, Facts]) -> Checked:
    ((root, rules),) = _state
    return _check(root, task[0], rules, task[1])
