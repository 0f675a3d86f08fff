"""Findings -> SARIF 2.1.0, for GitHub code scanning and whatever else reads it. Pure.

It knows findings alone, no rule files: what it says of a rule comes from the rule's first finding.
GitHub refuses a file with more than 25,000 results, so the least severe are left out and a notification
says how many. Of the fingerprints it reads only `primaryLocationLineHash`, which its upload action
computes from the sources; other readers take ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from skillgate import __version__
from skillgate.core import Finding
from skillgate.report.escape import clean
from skillgate.report.json import write
from skillgate.report.rows import severest_first
from skillgate.report.wording import count

MAX_RESULTS = 25_000
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "skillgate/v1"

Json = dict[str, object]


def render(findings: Iterable[Finding]) -> str:
    """Write one run with its findings, the most severe first."""
    ordered = severest_first(findings)
    shown, left_out = ordered[:MAX_RESULTS], len(ordered[MAX_RESULTS:])
    examples = {_rule_id(finding): finding for finding in reversed(shown)}
    index_of = {rule: index for index, rule in enumerate(sorted(examples))}
    rules = [_rule(rule, examples[rule]) for rule in index_of]
    run: Json = {
        "tool": {"driver": {"name": "skillgate", "version": __version__, "rules": rules}},
        "invocations": [_invocation(left_out)],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, index_of[_rule_id(finding)], occurrence)
            for finding, occurrence in zip(shown, _occurrences(ordered), strict=False)
        ],
    }
    return write({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(rule: str, example: Finding) -> Json:
    """Describe a rule by what is the same in all its findings; GitHub wants none of the texts empty."""
    title = rule.replace("-", " ").capitalize()
    evidence = _plain(example.evidence) or title
    return {
        "id": rule,
        "shortDescription": {"text": title},
        "fullDescription": {"text": evidence},
        "help": {"text": f"{evidence}. Run `skillgate rules {rule}` for the reasons and an example."},
        "properties": {"tags": [clean(example.scope)]},
    }


def _invocation(left_out: int) -> Json:
    told = (
        f"{count(left_out, 'finding')} left out, the least severe: GitHub takes {MAX_RESULTS:,} of one run."
    )
    notifications = [{"level": "warning", "message": {"text": told}}] if left_out else []
    return {"executionSuccessful": True, "toolExecutionNotifications": notifications}


def _result(finding: Finding, rule_index: int, occurrence: int) -> Json:
    nth = f":{occurrence}" if occurrence > 1 else ""
    return {
        "ruleId": _rule_id(finding),
        "ruleIndex": rule_index,
        "level": finding.severity.value,
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": _place(finding)}],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint + nth},
    }


def _place(finding: Finding) -> Json:
    where = finding.where
    uri = quote(where.path, errors="replace")
    return {
        "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": where.line, "startColumn": where.column},
    }


def _message(finding: Finding) -> str:
    """Join message and hint; in a result braces mean a placeholder unless doubled (section 3.11.5)."""
    parts = (_plain(finding.statement), _plain(finding.hint))
    text = ". ".join(part for part in parts if part) or _rule_id(finding)
    return text.replace("{", "{{").replace("}", "}}")


def _plain(text: str) -> str:
    """Make text harmless: `[words](target)` would become a link (section 3.11.6)."""
    return clean(text).replace("](", "] (")


def _rule_id(finding: Finding) -> str:
    return clean(finding.rule) or "unnamed"


def _occurrences(findings: Sequence[Finding]) -> list[int]:
    """Number the findings that share a fingerprint from 1, in the order of the file."""
    seen: Counter[str] = Counter()
    numbers = [0] * len(findings)
    for at in sorted(range(len(findings)), key=lambda at: findings[at].where):
        seen[findings[at].fingerprint] += 1
        numbers[at] = seen[findings[at].fingerprint]
    return numbers
