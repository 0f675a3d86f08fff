"""Findings -> those to show: without what the configuration, a comment or the baseline silences.

A comment gives a reason, or it does not count; one that silences nothing is a finding itself. In a
pull request the change must not silence the rules that guard against it: there a comment silences a
finding of security only where the base had the same finding silenced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from skillgate.config import LintConfig
from skillgate.core import SCHEMA_VERSION, Finding
from skillgate.document import decode
from skillgate.lint.check import Check, Hit, quoted
from skillgate.lint.checks.suppression import Comment, Suppression
from skillgate.lint.engine import in_order
from skillgate.lint.rule import Rule
from skillgate.values import Location, Struct

SECURITY = "security"


class Sifted(NamedTuple):
    """The findings to show, those that a comment silences, and how many the baseline holds.

    `gone` are the lines of the baseline that match nothing any more, each with how often it did.
    """

    findings: tuple[Finding, ...]
    ignored: tuple[Finding, ...] = ()
    baselined: int = 0
    gone: tuple[Known, ...] = ()


class Known(Struct, kw_only=True):
    """One line of a baseline: so many findings of this rule in this file match this text."""

    rule: str
    path: str
    fingerprint: str
    count: int = 1


class Baseline(Struct, kw_only=True):
    """The findings that were there when somebody wrote them down."""

    schema: int = SCHEMA_VERSION
    findings: tuple[Known, ...] = ()


NOTHING_KNOWN = Baseline()


def sift(
    findings: Iterable[Finding],
    comments: Sequence[Comment],
    rules: Sequence[Rule],
    config: LintConfig,
    *,
    baseline: Baseline = NOTHING_KNOWN,
    trusted: Iterable[str] | None = None,
) -> Sifted:
    """Take out what is silenced; `rules` are those that were applied.

    `trusted` are the fingerprints of security findings that comments may silence, each as often as it stands
    there; None trusts every comment.
    """
    wanted = [found for finding in findings for found in _at_its_path(finding, config)]
    counted = [comment for comment in comments if comment.counts]
    used = list(_used(counted, wanted))
    covered = dict.fromkeys(finding for _, finding in used)
    ignored = dict.fromkeys(covered if trusted is None else _trusted(covered, Counter(trusted)))
    shown = [finding for finding in wanted if finding not in ignored]
    shown += _useless(counted, {(comment.where, f.rule) for comment, f in used}, rules, config)
    left, gone = _without_known(shown, baseline)
    return Sifted(in_order(left), tuple(ignored), len(shown) - len(left), gone)


def read_baseline(text: str, path: str) -> Baseline:
    """Read a baseline from JSON. Raises: ConfigError with path:line."""
    try:
        return msgspec.json.decode(text, type=Baseline)
    except msgspec.DecodeError:
        return decode(text, Baseline, path)  # a hundred times slower, but it says where


def write_baseline(findings: Iterable[Finding], kept: Iterable[Known] = ()) -> str:
    """Write findings down as JSON, one a line, so that a diff shows which came and went.

    `kept` are lines of an older baseline that still hold.
    """
    counts = Counter((f.rule, f.where.path, f.fingerprint) for f in findings)
    counts.update({(known.rule, known.path, known.fingerprint): known.count for known in kept})
    lines = [
        msgspec.json.encode(Known(rule=rule, path=path, fingerprint=key, count=count)).decode()
        for (rule, path, key), count in sorted(counts.items())
    ]
    inside = "".join(f"\n    {line}{',' if line is not lines[-1] else ''}" for line in lines)
    return f'{{\n  "schema": {SCHEMA_VERSION},\n  "findings": [{inside}\n  ]\n}}\n'


def merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Give equal findings of a file once, at the first place, with the lines of the others."""
    places: dict[Finding, list[Finding]] = {}
    for finding in findings:
        alike = msgspec.structs.replace(finding, where=Location(path=finding.where.path))
        places.setdefault(alike, []).append(finding)
    for first, *others in places.values():
        lines = dict.fromkeys(other.where.line for other in others)
        more = [str(line) for line in lines if line != first.where.line]
        shown = ", ".join(more[:5]) + (", …" if len(more) > 5 else "")
        also = f" (also on {'line' if len(more) == 1 else 'lines'} {shown})" if more else ""
        yield msgspec.structs.replace(first, message=first.message + also)


def _at_its_path(finding: Finding, config: LintConfig) -> Iterator[Finding]:
    wanted = config.at(finding.rule, finding.where.path)
    if wanted is True:
        yield finding
    elif wanted is not False:
        yield msgspec.structs.replace(finding, severity=wanted)


def _used(comments: Sequence[Comment], findings: Sequence[Finding]) -> Iterator[tuple[Comment, Finding]]:
    """Give each comment with each finding that it covers."""
    at: dict[str, list[Comment]] = {}
    for comment in comments:
        at.setdefault(comment.where.path, []).append(comment)
    for finding in findings:
        for comment in at.get(finding.where.path, ()):
            if comment.covers(finding.rule, finding.where):
                yield comment, finding


def _trusted(findings: Iterable[Finding], left: Counter[str]) -> Iterator[Finding]:
    for finding in findings:
        if finding.scope == SECURITY:
            left[finding.fingerprint] -= 1
        if finding.scope != SECURITY or left[finding.fingerprint] >= 0:
            yield finding


def _useless(
    comments: Sequence[Comment], used: Collection[object], rules: Sequence[Rule], config: LintConfig
) -> Iterator[Finding]:
    """Give the comments that silence nothing, given where comments did so, and for which rule.

    A rule that is off cannot tell, nor one that looks at all skills: the others may not be there.
    """
    about = next((rule for rule in rules if isinstance(rule.checker, Suppression)), None)
    applied = {rule.id for rule in rules if isinstance(rule.checker, Check)}
    for comment in comments if about else ():
        able = (name for name in comment.rules if config.at(name, comment.where.path) is not False)
        unused = [name for name in able if name in applied and (comment.where, name) not in used]
        if unused and about:
            hit = Hit(
                where=comment.where,
                match=", ".join(unused),
                variant="unused",
                values={"rules": quoted(unused)},
            )
            yield from _at_its_path(about.finding(hit), config)


def _without_known(
    findings: Sequence[Finding], baseline: Baseline
) -> tuple[list[Finding], tuple[Known, ...]]:
    """Return what the baseline does not know, and what it knows and is not there."""
    left = Counter({known.fingerprint: known.count for known in baseline.findings})
    shown: list[Finding] = []
    for finding in findings:
        if left[finding.fingerprint] > 0:
            left[finding.fingerprint] -= 1
        else:
            shown.append(finding)
    known = {known.fingerprint: known for known in baseline.findings}
    gone = (msgspec.structs.replace(known[key], count=count) for key, count in left.items() if count > 0)
    return shown, tuple(gone)
