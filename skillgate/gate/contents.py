"""The runs of a journal -> which of them differ in nothing that decides them, and whose they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from skillgate.bench.history import Scored
from skillgate.bench.journal import Who
from skillgate.core import SCRIPTED_AGENT
from skillgate.document import nearest
from skillgate.errors import PrerequisiteError, UsageError
from skillgate.stats.calibrate import Content, Score
from skillgate.values import usd

NOT_MEASURED = "runs of the scripted agent show the machinery and measure no suite"
ASK = "Add --scripted to see it all the same."
HOW = "Make them with `skillgate calibrate --run --skill DIR`, or gate with more repeats."

T = TypeVar("T", bound=Hashable)


class Wanted(NamedTuple):
    """Which runs to take; what is not named is where most runs are.

    `scripted` asks for runs that measure nothing.
    """

    suites: tuple[str, ...] = ()
    agent: str | None = None
    model: str | None = None
    scripted: bool = False


class Picked(NamedTuple):
    """The runs of one agent, model and version of suites (digests by name), and what `notes` left aside."""

    who: Who
    suites: dict[str, str]
    contents: tuple[Content, ...]
    notes: tuple[str, ...]


def pick(scored: Sequence[Scored], wanted: Wanted) -> Picked:
    """Choose runs and put those together that differ in nothing.

    Raises: UsageError when nothing is as named, or everything is scripted; PrerequisiteError when there is
    nothing.
    """
    runs = [one for one in scored if one.run.pass_ratio is not None]
    who, others = _who(runs, wanted)
    mine = _of_suites([one for one in runs if one.who == who], wanted.suites)
    arms = _arms(mine)
    kept, unused = _one_version(arms)
    contents = _contents(kept, mine)
    known = sum(arm.runs for arm in arms if arm.names == kept[0].names)
    old = known - sum(len(scores) for content in contents for scores in content.values())
    changed = [f"Not used: {old} runs of another version."] if old > 0 else []
    return Picked(who, dict(kept[0].suites), tuple(contents), (*others, *unused, *changed))


def refuse_scripted(wanted: Wanted) -> None:
    """Refuse the scripted agent unless it is asked for. Raises: UsageError."""
    if wanted.agent == SCRIPTED_AGENT and not wanted.scripted:
        raise UsageError(NOT_MEASURED, ASK)


Key = tuple[str, str]  # a content and a task: its runs are exchangeable


class _Arm(NamedTuple):
    """One arm of one evaluation: the version of its suites, and its runs with their places in the journal."""

    suites: tuple[tuple[str, str], ...]
    keys: tuple[Key, ...]
    runs: int
    last: int

    @classmethod
    def of(cls, places: Sequence[tuple[int, Scored]]) -> _Arm:
        suites = sorted({(suite_of(one.run.cell.task), one.suite) for _, one in places})
        keys = dict.fromkeys(_key(one) for _, one in places)
        return cls(tuple(suites), tuple(keys), len(places), places[-1][0])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({name for name, _ in self.suites}))


def _arms(runs: Sequence[Scored]) -> list[_Arm]:
    found: dict[str, list[tuple[int, Scored]]] = defaultdict(list)
    for place, one in enumerate(runs):
        found[one.arm].append((place, one))
    return [_Arm.of(places) for places in found.values()]


def _contents(arms: Sequence[_Arm], runs: Sequence[Scored]) -> list[Content]:
    """Put runs together that differ in nothing, of all arms; this place alone knows which those are.

    What a content digest covers may end with a task. An arm says which belong together; an arm that shares
    some with another one is of the same skill.
    """
    pools: dict[Key, list[Score]] = defaultdict(list)
    for one in runs:
        pools[_key(one)].append(Score(one.run.pass_ratio or 0.0, usd(one.run.usage.usd_micros)))
    contents: list[dict[str, Key]] = []
    for arm in sorted(arms, key=lambda arm: -arm.last):
        mine = {task: (content, task) for content, task in arm.keys}
        same = next((known for known in contents if known.items() & mine.items()), None)
        if same is None:
            contents.append(mine)
        else:
            same.update({task: key for task, key in mine.items() if task not in same})
    return [{task: pools[key] for task, key in content.items()} for content in contents]


def _key(one: Scored) -> Key:
    return one.content, one.run.cell.task


def _who(runs: Sequence[Scored], wanted: Wanted) -> tuple[Who, list[str]]:
    """Return the agent and the model with most runs, or those that are named, and which others there are."""
    refuse_scripted(wanted)
    fitting = [
        one.who
        for one in runs
        if (one.who.agent == SCRIPTED_AGENT) is wanted.scripted
        and wanted.agent in (None, one.who.agent)
        and wanted.model in (None, one.who.model)
    ]
    if not fitting and runs and all(one.who.agent == SCRIPTED_AGENT for one in runs):
        raise UsageError(NOT_MEASURED, ASK)
    if not fitting:
        known = ", ".join(sorted({f"{one.who.agent} with {one.who.model}" for one in runs}))
        raise PrerequisiteError(f"the journal has no such runs (scored: {known or 'none'})", HOW)
    who, *others = _by_count(fitting)
    return who, [f"Not used: {n} runs of {o.agent} with {o.model}." for o, n in _counted(fitting, others)]


def _of_suites(runs: Sequence[Scored], names: Sequence[str]) -> list[Scored]:
    known = {suite_of(one.run.cell.task) for one in runs}
    for name in names:
        if name not in known:
            raise UsageError(f"the journal has no runs of the suite `{name}`", nearest(name, known))
    return [one for one in runs if not names or suite_of(one.run.cell.task) in names]


def _one_version(arms: Sequence[_Arm]) -> tuple[list[_Arm], list[str]]:
    """Return the arms of those suites that have most runs, as they are in the newest of them.

    Suites that are judged together make one gate: records of other combinations say nothing about it.
    """
    names = [name for arm in arms for name in [arm.names] * arm.runs]
    chosen, *others = _by_count(names)
    same = [arm for arm in arms if arm.names == chosen]
    newest = max(same, key=lambda arm: arm.last).suites
    notes = [
        f"Not used: {n} runs of {', '.join(o)}; name it with --suite." for o, n in _counted(names, others)
    ]
    return [arm for arm in same if arm.suites == newest], notes


def suite_of(task: str) -> str:
    """Return the name of the suite that a task is of."""
    return task.partition("/")[0]


def _by_count(values: Iterable[T]) -> list[T]:
    """Return the values without repetition, the most frequent first."""
    return [value for value, _ in Counter(values).most_common()]


def _counted(values: Sequence[T], which: Sequence[T]) -> list[tuple[T, int]]:
    return [(value, values.count(value)) for value in which]
