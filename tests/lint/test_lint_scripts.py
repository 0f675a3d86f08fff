"""What a skill lets an agent run: unpinned programs, prompts that hang, scripts that do not start."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

import pytest

from skillgate.core import Finding
from skillgate.lint.engine import lint_skill
from skillgate.lint.rule import Rule
from skillgate.skill import Files, parse

HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n"
RULES = frozenset({"interactive-prompt", "script-start", "unpinned-runner"})
Told = Callable[..., list[str]]


@pytest.fixture
def told(rules: tuple[Rule, ...]) -> Told:
    """Lint a body with the rules of this file alone; `programs` may be executed."""
    own = [rule for rule in rules if rule.id in RULES]

    def run(
        body: str, files: Mapping[str, str] | None = None, programs: Collection[str] | None = None
    ) -> list[str]:
        raw = {name: text.encode() for name, text in {"SKILL.md": HEAD + body, **(files or {})}.items()}
        return [short(f) for f in lint_skill(parse(Files.from_map(raw, programs), "demo"), own)]

    return run


def short(finding: Finding) -> str:
    where = finding.where
    place = f"{where.path.removeprefix('demo/')}:{where.line}:{where.column}"
    return f"{place} {finding.severity} {finding.rule} {finding.match}".replace("SKILL.md:", "", 1)


RUNNERS = [
    ("`npx --yes tool@latest build`", ["5:12 tool@latest"]),
    ("`npx tool@latest`, `npx -y tool@next`", ["5:6 tool@latest", "5:28 tool@next"]),
    ("`npx -y @acme/tool build`", ["5:9 @acme/tool"]),
    ("`npm exec --yes -- tool`", ["5:20 tool"]),
    ("`uvx tool`, `uv tool run other`, `pipx run third`", ["5:6 tool", "5:26 other", "5:44 third"]),
    ("`bunx tool` and `pnpm dlx @acme/other build`", ["5:7 tool", "5:27 @acme/other"]),
    ("`go run github.com/acme/tool@latest`", ["5:9 github.com/acme/tool@latest"]),
    ("`deno run npm:tool@latest`", ["5:11 npm:tool@latest"]),
    ('```json\n{"command": "npx", "args": ["-y", "@acme/server"]}\n```', ["6:36 @acme/server"]),
    ('```json\n{"command": "uvx", "args": ["acme-server"]}\n```', ["6:30 acme-server"]),
    ("`npx tsc --noEmit`, `npx playwright test`, `npx eslint@9 .`, `npx -y tool@1.4.2`", []),
    ("`uvx ruff@0.8.0 check`, `pipx run 'black==24.10.0'`, `uvx --from a==1 b`, `go run ./cmd/x`", []),
    ('```json\n{"command": "npx", "args": ["-y", "@acme/server@1.2.3"]}\n```', []),
    ("uvx is a runner. Use uvx to run tools. npx -y <package>", []),
    ("Never run `npx -y tool` without a version. Instead of `uvx tool` pin it.", []),
    ("`npm install -g tool`, `pip install tool`", []),
]


@pytest.mark.parametrize(("body", "expected"), RUNNERS)
def test_programs_of_no_certain_version(told: Told, body: str, expected: list[str]) -> None:
    places = [hit.partition(" ") for hit in expected]
    assert told(body) == [f"{place} note unpinned-runner {match}" for place, _, match in places]


def test_a_program_is_told_once_in_a_skill_also_in_scripts_and_other_files(told: Told) -> None:
    files = {"a.md": "`npx tool@latest`\n", "run.sh": "#!/bin/sh\nnpx -y other\nnpx tool@latest\n"}
    assert told("`npx tool@latest`\n\n`npx tool@latest x`\n", files) == [
        "5:6 note unpinned-runner tool@latest",
        "run.sh:2:8 note unpinned-runner other",
    ]


PROMPTS = [
    ("Join them: `git rebase -i main`.", ["5:13 git rebase -i main"]),
    ("```\ngit rebase --interactive HEAD~3\n```", ["6:1 git rebase --interactive HEAD~3"]),
    ("```\n$ git add -p\ngit add -i\n```", ["6:3 git add -p", "7:1 git add -i"]),
    ("```\nnpm init\nnpm init -y\n```", ["6:1 npm init"]),
    ("```\ngh auth login\ndocker login\naws configure  # once\n```",
     ["6:1 gh auth login", "7:1 docker login", "8:1 aws configure"]),
    ("- `kubectl edit deployment/x`, `crontab -e`", ["5:4 kubectl edit deployment/x", "5:33 crontab -e"]),
    ("```\ngh auth login --with-token < token\ndocker login -u x --password-stdin\naws configure list\n```",
     []),
    ("```\nGIT_SEQUENCE_EDITOR=true git rebase -i main\nnpm init @acme/x -- --yes\n```", []),
    ("Do not use `git add -p`. Ask the user to run `gh auth login`.", []),
    ("You log in yourself: `gh auth login`. The login page has a git rebase -i button.", []),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), PROMPTS)
def test_commands_that_wait_for_somebody(told: Told, body: str, expected: list[str]) -> None:
    places = [hit.partition(" ") for hit in expected]
    wanted = [f"{place} warning interactive-prompt {match}" for place, _, match in places]
    assert told(body) == wanted


def test_a_prompt_is_told_once_and_not_in_a_readme(told: Told) -> None:
    files = {"more.md": "`git add -p`\n", "README.md": "`git rebase -i`\n"}
    assert told("`git add -p`\n", files) == ["5:2 warning interactive-prompt git add -p"]


SCRIPTS = [
    ("x.py", 'name = input("Name: ")\n', ["x.py:1:8 input("]),
    ("x.py", "import getpass\nkey = getpass.getpass()\n", ["x.py:2:7 getpass.getpass("]),
    ("x.py", "# input(\nx = 1\nif click.confirm('y'): pass\n", ["x.py:3:4 click.confirm("]),
    ("x.sh", "read -p 'Name: ' name\n", ["x.sh:1:1 read -p"]),
    ("x.sh", "echo 'Go on? [y/N]'\nread answer\n", ["x.sh:1:14 [y/N]"]),
    ("x.js", "rl.question('Name?', f)\n", ["x.js:1:3 .question("]),
    ("x.ps1", "$name = Read-Host 'Name'\n", ["x.ps1:1:9 Read-Host"]),
    ("x.py", "name = get_input('x') or form.input('y')\n", []),
    ("x.py", "name = input() if sys.stdin.isatty() else ''\n", []),
    ("x.sh", "[ \"$1\" = --yes ] || read -p 'Sure? [y/N]' answer\n", []),
    ("x.sh", 'while read -r line; do echo "$line"; done\n', []),
    ("x.json", '{"a": "input("}\n', []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), SCRIPTS)
def test_scripts_that_wait_for_somebody(told: Told, name: str, text: str, expected: list[str]) -> None:
    wanted = [hit.replace(" ", " note interactive-prompt ", 1) for hit in expected]
    assert told(f"Run `python {name}`.", {name: text}) == wanted


RUN = "```bash\n./scripts/x.sh now\n```\n"
STARTS = [
    (RUN, "echo 1\n", None, ["6:3 warning script-start scripts/x.sh"]),
    (RUN, "#!/bin/sh\n", None, []),
    (RUN, "#!/bin/sh\n", {"scripts/x.sh"}, []),
    (RUN, "#!/bin/sh\n", set(), ["6:3 warning script-start scripts/x.sh"]),
    (RUN, "echo 1\n", set(), ["6:3 warning script-start scripts/x.sh"]),
    (RUN, "", set(), []),
    (RUN + "Run `chmod +x scripts/x.sh` once.", "#!/bin/sh\n", set(), []),
    ("Run `./scripts/x.sh now`.", "echo 1\n", None, ["5:8 warning script-start scripts/x.sh"]),
    ("```\n$ scripts/x.sh\n```", "echo 1\n", None, ["6:3 warning script-start scripts/x.sh"]),
    ("```\nbash scripts/x.sh\ncat scripts/x.sh\n```", "echo 1\n", set(), []),
    ("The script is `scripts/x.sh`, see scripts/x.sh.\nscripts/x.sh\n", "echo 1\n", set(), []),
    ("```\n./scripts/y.sh\n```", "echo 1\n", set(), []),
]


@pytest.mark.parametrize(("body", "text", "programs", "expected"), STARTS)
def test_scripts_that_are_run_by_their_path(
    told: Told, body: str, text: str, programs: set[str] | None, expected: list[str]
) -> None:
    assert told(body, {"scripts/x.sh": text}, programs) == expected


def test_why_a_script_does_not_start(rules: tuple[Rule, ...]) -> None:
    body = "```\n./a.sh\n./b.py\n./c.sh\n./d.sh\n```\n"
    raw = {"SKILL.md": HEAD + body, "a.sh": "x", "b.py": "x", "c.sh": "#!/bin/sh", "d.sh": "#!/bin/sh"}
    files = Files.from_map({name: text.encode() for name, text in raw.items()}, ["d.sh"])
    found = lint_skill(parse(files, "demo"), [rule for rule in rules if rule.id == "script-start"])
    assert [f.message for f in found] == [
        "`a.sh` is run by its path (also `b.py`) but has no `#!` line;"
        " the shell may run it as something else",
        "`c.sh` is run by its path but nobody may execute it; the shell may refuse",
    ]


HOSTILE = {
    "flags": "npx " + "-y " * 300_000,
    "commands": "`git rebase -i `" * 60_000,
    "logins": " login" * 160_000,
    "calls": "#input(\n" * 110_000,
    "packages": "uvx " + "a.b" * 300_000,
    "paths": "./a/" * 220_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(name: str, told: Told) -> None:
    started = time.process_time()
    told(HOSTILE[name], {"x.py": HOSTILE[name], "more.md": HOSTILE[name], "run": ""})
    assert time.process_time() - started < 5  # no benchmark: to tell a hang on any machine
