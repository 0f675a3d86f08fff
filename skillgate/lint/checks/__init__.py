"""The kinds of check that a rule file can name."""

from __future__ import annotations

from skillgate.lint.check import Check, LibraryCheck
from skillgate.lint.checks.files import NoSkills, NotFullyRead
from skillgate.lint.checks.frontmatter import (
    FieldLength,
    FieldMissing,
    FrontmatterProblem,
    NameFolder,
    NameFormat,
    UnknownKeys,
)
from skillgate.lint.checks.paths import HardcodedPath
from skillgate.lint.checks.pattern import Pattern
from skillgate.lint.checks.references import BrokenReference
from skillgate.lint.checks.suppression import Suppression
from skillgate.lint.checks.templates import TemplateAnchoring
from skillgate.lint.checks.weight import TokenLimits

CHECKS: dict[str, type[Check | LibraryCheck]] = {
    "broken-reference": BrokenReference,
    "field-length": FieldLength,
    "field-missing": FieldMissing,
    "frontmatter-problem": FrontmatterProblem,
    "hardcoded-path": HardcodedPath,
    "name-folder": NameFolder,
    "name-format": NameFormat,
    "no-skills": NoSkills,
    "not-fully-read": NotFullyRead,
    "pattern": Pattern,
    "suppression": Suppression,
    "template-anchoring": TemplateAnchoring,
    "token-limits": TokenLimits,
    "unknown-keys": UnknownKeys,
}
