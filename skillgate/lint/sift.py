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
from skillgate.core import SCHEMA_VERSION, Finding, Struct
from skillgate.document import decode
from skillgate.lint.check import Hit, quoted
from skillgate.lint.checks.suppression import Comment, Suppression
from skillgate.lint.rule import Rule

SECURITY = "security"


class Sifted(NamedTuple):
    """The findings to show, those that a comment silences, and how many the baseline holds."""

    findings: tuple[Finding, ...]
    ignored: tuple[Finding, ...] = ()
    baselined: int = 0


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
    trusted: Collection[str] | None = None,
) -> Sifted:
    """Take out what is silenced; `rules` are those that were applied.

    `trusted` are the fingerprints of security findings that a comment may silence; None trusts every comment.
    """
    wanted = [found for finding in findings for found in _at_its_path(finding, config)]
    counted = [comment for comment in comments if comment.reason]
    ignored = [
        f for f in wanted if _is_trusted(f, trusted) and any(c.covers(f.rule, f.where) for c in counted)
    ]
    shown = [finding for finding in wanted if finding not in ignored]
    shown += _useless(counted, wanted, rules, config)
    left, baselined = _without_known(shown, baseline)
    return Sifted(
        tuple(sorted(left, key=lambda f: (f.where, f.rule, f.match, f.message))), tuple(ignored), baselined
    )


def read_baseline(text: str, path: str) -> Baseline:
    """Read a baseline from JSON. Raises: ConfigError with path:line."""
    return decode(text, Baseline, path)


def write_baseline(findings: Iterable[Finding]) -> str:
    """Write findings down as JSON, one a line, so that a diff shows which came and went."""
    counts = Counter((f.rule, f.where.path, f.fingerprint) for f in findings)
    lines = [
        msgspec.json.encode(Known(rule=rule, path=path, fingerprint=key, count=count)).decode()
        for (rule, path, key), count in sorted(counts.items())
    ]
    inside = "".join(f"\n    {line}{',' if line is not lines[-1] else ''}" for line in lines)
    return f'{{\n  "schema": {SCHEMA_VERSION},\n  "findings": [{inside}\n  ]\n}}\n'


def _at_its_path(finding: Finding, config: LintConfig) -> Iterator[Finding]:
    wanted = config.at(finding.rule, finding.where.path)
    if wanted is True:
        yield finding
    elif wanted is not False:
        yield msgspec.structs.replace(finding, severity=wanted)


def _is_trusted(finding: Finding, trusted: Collection[str] | None) -> bool:
    return trusted is None or finding.scope != SECURITY or finding.fingerprint in trusted


def _useless(
    comments: Sequence[Comment], findings: Sequence[Finding], rules: Sequence[Rule], config: LintConfig
) -> Iterator[Finding]:
    """Give the comments that silence nothing; a rule that is off cannot tell."""
    about = next((rule for rule in rules if isinstance(rule.checker, Suppression)), None)
    applied = {rule.id for rule in rules}
    for comment in comments if about else ():
        used = {f.rule for f in findings if comment.covers(f.rule, f.where)}
        unused = [name for name in comment.rules if name in applied and name not in used]
        if unused and about:
            hit = Hit(
                where=comment.where,
                match=", ".join(unused),
                variant="unused",
                values={"rules": quoted(unused)},
            )
            yield from _at_its_path(about.finding(hit), config)


def _without_known(findings: Sequence[Finding], baseline: Baseline) -> tuple[list[Finding], int]:
    left = Counter({known.fingerprint: known.count for known in baseline.findings})
    shown: list[Finding] = []
    for finding in findings:
        if left[finding.fingerprint] > 0:
            left[finding.fingerprint] -= 1
        else:
            shown.append(finding)
    return shown, len(findings) - len(shown)
