"""Findings -> the same without what they quote of a key: only the rule `secret` knows which text is one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from skillgate.core import Finding
from skillgate.lint.checks.security import Secret
from skillgate.lint.rule import Rule
from skillgate.skill import Skill

GRAM = 8  # characters in a row that two texts do not share by chance


def without_keys(findings: Iterable[Finding], skill: Skill, rules: Sequence[Rule]) -> Iterator[Finding]:
    """Mask keys in what findings say; those that stand on the line of a key are redacted."""
    known = tuple(findings)
    checks = [rule.checker for rule in rules if isinstance(rule.checker, Secret)]
    lines, grams = set[tuple[str, int]](), set[str]()
    for source in skill.sources if any(finding.redacted for finding in known) else ():
        for start, end in (place for check in checks for place in check.places(source)):
            first, last = source.location(start), source.location(end)
            lines.update((first.path, line) for line in range(first.line, last.line + 1))
            grams.update(source.text[at : at + GRAM] for at in range(start, end - GRAM + 1))
    for finding in known:
        on_line = (finding.where.path, finding.where.line) in lines
        changed = {
            name: text
            for name in ("message", "hint", "match")
            if grams and (text := _masked(said := getattr(finding, name), grams)) != said
        }
        if finding.redacted or not (on_line or changed):
            yield finding
        else:
            yield msgspec.structs.replace(finding, redacted=on_line, **changed)


def _masked(text: str, grams: set[str]) -> str:
    """Put a digest in place of what is part of a key: a baseline still tells two of them apart."""
    pieces, at = list[str](), 0
    for start in range(len(text) - GRAM + 1):
        if start >= at and text[start : start + GRAM] in grams:
            end = start + GRAM
            while text[end - GRAM + 1 : end + 1] in grams and end < len(text):
                end += 1
            key = hashlib.sha256(text[start:end].encode("utf-8", "surrogatepass")).hexdigest()[:8]
            pieces += [text[at:start], f"[key {key}]"]
            at = end
    return "".join((*pieces, text[at:]))
