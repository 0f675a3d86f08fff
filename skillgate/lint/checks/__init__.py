"""The kinds of check that a rule file can name."""

from __future__ import annotations

from skillgate.lint.check import Check, LibraryCheck
from skillgate.lint.checks.clients import (
    IgnoredKeys,
    ListingBudget,
    ListingCut,
    ReferenceValidator,
    ReservedName,
    SkillLocation,
)
from skillgate.lint.checks.code import CodeShare, LongCodeBlock, UnclosedFence
from skillgate.lint.checks.content import (
    AntiPatternCredit,
    ExampleShare,
    HeadingLevels,
    RepeatedParagraph,
    Shouting,
)
from skillgate.lint.checks.discovery import (
    DuplicateName,
    KeywordStuffing,
    OverlappingDescriptions,
    TriggerCue,
    VagueDescription,
)
from skillgate.lint.checks.files import (
    ByteOrderMark,
    ControlCharacter,
    LineEndings,
    LinkAsText,
    NoSkills,
    NotFullyRead,
    Strays,
)
from skillgate.lint.checks.frontmatter import (
    BodyMissing,
    FieldLength,
    FieldMissing,
    FieldTypes,
    FrontmatterProblem,
    NameFolder,
    NameFormat,
    UnknownKeys,
)
from skillgate.lint.checks.hidden import EncodedBlob, HiddenComment, HiddenUnicode
from skillgate.lint.checks.leakage import AnswerLeakage
from skillgate.lint.checks.paths import HardcodedPath
from skillgate.lint.checks.pattern import Pattern
from skillgate.lint.checks.references import (
    BrokenAnchor,
    BrokenReference,
    ReferenceOutside,
    ReferenceWithoutCue,
)
from skillgate.lint.checks.scripts import InteractivePrompt, OncePerSkill, ScriptStart
from skillgate.lint.checks.security import CommandAtLoad, Exfiltration, Secret, Signatures
from skillgate.lint.checks.suppression import Suppression
from skillgate.lint.checks.templates import TemplateAnchoring
from skillgate.lint.checks.tree import LongReference, OrphanFile, ReferenceCycle, ReferenceDepth
from skillgate.lint.checks.weight import TokenLimits

CHECKS: dict[str, type[Check | LibraryCheck]] = {
    "answer-leakage": AnswerLeakage,
    "anti-pattern-credit": AntiPatternCredit,
    "body-missing": BodyMissing,
    "broken-anchor": BrokenAnchor,
    "broken-reference": BrokenReference,
    "byte-order-mark": ByteOrderMark,
    "code-share": CodeShare,
    "command-at-load": CommandAtLoad,
    "control-character": ControlCharacter,
    "duplicate-name": DuplicateName,
    "encoded-blob": EncodedBlob,
    "example-share": ExampleShare,
    "exfiltration": Exfiltration,
    "field-length": FieldLength,
    "field-missing": FieldMissing,
    "field-types": FieldTypes,
    "frontmatter-problem": FrontmatterProblem,
    "hardcoded-path": HardcodedPath,
    "heading-levels": HeadingLevels,
    "hidden-comment": HiddenComment,
    "hidden-unicode": HiddenUnicode,
    "ignored-keys": IgnoredKeys,
    "interactive-prompt": InteractivePrompt,
    "keyword-stuffing": KeywordStuffing,
    "line-endings": LineEndings,
    "link-as-text": LinkAsText,
    "listing-budget": ListingBudget,
    "listing-cut": ListingCut,
    "long-code-block": LongCodeBlock,
    "long-reference": LongReference,
    "name-folder": NameFolder,
    "name-format": NameFormat,
    "no-skills": NoSkills,
    "not-fully-read": NotFullyRead,
    "once-per-skill": OncePerSkill,
    "orphan-file": OrphanFile,
    "overlapping-descriptions": OverlappingDescriptions,
    "pattern": Pattern,
    "reference-cycle": ReferenceCycle,
    "reference-depth": ReferenceDepth,
    "reference-outside": ReferenceOutside,
    "reference-validator": ReferenceValidator,
    "reference-without-cue": ReferenceWithoutCue,
    "repeated-paragraph": RepeatedParagraph,
    "reserved-name": ReservedName,
    "script-start": ScriptStart,
    "secret": Secret,
    "shouting": Shouting,
    "signatures": Signatures,
    "skill-location": SkillLocation,
    "strays": Strays,
    "suppression": Suppression,
    "template-anchoring": TemplateAnchoring,
    "token-limits": TokenLimits,
    "trigger-cue": TriggerCue,
    "unclosed-fence": UnclosedFence,
    "unknown-keys": UnknownKeys,
    "vague-description": VagueDescription,
}
