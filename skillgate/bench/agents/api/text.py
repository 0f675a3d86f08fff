"""The protocol for models without tools: they see files, and answer with whole files in fenced blocks.

Nobody reads on demand here, so the skill is in the prompt, and `skill_used` says that it was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath
from typing import Any

from skillgate.bench.agents.api.blocks import parse
from skillgate.bench.agents.api.calls import End, Question, Said, Stop
from skillgate.bench.agents.api.files import FileProblem, Hands
from skillgate.bench.agents.api.trace import Trace
from skillgate.bench.failure import Failure
from skillgate.bench.suite import Task
from skillgate.skill import Skill
from skillgate.tokens import count

MAX_LISTED = 200
MAX_READ = 40
SYSTEM = """\
You change files of a repository. Answer with the whole new content of each file that you create or change, \
in a fenced code block below a heading with the path of the file. Say nothing else."""
_LAST = """
# Answer

Write all of {paths}: for each a heading with its path, as above, then a code block with its content."""
_AGAIN = "Your answer has no file. Write each file that you change as a whole, headed by its path, as I said."
_SKILL = 'Follow this skill where it helps: {description}\n\n<skill name="{name}">\n{body}\n</skill>\n\n'


def compose(
    names: Sequence[str],
    contents: Sequence[tuple[str, str]],
    skill: Skill | None,
    prompt: str,
    wanted: Sequence[str],
) -> str:
    """Return the prompt; arms differ in nothing but the skill, which stands before the task.

    What is asked for stands at the end: a small model goes on with what it has read last.
    """
    listed = "".join(f"- {name}\n" for name in names[:MAX_LISTED])
    shown = "".join(_shown(name, text) for name, text in contents)
    paths = ", ".join(f"`{path}`" for path in wanted)
    files = f"# Files of the repository\n\n{listed}\n# What is in them\n\n{shown}"
    return f"{files}{_given(skill)}# Task\n\n{prompt.rstrip()}\n{_LAST.format(paths=paths)}"


def _given(skill: Skill | None) -> str:
    if skill is None:
        return ""
    description = " ".join((skill.description or "").split())
    return _SKILL.format(
        description=description, name=skill.name or skill.folder_name, body=skill.body.strip()
    )


def _shown(name: str, text: str) -> str:
    """Return a file as answers are to show it, its fence longer than any in the text."""
    fence = max(re.findall(r"`{3,}", text), key=len, default="``") + "`"
    return f"### {name}\n\n{fence}{PurePosixPath(name).suffix[1:]}\n{text.rstrip()}\n{fence}\n\n"


def ranked(names: Collection[str], task: Task) -> list[str]:
    """Return the files, those first that the task is most likely about; the same in every arm."""
    folders = {str(PurePosixPath(path).parent) for path in task.deliverables}

    def rank(name: str) -> tuple[int, str]:
        if name in task.deliverables:
            return 0, name
        if re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", task.prompt):
            return 1, name
        return (2 if str(PurePosixPath(name).parent) in folders else 3), name

    return sorted(names, key=rank)


class TextTalk:
    """One task: a question, an answer with files, once more when it has none."""

    def __init__(
        self, ask: Callable[[Question], Said], hands: Hands, trace: Trace, shown_tokens: int
    ) -> None:
        self._ask = ask
        self._hands = hands
        self._trace = trace
        self._shown_tokens = shown_tokens

    def run(self, question: Question, task: Task, prompt: str, skill: Skill | None, max_turns: int) -> str:
        """Do the task; return what there is to say of it. Raises: End, SandboxFailure."""
        names = self._hands.names()
        contents = self._contents(ranked(names, task))
        content = compose(names, contents, skill, prompt, task.deliverables)
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        self._trace.add("start", system=question.system, prompt=content)
        known = {*names, *task.deliverables}
        for _ in range(min(max_turns, 2)):
            said = self._ask(question._replace(messages=messages))
            self._trace.add("answer", stop=said.stop.name.lower(), content=said.blocks)
            if files := self._files(said, known, task.deliverables):
                return self._write(files, said)
            if said.text:  # an empty one may not be sent back
                messages.append({"role": "assistant", "content": said.text})
            messages.append({"role": "user", "content": _AGAIN})
        return "it gave no file"

    def _contents(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Read files until there is no room for more."""
        rest, found = self._shown_tokens, list[tuple[str, str]]()
        for name in names[:MAX_READ]:
            try:
                text = self._hands.read(name).decode()
            except (FileProblem, UnicodeDecodeError):
                continue
            weight = count(text) if len(text) < 8 * rest else rest + 1
            if weight <= rest:
                rest -= weight
                found.append((name, text))
        return found

    def _files(self, said: Said, known: Collection[str], wanted: Sequence[str]) -> dict[str, str]:
        if said.stop is Stop.REFUSED:
            raise End(Failure.AGENT_REFUSED)
        if said.stop is Stop.FULL:
            raise End(Failure.AGENT_TURNS, "the context of the model is full")
        only = wanted[0] if len(wanted) == 1 else None
        return parse(said.text, known, only, is_cut=said.stop is Stop.CUT)

    def _write(self, files: dict[str, str], said: Said) -> str:
        refused = []
        for path, text in files.items():
            try:
                self._put(path, text)
                self._trace.add("file", path=path)
            except FileProblem as problem:
                refused.append(str(problem))
                self._trace.add("file", path=path, refused=str(problem))
        if said.stop is Stop.CUT:
            raise End(Failure.AGENT_TURNS, "its answer was cut at the most tokens")
        return "; ".join(refused)[:200]

    def _put(self, path: str, text: str) -> None:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or ".git" in parts[:1]:
            raise FileProblem(f"{path} leads out of the repository")
        self._hands.write(str(PurePosixPath(path)), text.encode("utf-8", "replace"), follow=False)
