"""Checks of whether an agent finds the right skill: all it knows before is names and descriptions.

Words are compared in the plainest form that makes plurals equal. Descriptions in other scripts than
Latin are not judged by their words.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from skillgate.core import TaskFacts
from skillgate.lint.check import Check, Hit, Library, LibraryCheck, Listed, quoted
from skillgate.lint.lazy import lazy
from skillgate.skill import Skill

MAX_SHOWN_CHARS, MAX_SHOWN_WORDS = 100, 8
MAX_RARE, MAX_CANDIDATES = 10, 50  # words of a skill that lead to others, and others that one word leads to
_OTHER_SCRIPT = lazy(r"[\u0370-\u1fff\u2c00-\ud7ff]")
_WORD = lazy(r"[^\W\d_][\w+#]*")
_QUOTED = lazy(r"\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)|`[^`]*`|\([^()]*\)")
_NEGATED = lazy(r"\b(?:do not|don['’]t|does not|never|not)\b[^.;!\n]*", re.IGNORECASE)
_CUE = lazy(
    r"\b(?:when|whenever|if|trigger\w*|activat\w+|invoke\w*|cuando|wenn|lorsque|quand|quando)\b"
    r"|\b(?:use[ds]?|useful|using|ideal|designed|helpful|intended|perfect|best|great|suitable|good|needed"
    r"|required|call|run|read|load|apply|applies|reach)(?: \w+){0,3}"
    r" (?:for|to|before|after|during|in|on|at|with|as|by|while)\b"
    r"|, for (?!example|instance)\w|\bfor (?:any |all |every |each )?\w+ing\b"
    r"|\b(?:before|after|while) \w+ing\b"
    r"|\busers?\W+(?:\w+ )?(?:asks?|wants?|says?|needs?|mentions?|requests?|provides?)\b"
    r"|\basked\b|\basks? (?:for|to|about)\b",
    re.IGNORECASE,
)
_COMMON = """
    about across all also an and any are as ask asked asks at be before after best between but by can
    case cases comprehensive complete covers covering create creates creating do does each either etc
    every for from general generic good handle handles handling help helper helps how if in include
    includes including into is it its like made make makes manage manager manages many more most need
    needed needs new of on one only or other our over own per perform provide provides providing should
    skill skills so some such task tasks than that the their them then there these they thing things
    this those through to tool tools use used useful user users uses using various via want wants we
    well what when whenever where which while who will with within without work working works you your
"""
_STOP = frozenset(_COMMON.split())


class TriggerCue(Check, kw_only=True, rename="kebab"):
    """The description never says when to use the skill; "Do not use when" says only when not to."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the description; not of a skill that no model chooses, nor one that says next to nothing."""
        text = _judged(skill)
        told = _CUE.search(_NEGATED.sub(" ", text)) or "when_to_use" in skill.frontmatter
        if text and not told and not _is_vague(text, skill.name or ""):
            yield Hit(where=skill.frontmatter["description"].value_at, match="description")


class VagueDescription(Check, kw_only=True, rename="kebab"):
    """The description has hardly a word that tells this skill from any other."""

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the description; not of a skill that no model chooses."""
        text = _judged(skill)
        if text and _is_vague(text, skill.name or ""):
            values = {"description": text[:MAX_SHOWN_CHARS]}
            yield Hit(where=skill.frontmatter["description"].value_at, match="description", values=values)


class KeywordStuffing(Check, kw_only=True, rename="kebab"):
    """The description repeats a word (variant `repeated`) or strings words together without a sentence.

    What stands in quotes or parentheses does not count: examples of requests repeat words with reason.
    """

    min_repeats: int = 6
    min_share: float = 0.35
    min_items: int = 15

    def __call__(self, skill: Skill, tasks: Sequence[TaskFacts]) -> Iterator[Hit]:
        """Give the description."""
        text = _QUOTED.sub(" ", _judged(skill))
        words = [_plain(word) for word in _WORD.findall(text.lower()) if len(word) > 1 and word not in _STOP]
        word, count = next(iter(Counter(words).most_common(1)), ("", 0))
        where = skill.frontmatter["description"].value_at if words else skill.source.location(0)
        if count >= self.min_repeats and count >= self.min_share * len(words):
            values = {"word": word, "count": str(count), "words": str(len(words))}
            yield Hit(where=where, match=word, variant="repeated", values=values)
        elif (items := _longest_list(text)) >= self.min_items:
            yield Hit(where=where, match="list", values={"items": str(items)})


def _judged(skill: Skill) -> str:
    """Return the description if a model chooses by it and its words can be judged."""
    text = (skill.description or "").strip()
    return "" if skill.is_hidden or skill.problem or _OTHER_SCRIPT.search(text) else text


def _is_vague(text: str, name: str) -> bool:
    """Say whether fewer than three words are left without common ones, or none but those of the name."""
    telling = {_plain(word) for word in _WORD.findall(text.lower()) if len(word) > 1 and word not in _STOP}
    return len(telling) < 3 or telling <= {_plain(word) for word in name.lower().split("-")}


def _plain(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def _longest_list(text: str) -> int:
    """Count the items of one to three words that follow each other in one sentence, with commas between."""
    longest = 0
    for sentence in re.split(r"[.:!?](?:\s|$)", text):
        current = 0
        for item in re.split(r"[,;|]", sentence):
            current = current + 1 if 0 < len(item.split()) <= 3 else 0
            longest = max(longest, current)
    return longest


# --- skills against each other ----------------------------------------------------


class DuplicateName(LibraryCheck, kw_only=True, rename="kebab"):
    """Two skills of one folder of skills have the same name.

    Plugins, clients and translations have folders of their own: there the same name is meant.
    """

    def __call__(self, library: Library) -> Iterator[Hit]:
        """Give each later skill, with the first one of that name."""
        first: dict[tuple[str, str], Listed] = {}
        for skill in library.skills:
            other = first.setdefault((_home(skill.path), skill.name.lower()), skill)
            if skill.name and other is not skill:
                values = {"name": skill.name, "other": other.name_at.path}
                yield Hit(where=skill.name_at, match=skill.name, values=values)


def _home(path: str) -> str:
    """Return the folder of skills that a skill lies in: what ends in the last `skills`, or the root."""
    parts = posixpath.dirname(path).split("/")
    last = max((at for at, part in enumerate(parts) if part == "skills"), default=-1)
    return "/".join(parts[: last + 1])


class OverlappingDescriptions(LibraryCheck, kw_only=True, rename="kebab"):
    """The descriptions of two skills share many of their rare words.

    The measure is the cosine of their words, each weighted with how few skills of the repository use it.
    """

    min_similarity: float = 0.3
    min_shared: int = 6

    def __call__(self, library: Library) -> Iterator[Hit]:
        """Give each skill that is too near to an earlier one, with the nearest."""
        skills = [s for s in library.skills if not s.hidden and not _OTHER_SCRIPT.search(s.description)]
        words = [_words(skill.description) for skill in skills]
        weights = _weights(words)
        norms = [math.sqrt(sum(weights[word] ** 2 for word in each)) for each in words]
        for at, candidates in enumerate(_candidates(words, weights)):
            scores = {
                other: sum(weights[word] ** 2 for word in words[at].keys() & words[other].keys())
                / (norms[at] * norms[other])
                for other in candidates
                if skills[other].name != skills[at].name  # a copy for another client or language
            }
            best = max(scores, key=lambda other: scores[other], default=at)
            shared = sorted(words[at].keys() & words[best].keys(), key=lambda word: (-weights[word], word))
            if best != at and scores[best] >= self.min_similarity and len(shared) >= self.min_shared:
                yield _overlap(skills[at], skills[best], [words[at][word] for word in shared])


def _words(text: str) -> dict[str, str]:
    """Return the telling words of a text in plain form, each with how it is written."""
    return {_plain(word): word for word in _WORD.findall(text.lower()) if len(word) > 2 and word not in _STOP}


def _weights(words: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Weigh rare words more: of few skills all much the same, a word that all of many use nearly nothing."""
    counts = Counter(word for each in words for word in each)
    return {word: math.log((len(words) + 5) / (count + 1)) for word, count in counts.items()}


def _candidates(words: Sequence[Mapping[str, str]], weights: Mapping[str, float]) -> Iterator[Sequence[int]]:
    """Give for each skill the earlier ones that share one of its rarest words: as many pairs as skills."""
    index: dict[str, list[int]] = defaultdict(list)
    for at, each in enumerate(words):
        rarest = sorted(each, key=lambda word: (-weights[word], word))[:MAX_RARE]
        yield sorted({other for word in rarest for other in index[word][-MAX_CANDIDATES:]})
        for word in each:
            index[word].append(at)


def _overlap(skill: Listed, other: Listed, shared: Sequence[str]) -> Hit:
    values = {"other": other.name, "words": quoted(shared[:MAX_SHOWN_WORDS])}
    values["path"] = other.name_at.path
    return Hit(where=skill.description_at, match=other.name, values=values)
