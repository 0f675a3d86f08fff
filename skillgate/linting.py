"""`skillgate lint`: paths on disk -> findings, and their rendering."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from skillgate.bench.suite import task_facts
from skillgate.config import Config
from skillgate.core import Finding, TaskFacts
from skillgate.errors import UsageError
from skillgate.gate.sources import FolderSource, read_config, read_rules, read_suites, relative
from skillgate.lint.engine import lint_skill, no_skills_finding
from skillgate.report import findings
from skillgate.report.annotations import render as render_annotations
from skillgate.skill import Files, discover, parse


class Linted(NamedTuple):
    """What was found, in how many skills, and the text the findings point into."""

    config: Config
    findings: tuple[Finding, ...]
    skills: int
    sources: dict[str, str]


def lint_paths(paths: Sequence[Path], root: Path) -> Linted:
    """Lint every skill at or below the paths; without any, those the configuration covers."""
    source = FolderSource(root)
    config = read_config(source)
    rules = read_rules(source, config)
    found: list[Finding] = []
    texts: dict[str, str] = {}
    folders = _folders(paths, root, config)
    facts: dict[tuple[str, ...], list[TaskFacts]] = {}
    for folder in folders:
        names = config.suites_for(folder)
        if names not in facts:
            facts[names] = [fact for suite in read_suites(source, names) for fact in task_facts(suite)]
        skill = parse(Files.from_folder(root / folder), folder)
        here = lint_skill(skill, rules, facts[names])
        found += here
        if here:
            texts |= {source.path: source.text for source in skill.sources}
    if not folders:
        found += no_skills_finding(rules, relative(paths[0], root).as_posix() if paths else ".")
    return Linted(config, tuple(found), len(folders), texts)


def render(linted: Linted, style: str) -> str:
    """Render as text, json or github annotations."""
    if style == "json":
        return findings.render_json(linted.findings, linted.skills)
    if style == "github":
        return render_annotations(linted.findings)
    return findings.render_text(linted.findings, linted.sources)


def _folders(paths: Sequence[Path], root: Path, config: Config) -> list[str]:
    if not paths:
        return [folder for folder in discover(root) if config.covers(folder)]
    folders: list[str] = []
    for given in paths:
        path = relative(given, root)
        if not (root / path).exists():
            raise UsageError(f"{path}: no such file or folder", "Name a skill folder, or a folder of skills.")
        start = path.parent if (root / path).is_file() else path
        folders += [(start / folder).as_posix() for folder in discover(root / start)]
    return list(dict.fromkeys(folders))
