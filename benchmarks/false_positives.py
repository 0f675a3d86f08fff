"""How often is each rule right? Counts its hits on a corpus of skills and compares a sample with a judgement.

    python benchmarks/false_positives.py CORPUS               the table
    python benchmarks/false_positives.py CORPUS --unjudged    sampled hits that nobody has judged yet, as CSV

CORPUS is a folder with one folder for each origin (a repository); rules that compare skills see one origin
at a time. All rules are on, also those of clients and of style. Of each rule 20 hits are sampled, or all if
there are fewer, in the order of a hash, so that the sample is the same everywhere. `judged.csv` says of each
whether it is true: the rule speaks of what really stands there and an author has reason to look at it.
"""

from __future__ import annotations

import csv
import hashlib
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from skillgate.config import LintConfig
from skillgate.core import Finding
from skillgate.lint.check import Library
from skillgate.lint.engine import check_skill, lint_library
from skillgate.lint.rule import Rule, load_rules
from skillgate.lint.sift import merged, sift
from skillgate.shipped import shipped
from skillgate.skill import Files, parse, scan

SAMPLE = 20
JUDGED = Path(__file__).with_name("judged.csv")
Key = tuple[str, str, str]


def lint_corpus(corpus: Path, rules: Sequence[Rule]) -> list[Finding]:
    found: list[Finding] = []
    for origin in sorted(path for path in corpus.iterdir() if path.is_dir()):
        skills, strays = scan(origin)
        checked = [
            check_skill(parse(Files.from_folder(origin / folder), f"{origin.name}/{folder}"), rules)
            for folder in skills
        ]
        raw = [finding for one in checked for finding in one.findings]
        raw += lint_library(Library(tuple(one.listed for one in checked), strays, origin.name), rules)
        comments = [comment for one in checked for comment in one.comments]
        found += merged(sift(raw, comments, rules, LintConfig()).findings)
    return found


def sample(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: hashlib.sha256(f"{f.fingerprint}{f.where}".encode()).digest())[
        :SAMPLE
    ]


def key(finding: Finding) -> Key:
    return finding.where.path, str(finding.where.line), finding.rule


def read_judged() -> dict[Key, bool]:
    with JUDGED.open(encoding="utf-8", newline="") as file:
        return {
            (row["path"], row["line"], row["rule"]): row["true"] == "true" for row in csv.DictReader(file)
        }


def main(corpus: Path, unjudged: bool) -> None:
    rules = load_rules(shipped("rules"))
    judged = read_judged()
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for finding in lint_corpus(corpus, rules):
        by_rule[finding.rule].append(finding)
    if unjudged:
        out = csv.writer(sys.stdout, lineterminator="\n")
        for finding in (f for rule in rules for f in sample(by_rule[rule.id]) if key(f) not in judged):
            out.writerow([*key(finding), finding.severity, finding.message])
        return
    print("| rule | severity | hits | judged | false |\n|---|---|--:|--:|--:|")
    for rule in rules:
        told = [judged[key(f)] for f in sample(by_rule[rule.id]) if key(f) in judged]
        severities = "/".join(sorted({f.severity.value for f in by_rule[rule.id]})) or rule.severity.value
        print(f"| {rule.id} | {severities} | {len(by_rule[rule.id])} | {len(told)} | {told.count(False)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--unjudged" in sys.argv[2:])
