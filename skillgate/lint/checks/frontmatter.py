"""Checks of the frontmatter and its fields.

A field that a broken frontmatter hides is not called missing: one cause, one finding.
"""

from __future__ import annotations

import difflib
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Sequence

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, quoted
from skillgate.lint.checks.files import link_in
from skillgate.skill import Field, Skill

MAX_NAME_CHARS = 64
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_INNER_FIELD = re.compile(  # in a value: where a line break was lost, or where prose has such a word
    r"(?<![A-Za-z0-9_-])(name|description|license|compatibility|metadata|allowed-tools|disallowed-tools|version"
    r"|author|tags|model|effort|context|agent|hooks|paths|globs|when_to_use|argument-hint"
    r"|disable-model-invocation|user-invocable):(?=[ \t\n]|$)"
)
_TYPES = {
    "bool": "a yes/no value",
    "int": "a number",
    "float": "a number",
    "timestamp": "a date",
    "null": "empty",
    "str": "text",
    "seq": "a list",
    "map": "a mapping",
}
_CORE = frozenset(_TYPES)
_VARIANTS = {"int": "number", "float": "number", "timestamp": "date", "bool": "bool", "seq": "nested"}


class FrontmatterProblem(Check, kw_only=True, rename="kebab"):
    """The frontmatter has one of these problems (`skill.frontmatter`), or one of these fields is no text."""

    problems: tuple[str, ...]
    text_fields: tuple[str, ...] = ()

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the problem, then each field whose value is not text."""
        problem = skill.problem
        known = skill.facts.unreadable or link_in(skill.source)  # other rules say so
        if problem and problem.kind in self.problems and not known:
            line = skill.source.lines[problem.where.line - 1] if problem.kind == "unquoted-colon" else ""
            inner = inner_field(line.partition(":")[2])
            variant = "lost-break" if inner else problem.kind
            values = {"detail": problem.detail, "key": problem.key, "inner": inner}
            yield Hit(where=problem.where, match=problem.key or problem.kind, variant=variant, values=values)
        is_unsafe = problem is not None and problem.kind == "unsafe-tag"  # then that is said already
        for key in self.text_fields:
            field = skill.frontmatter.get(key)
            if field and field.text is None and field.tag != "null" and not is_unsafe:
                values = {"key": key, "type": _TYPES.get(field.tag, f"of the type `{field.tag}`")}
                yield Hit(where=field.value_at, match=key, variant="not-text", values=values)


def inner_field(value: str) -> str:
    """Return the first key of the frontmatter that stands in a value as if it began a field, or nothing."""
    found = _INNER_FIELD.search(value)
    return found[1] if found else ""


class FieldMissing(Check, kw_only=True, rename="kebab"):
    """A field is absent or blank."""

    field: str

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the place of the blank value, or the first line."""
        field = skill.frontmatter.get(self.field)
        if field is None and skill.problem is None:
            yield Hit(where=skill.source.location(0), match=self.field, values={"field": self.field})
        elif field and (field.tag == "null" or (field.text is not None and not field.text.strip())):
            yield Hit(where=field.key_at, match=self.field, values={"field": self.field})


class FieldLength(Check, kw_only=True, rename="kebab"):
    """A text field has more than so many characters, or (variant `short`) fewer that are no blanks."""

    field: str
    max_chars: int
    min_chars: int = 0

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the place of the field."""
        field = skill.frontmatter.get(self.field)
        if field is None or field.tag not in ("str", "null"):
            return
        text = field.text or ""
        values = {"field": self.field, "chars": f"{len(text):,}", "max": f"{self.max_chars:,}"}
        if len(text) > self.max_chars:
            yield Hit(where=field.value_at, match=self.field, values=values)
        elif len(text.strip()) < self.min_chars:
            yield Hit(where=field.key_at, match=self.field, variant="short", values=values)


class FieldTypes(Check, kw_only=True, rename="kebab"):
    """A field is of another YAML type than the specification gives it.

    `text` fields are text, `lists` text or a list of text, `maps` mappings to text. The variants are `list`,
    `map` and, for what is wrong inside a mapping, `number`, `rounded` (one that is not written so again),
    `date`, `bool` and `nested` (a list).
    """

    text: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give each wrong key at its own line."""
        for key, field in skill.frontmatter.items():
            if skill.problem or field.tag == "null" or field.tag not in _CORE:
                continue
            if key in self.text and field.tag != "str":
                yield self._hit(field, "")
            elif key in self.lists and not _is_list(field):
                yield self._hit(field, "list")
            elif key in self.maps:
                yield from self._entries(field) if field.tag == "map" else (self._hit(field, "map"),)

    def _hit(self, field: Field, variant: str) -> Hit:
        values = {"key": field.key, "type": _TYPES[field.tag]}
        return Hit(where=field.key_at, match=field.key, variant=variant, values=values)

    def _entries(self, field: Field) -> Iterator[Hit]:
        """Give what is no text in a mapping; a mapping in it is what a client keeps under its own name."""
        for child in field.children:
            if child.tag in _VARIANTS:
                key, number = f"{field.key}.{child.key}", _number(child.value) if child.tag == "float" else ""
                values = {"key": key, "value": child.value, "number": number}
                values["mended"] = f'{child.key}: "{child.value}"'
                variant = "rounded" if number not in ("", child.value) else _VARIANTS[child.tag]
                yield Hit(where=child.at, match=key, variant=variant, values=values)


def _number(value: str) -> str:
    """Return how a program writes a number again; empty for one that has other signs than digits."""
    return str(float(value)) if re.fullmatch(r"\d{1,15}\.\d{1,15}", value) else ""


def _is_list(field: Field) -> bool:
    return field.tag == "str" or (field.tag == "seq" and all(child.tag == "str" for child in field.children))


class BodyMissing(Check, kw_only=True, rename="kebab"):
    """Nothing stands after the frontmatter."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the last line."""
        if skill.problem is None and not skill.facts.unreadable and not skill.body.strip():
            yield Hit(where=skill.source.location(len(skill.text)), match="body")


class NameFormat(Check, kw_only=True, rename="kebab"):
    """The name is missing or not lower-case letters, digits and single hyphens."""

    max_chars: int = MAX_NAME_CHARS

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the name; the variant `unicode` is a name that part of the specification accepts."""
        field = skill.frontmatter.get("name")
        if field is None or field.tag == "null" or field.text == "":
            if skill.problem is None:
                yield Hit(
                    where=skill.source.location(0) if field is None else field.key_at, variant="missing"
                )
            return
        name = field.text
        if name is None or (_NAME.fullmatch(name) and len(name) <= self.max_chars):
            return
        values = {"name": name, "wrong": self._wrong(name), "suggestion": self._suggest(name)}
        variant = "unicode" if self._wrong(name) == "" else ""
        yield Hit(where=field.value_at, match=name, variant=variant, values=values)

    def _wrong(self, name: str) -> str:
        letters = unicodedata.normalize("NFKC", name).replace("-", "")
        if len(name) > self.max_chars:
            return f"has {len(name)} characters, {self.max_chars} are allowed"
        if name != name.lower() or not letters.isalnum():
            return "holds other characters than a-z, 0-9 and hyphens"
        return "starts, ends or doubles a hyphen" if not all(name.split("-")) else ""

    def _suggest(self, name: str) -> str:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        return re.sub(r"[^a-z0-9]+", "-", plain)[: self.max_chars].strip("-") or "my-skill"


class NameFolder(Check, kw_only=True, rename="kebab"):
    """A well-formed name is not the name of the folder; a skill in the root of a repository has none."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the name; the variant `folder` when only the folder can be corrected."""
        field = skill.frontmatter.get("name")
        folder = posixpath.basename(skill.path)
        name = field.text if field else None
        if not field or not name or folder in (".", name):
            return
        if _NAME.fullmatch(name) and len(name) <= MAX_NAME_CHARS:
            variant = "" if _NAME.fullmatch(folder) else "folder"
            yield Hit(
                where=field.value_at, match=name, variant=variant, values={"name": name, "folder": folder}
            )


class UnknownKeys(Check, kw_only=True, rename="kebab"):
    """The frontmatter has keys that neither the specification nor a known client defines.

    `confused` maps keys of other files to the known one that is meant here, where names of tools follow.
    """

    known: tuple[str, ...]
    confused: dict[str, str] = {}

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give all of them at once, at the first; the variant `typo` when one is nearly a known key."""
        unknown = [key for key in skill.frontmatter if key not in self.known]
        if not unknown or skill.problem:
            return
        close = {key: self._nearest(field) for key, field in skill.frontmatter.items() if key in unknown}
        typos = [key for key in unknown if close[key]]
        first = (typos or unknown)[0]
        values = {"keys": quoted(unknown), "key": first, "nearest": close[first]}
        where = skill.frontmatter[first].key_at
        yield Hit(where=where, match=", ".join(unknown), variant="typo" if typos else "", values=values)

    def _nearest(self, field: Field) -> str:
        spelled = field.key.lower().replace("_", "-")
        close = difflib.get_close_matches(spelled, self.known, n=1, cutoff=0.85)
        values = (field.value, *(child.value for child in field.children))
        meant = self.confused.get(spelled) if any(value[:1].isupper() for value in values) else None
        return meant or next(iter(close), "")
