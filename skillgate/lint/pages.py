"""Rules -> text for a terminal, Markdown for the docs, or JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import msgspec

from skillgate.lint.rule import Example, Rule, Variant

_INTRODUCTION = """\
# Rules

Written by `skillgate rules --format markdown` from the files in `rules/`, whose examples are their tests.
A finding is a risk with its source, never a prediction. Rules of the scope `client:...` are on where
`lint.clients` names the client, rules of `style` where `lint.rules` names them; all others are on.
For the numbers of hits each repository was linted by itself, as its skills are compared with each other.
"""


def render(rules: Sequence[Rule], style: str, off: Collection[str] = ()) -> str:
    """Render rules as `text`, `markdown` or `json`; one rule alone is explained in full.

    `off` are the ids of those that the configuration does not apply.
    """
    if style == "json":
        return json.dumps(msgspec.to_builtins(rules), indent=2) + "\n"  # it can write half surrogates
    if style == "markdown":
        return f"{_INTRODUCTION}\n{_table(rules)}" + "".join(f"\n{_page(rule)}" for rule in rules)
    if len(rules) == 1:
        return _page(rules[0])
    width = max(len(rule.id) for rule in rules)
    return "".join(
        f"{rule.id:{width}}  {rule.severity:7}  {rule.title}{' (off)' if rule.id in off else ''}\n"
        for rule in rules
    )


def _table(rules: Sequence[Rule]) -> str:
    rows = (f"| [{r.id}](#{r.id}) | {r.severity} | {r.scope} | {r.title} |\n" for r in rules)
    return "| rule | severity | scope | finds |\n|---|---|---|---|\n" + "".join(rows)


def _page(rule: Rule) -> str:
    evidence = "".join(f"- {e.says[0].upper()}{e.says[1:]} ({e.source}).\n" for e in rule.evidence)
    options = "".join(f"- `{name}`: {_value(value)}\n" for name, value in sorted(rule.options.items()))
    parts = (
        f"## {rule.id}\n\n{rule.title} ({rule.severity}, {rule.scope}, since {rule.since}).\n",
        f"\n{rule.why.strip()}\n",
        f"\n**Says:** {rule.message}. {rule.hint}\n",
        "".join(_variant(rule, variant) for variant in rule.variants.values()),
        f"\n**`--fix`** {rule.fix}\n" if rule.fix else "",
        f"\n**Evidence**\n{evidence}",
        f"\n**Options**\n{options}" if options else "",
        f"\n**Before**\n{_example(rule.examples.bad[0])}\n**After**\n{_example(rule.examples.good[0])}",
    )
    return "".join(parts)


def _value(value: object) -> str:
    """Show an option; of a mapping to patterns the names alone."""
    if isinstance(value, dict | list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`"


def _variant(rule: Rule, variant: Variant) -> str:
    severity = f" ({variant.severity})" if variant.severity else ""
    return f"\n**Or{severity}:** {variant.message or rule.message}. {variant.hint or rule.hint}\n"


def _example(example: Example) -> str:
    files = {"SKILL.md": example} if isinstance(example, str) else example
    return "".join(
        f"\n`{path}`\n``````\n{_visible(content.rstrip())}\n``````\n" for path, content in files.items()
    )


def _visible(text: str) -> str:
    """Spell out what cannot be seen: it is what some examples are about."""
    return "".join(c if c.isprintable() or c == "\n" else f"<U+{ord(c):04X}>" for c in text)
