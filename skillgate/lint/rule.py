"""rules/*.yml -> Rule: id, severity, wording, evidence and examples of one check with its options.

A folder is read as it is: there is no list of rules. What a user overrides (off, another severity, options)
is merged here, so that the engine sees final rules only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec

from skillgate.config import LintConfig, RuleOptions
from skillgate.core import Finding, TaskFacts
from skillgate.document import decode, nearest
from skillgate.errors import OptionError, RuleError, SkillgateError
from skillgate.lint.check import Check, Hit, LibraryCheck
from skillgate.lint.checks import CHECKS
from skillgate.values import Severity, Struct

Example = str | dict[str, str]
_SLOT = re.compile(r"\{([a-z-]+)\}")


class Evidence(Struct, kw_only=True):
    """Where a rule's claim comes from and what stands there."""

    source: str
    says: str


class Examples(Struct, kw_only=True):
    """SKILL.md texts, or maps from path to content, of a skill in a folder named `demo`.

    Each bad one gives this rule and nothing else, each good one nothing, where `tasks` judge the skill.
    """

    bad: Annotated[tuple[Example, ...], msgspec.Meta(min_length=1)]
    good: Annotated[tuple[Example, ...], msgspec.Meta(min_length=1)]
    tasks: tuple[TaskFacts, ...] = ()


class Variant(Struct, kw_only=True):
    """What a rule says otherwise about hits of one kind; what is not given is the rule's."""

    severity: Severity | None = None
    message: str | None = None
    hint: str | None = None


class Rule(Struct, kw_only=True, dict=True):
    """One rule file. `{...}` in messages and hints is filled by the check; `fix` is what `--fix` does.

    Rules of a client are on where `lint.clients` names it, rules of style where `lint.rules` names them.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: str
    severity: Severity
    scope: Annotated[str, msgspec.Meta(pattern="^(spec|client:[a-z-]+|evidence|security|style)$")]
    check: str
    options: dict[str, Any] = msgspec.field(name="with", default_factory=dict)
    message: str
    hint: str
    fix: str = ""
    variants: dict[str, Variant] = {}
    why: str
    evidence: Annotated[tuple[Evidence, ...], msgspec.Meta(min_length=1)]
    since: str
    examples: Examples

    @cached_property
    def checker(self) -> Check | LibraryCheck:
        """Return the check with its options. Raises: msgspec.ValidationError for those it does not take."""
        return msgspec.convert(self.options, CHECKS[self.check])

    def is_on(self, option: RuleOptions | None, clients: Collection[str]) -> bool:
        """Say whether the rule applies, given what `lint.rules` says of it and `lint.clients`."""
        if option is not None:
            return option is not False
        kind, _, client = self.scope.partition(":")
        return kind != "style" and (not client or client in clients)

    def finding(self, hit: Hit) -> Finding:
        """Word a hit: the rule sets id, severity, scope and evidence."""
        variant = self.variants.get(hit.variant, Variant())
        message, hint = self._wording(variant)
        return Finding(
            rule=self.id,
            severity=variant.severity or self.severity,
            scope=self.scope,
            message=_fill(message, hit.values),
            where=msgspec.structs.replace(hit.where, path=clean(hit.where.path)),
            hint=_fill(hint, hit.values),
            evidence=f"{self.evidence[0].says} ({self.evidence[0].source})",
            match=clean(hit.match),
            redacted=hit.redacted,
        )

    def unfilled(self, hit: Hit) -> list[str]:
        """Return the `{...}` in what the rule says of a hit that its check does not fill."""
        said = "".join(self._wording(self.variants.get(hit.variant, Variant())))
        return sorted({slot for slot in _SLOT.findall(said) if slot not in hit.values})

    def _wording(self, variant: Variant) -> tuple[str, str]:
        return variant.message or self.message, self.hint if variant.hint is None else variant.hint


def load_rules(*folders: Path) -> tuple[Rule, ...]:
    """Read every rule file of the folders, sorted by id. Raises: RuleError with path:line.

    The expressions of our own rules, those of the first folder, are compiled when needed: it takes a while.
    """
    rules: dict[str, Rule] = {}
    for folder in folders:
        paths = sorted(folder.glob("*.yml"))
        if not paths:
            raise RuleError(f"{folder}: there is no rule file", "A rule is a file `<id>.yml`.")
        for path in paths:
            if path.is_symlink():  # may lead to any file of this machine, and an error quotes what it reads
                raise RuleError(f"{path}:1: a link", "Put the file itself there.")
            if path.stem in rules:
                raise RuleError(f"{path}:1: there is a rule `{path.stem}` already", "Choose another id.")
            rules[path.stem] = _read(path, is_ours=folder == folders[0])
    return tuple(rules[name] for name in sorted(rules))


def configure(rules: Sequence[Rule], config: LintConfig) -> tuple[Rule, ...]:
    """Return the rules that are on, with the options and severities that the configuration gives.

    Raises: OptionError for options that name no rule or no option.
    """
    known = {rule.id for rule in rules}
    named: list[tuple[str, ...]] = [("rules", name) for name in config.rules]
    named += [("paths", pattern, name) for pattern, names in config.paths.items() for name in names]
    for keys in named:
        if keys[-1] not in known:
            message = f"`lint.{keys[0]}` names `{keys[-1]}`, which is no rule"
            raise OptionError(("lint", *keys), message, nearest(keys[-1], known))
    wanted = ((rule, config.rules.get(rule.id)) for rule in rules)
    on = (_override(rule, option) for rule, option in wanted if rule.is_on(option, config.clients))
    return tuple(_told(rule, known) for rule in on)


def _read(path: Path, *, is_ours: bool) -> Rule:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}:1: cannot be read: {error}", "Save it as UTF-8 text.") from None
    rule = decode(text, Rule, str(path), RuleError, is_ours=is_ours)
    if rule.id != path.stem:
        raise _at(
            text, path, "id", f"the id is `{rule.id}`, the file is `{path.name}`", f"Write `id: {path.stem}`."
        )
    if rule.check not in CHECKS:
        hint = nearest(rule.check, CHECKS)
        raise _at(text, path, "check", f"there is no check `{rule.check}`", hint)
    try:
        _ = rule.checker if is_ours else verified(rule)
    except msgspec.ValidationError as error:
        message, hint = _explain(error, rule.check)
        raise _at(text, path, "with", message, hint) from None
    return rule


def verified(rule: Rule) -> Rule:
    """Return the rule. Raises: msgspec.ValidationError when its check cannot be made of its options."""
    for name, pattern in rule.checker.expressions() if isinstance(rule.checker, Check) else ():
        try:
            re.compile(pattern)
        except re.error as problem:
            raise msgspec.ValidationError(f"`{name}` is no regular expression: {problem}") from None
    return rule


def _at(text: str, path: Path, key: str, message: str, hint: str) -> SkillgateError:
    found = re.search(rf"^{key}:", text, re.MULTILINE)
    line = text.count("\n", 0, found.start()) + 1 if found else 1
    return RuleError(f"{path}:{line}: {message}", hint)


def _override(rule: Rule, option: RuleOptions | None) -> Rule:
    if option is True or option is None:
        return rule
    given = dict(option) if isinstance(option, dict) else {"severity": option}
    severity = given.pop("severity", None)
    changed = msgspec.structs.replace(rule, options={**rule.options, **given})
    try:
        return _with_severity(verified(changed), msgspec.convert(severity, Severity | None))
    except msgspec.ValidationError as error:
        message, hint = _explain(error, rule.check)
        raise OptionError(("lint", "rules", rule.id), f"`lint.rules.{rule.id}`: {message}", hint) from None


def _told(rule: Rule, known: Collection[str]) -> Rule:
    """Tell the rule about comments which rules there are: a comment may name one that is off."""
    if rule.check != "suppression":
        return rule
    return msgspec.structs.replace(rule, options={**rule.options, "known": sorted(known)})


def _with_severity(rule: Rule, severity: Severity | None) -> Rule:
    """A severity of the user holds for all that the rule finds."""
    if severity is None:
        return rule
    variants = {name: msgspec.structs.replace(v, severity=None) for name, v in rule.variants.items()}
    return msgspec.structs.replace(rule, severity=severity, variants=variants)


def _explain(error: msgspec.ValidationError, check: str) -> tuple[str, str]:
    message = str(error)
    unknown = re.search(r"unknown field `(.+?)`", message)
    if unknown:
        known = ("severity", *CHECKS[check].__struct_encode_fields__)
        return f"unknown option `{unknown[1]}`", nearest(unknown[1], known)
    return message[0].lower() + message[1:], "Correct the value."


def _fill(template: str, values: Mapping[str, str]) -> str:
    return clean(_SLOT.sub(lambda slot: values.get(slot[1], slot[0]), template)).strip()


def clean(text: str) -> str:
    """Replace lone surrogates, which no output format can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
