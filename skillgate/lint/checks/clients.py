"""Checks of what one client does with a skill: keys it ignores, places it does not search, lists it cuts.

What a client does is data of the rule files, each with the page of its documentation.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from itertools import pairwise

import yaml

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, Library, LibraryCheck, Listed, more, quoted, some
from skillgate.skill import Skill

_SCANNER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ELSEWHERE = frozenset("[]{}&*!")  # without these there is no token of another kind
_TOKENS: dict[type[yaml.Token], str] = {
    yaml.FlowSequenceStartToken: "flow",
    yaml.FlowMappingStartToken: "flow",
    yaml.AnchorToken: "anchor",
    yaml.AliasToken: "anchor",
    yaml.TagToken: "tag",
}


class IgnoredKeys(Check, kw_only=True, rename="kebab"):
    """The frontmatter has keys that this client ignores, the worst to miss first in `ignored`.

    The variant is the worst key that is there. `replaced` maps a key to the file of a skill in which this
    client has a setting for the same.
    """

    ignored: tuple[str, ...]
    replaced: dict[str, str] = {}

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give all of them at once, at the worst."""
        keys = (key for key in self.ignored if key in skill.frontmatter)
        found = [key for key in keys if self.replaced.get(key) not in skill.files.names]
        if found and skill.problem is None:
            where = skill.frontmatter[found[0]].key_at
            values = {"keys": quoted(found), "key": found[0], "more": more(found[1:])}
            yield Hit(where=where, match=", ".join(found), variant=found[0], values=values)


class ReservedName(Check, kw_only=True, rename="kebab"):
    """The name holds a word that a client keeps for itself."""

    words: tuple[str, ...]

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the name."""
        name = skill.name or ""
        word = next((word for word in self.words if word in name.lower()), None)
        if word:
            where = skill.frontmatter["name"].value_at
            yield Hit(where=where, match=name, values={"name": name, "word": word})


class ListingCut(Check, kw_only=True, rename="kebab"):
    """Description and when_to_use together are longer than what a client shows of one skill."""

    max_chars: int

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the field that is cut."""
        length = 0
        for field in (skill.frontmatter.get("description"), skill.frontmatter.get("when_to_use")):
            length += len(field.text or "") if field else 0
            if field and length > self.max_chars:
                values = {"chars": f"{length:,}", "max": f"{self.max_chars:,}"}
                yield Hit(where=field.value_at, match="listing", values=values)
                return


class ListingBudget(LibraryCheck, kw_only=True, rename="kebab"):
    """The list of all skills is longer than what a client gives it.

    Of one entry no more than `max-entry-chars` of its texts count, with `with-paths` also the path of its
    file; skills that no model may choose count where `with-hidden` says so.
    """

    max_chars: int
    max_entry_chars: int = 1_000_000
    with_paths: bool = False
    with_hidden: bool = False

    def __call__(self, library: Library) -> Iterator[Hit]:
        """Give the first skill by path, or the one judged where that finds no place after the others."""
        shown = [skill for skill in library.skills if self.with_hidden or not skill.hidden]
        shown.sort(key=lambda skill: skill.path)
        total, lost = 0, list[Listed]()
        for skill in shown:
            total += self._length(skill)
            lost += [skill] if total > self.max_chars else []
        told = library.place_of(lost if library.about else shown) if lost else None
        if told:
            values = {"chars": f"{total:,}", "max": f"{self.max_chars:,}", "count": str(len(shown))}
            values |= {"lost-count": str(len(lost)), "lost": some([skill.name for skill in lost])}
            yield Hit(where=told.description_at, match="listing budget", values=values)

    def _length(self, skill: Listed) -> int:
        texts = len(skill.description) + len(skill.when_to_use)
        path = len(posixpath.join(skill.path, "SKILL.md")) if self.with_paths else 0
        return len(skill.name) + min(texts, self.max_entry_chars) + path


class SkillLocation(LibraryCheck, kw_only=True, rename="kebab"):
    """A skill lies where a client does not look.

    `roots` are the folders that it searches (`.claude/skills`), anywhere in the repository; of skills in
    the folders of other clients those are told (variant `elsewhere`) that have no copy there, and none that
    a plugin could bring. Without `recursive` it finds skills right below a root and no deeper (`deep`).
    """

    roots: tuple[str, ...]
    recursive: bool = False

    def __call__(self, library: Library) -> Iterator[Hit]:
        """Give the first skill below each wrong folder, or the one judged, with the names of all there."""
        reached: set[str] = set()
        missed: dict[tuple[str, str], list[Listed]] = {}
        for skill in library.skills:
            root, inside = _split(skill.path)
            if not root or (root in self.roots and (self.recursive or "/" not in inside)):
                reached.add(posixpath.basename(skill.path))
            elif root in self.roots:
                missed.setdefault(("deep", posixpath.dirname(skill.path)), []).append(skill)
            else:
                missed.setdefault(("elsewhere", root), []).append(skill)
        for (variant, folder), skills in missed.items():
            left = [s for s in skills if posixpath.basename(s.path) not in reached]
            told = library.place_of(left)
            if told:
                names = [posixpath.basename(skill.path) for skill in left]
                values = {"folder": folder, "roots": quoted(self.roots), "names": some(names)}
                yield Hit(where=told.name_at, match=folder, variant=variant, values=values)


def _split(path: str) -> tuple[str, str]:
    """Return the first folder like `.claude/skills` in a path, and what stands after it."""
    parts = path.split("/")
    for at, (first, second) in enumerate(pairwise(parts)):
        if first.startswith(".") and first not in (".", "..") and second == "skills":
            return f"{first}/{second}", "/".join(parts[at + 2 :])
    return "", ""


class ReferenceValidator(Check, kw_only=True, rename="kebab"):
    """The specification allows this frontmatter and its reference validator does not; the variant says what.

    It takes the text between the first two `---`, wherever they stand, and reads it as StrictYAML.
    """

    known: tuple[str, ...]

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the first place of each variant."""
        if skill.problem is not None or skill.facts.unreadable:
            return
        text = skill.text[: len(skill.text) - len(skill.body)]
        inner = text.find("---", 3)
        if inner < text.rstrip().rfind("\n"):
            yield Hit(where=skill.source.location(inner), match="---", variant="dashes")
            return
        seen: set[str] = set()
        for token in yaml.scan(text[3:inner], Loader=_SCANNER) if _ELSEWHERE & set(text) else ():
            variant = _TOKENS.get(type(token), "")
            if variant and variant not in seen:
                seen.add(variant)
                where = skill.source.location(3 + token.start_mark.index)
                yield Hit(where=where, match=variant, variant=variant)
        extra = [key for key in skill.frontmatter if key not in self.known]
        if extra:
            where = skill.frontmatter[extra[0]].key_at
            values = {"keys": quoted(extra)}
            yield Hit(where=where, match=", ".join(extra), variant="key", values=values)
