"""Machine paths and fixed output paths: what is found, and the traps where nothing is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skillgate.core import Finding
from skillgate.lint.sift import merged

Lint = Callable[..., tuple[Finding, ...]]
Hits = Callable[..., list[str]]
HEAD = "---\nname: demo\ndescription: Turns notes into prose. Use for notes.\n---\n"


def mine(found: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in found if finding.rule == "hardcoded-path"]


MACHINE_PATHS = [
    ("#!/Users/alice/.venv/bin/python", "5:3 warning hardcoded-path /Users/alice"),
    ("Run `python /home/alice/x.py` first.", "5:13 warning hardcoded-path /home/alice"),
    ("Start with `cd /Users/alice`.", "5:16 warning hardcoded-path /Users/alice"),
    ("It is in /mnt/c/Users/Alice/x.", "5:10 warning hardcoded-path /mnt/c/Users/Alice"),
    ("Open /c/Users/Alice/x in Git Bash.", "5:6 warning hardcoded-path /c/Users/Alice"),
    (r"It is in C:\Users\Alice\x.", r"5:10 warning hardcoded-path C:\Users\Alice"),
    (r'"C:\\Users\\Alice\\x"', r"5:2 warning hardcoded-path C:\\Users\\Alice"),
    ("See C:/Users/Alice/x.", "5:5 warning hardcoded-path C:/Users/Alice"),
    ("PATH=/usr/bin:/Users/alice/bin", "5:15 warning hardcoded-path /Users/alice"),
    ("open file:///Users/alice/x.html", "5:13 warning hardcoded-path /Users/alice"),
    ("```\n/home/alice/x\n```", "6:1 warning hardcoded-path /home/alice"),
    ("`/dev/null`, `#!/usr/bin/env python3`, see `/etc/hosts`, `/path/to/x`, `$HOME/x`, `~/x`", ""),
    ("`/home/<user>/x` `/home/$USER/x` `/home/{name}/x` `/home/user/x` `/Users/yourname/x` `/Users/*/x`", ""),
    (
        'GET /Users/alice/orders and https://x.org/home/alice/b and `href="/home/alice/x"` and /Users/123/x',
        "",
    ),
    ("The endpoint `/Users/search` lists them; go to /home/dashboard.", ""),
    ("`/home/node/app` `/home/runner/work` `/Users/Shared/x` `C:\\Users\\Public\\x`", ""),
    ("Never hardcode `/Users/alice/x`; avoid `/home/alice/x`.", ""),
    ("Do **not** write `/Users/alice/x` into a script.", ""),
    ("Grep for `/Users/` and `C:\\Users\\`.", ""),
]


@pytest.mark.parametrize(("body", "expected"), MACHINE_PATHS)
def test_machine_paths(hits: Hits, body: str, expected: str) -> None:
    assert [hit for hit in hits(body) if "hardcoded" in hit] == ([expected] if expected else [])


SHEBANGS = [
    ("#!/Users/alice/.venv/bin/python\n", ["1:3 warning hardcoded-path /Users/alice"]),
    ("#! /opt/homebrew/bin/python3\n", ["1:4 warning hardcoded-path /opt/homebrew/bin/python3"]),
    ("#!/opt/conda/envs/me/bin/python -u\n", ["1:3 warning hardcoded-path /opt/conda/envs/me/bin/python"]),
    ("#!/usr/bin/env python3\n", []),
    ("#!/bin/sh\n", []),
    ("#!/usr/local/bin/bash -e\n", []),
    ("#!/<venv>/bin/python\n", []),
    ("#![allow(dead_code)]\n", []),
    ("# not first\n#!/opt/homebrew/bin/python3\n", []),
]


@pytest.mark.parametrize(("script", "expected"), SHEBANGS)
def test_shebangs_of_bundled_scripts(lint: Lint, script: str, expected: list[str]) -> None:
    found = mine(lint(HEAD + "Run `scripts/a.py`.\n", files={"scripts/a.py": script}))
    assert [f"{f.where.line}:{f.where.column} {f.severity} {f.rule} {f.match}" for f in found] == expected
    assert {f.where.path for f in found} <= {"skills/demo/scripts/a.py"}


OUTPUT_PATHS = [
    ("Write the report to `/app/output/report.json`.", "5:22 note hardcoded-path /app/output/report.json"),
    ("Save it as `.github/workflows/ci.yml`.", "5:13 note hardcoded-path .github/workflows/ci.yml"),
    ("**Save plans to:** `docs/plans/plan.md`", "5:21 note hardcoded-path docs/plans/plan.md"),
    ("**Location:** `memory/decisions.md`", "5:16 note hardcoded-path memory/decisions.md"),
    ("Output file: `reports/audit.md`", "5:15 note hardcoded-path reports/audit.md"),
    ("All answers go to `docs/answers.md`.", "5:20 note hardcoded-path docs/answers.md"),
    ("Results are stored in docs/results.csv.", "5:23 note hardcoded-path docs/results.csv"),
    ("Put decisions in `docs/decisions/`.", "5:19 note hardcoded-path docs/decisions/"),
    ("Save it as `docs/plans/<date>.md`.", "5:13 note hardcoded-path docs/plans/<date>.md"),
    (
        "Save it as `a/b.md`.\n\nPut the rest in `c/d.md` and `e/f.md`; save it as `a/b.md`.",
        "5:13 note hardcoded-path a/b.md, c/d.md",
    ),
    ("Save it as `docs/plan.md`, unless the task names another place.", ""),
    ("Save it as `docs/plan.md`.\n\n- The place that the user gives comes first.", ""),
    ("Save it as `docs/a.md`, where the user does not override it.\n\n# B\n\nSave it to `docs/b.md`.", ""),
    (
        "# A\n\nSave it as `docs/plan.md`.\n\n# B\n\nThe place that the user gives comes first.",
        "7:13 note hardcoded-path docs/plan.md",
    ),
    ("Save it under `<folder>/plan.md`, `$OUT/x.md` or in `plan.md`.", ""),
    ("Save it under `out/**/*.md` or `**/x.md`.", ""),
    ("Never write to `docs/plan.md`. Do **not** save results in `out/x.json`.", ""),
    ("The sandbox can't write to `/app/out/x.md`.", ""),
    ("Send the output to `/dev/null` or write it to `/tmp/x.json`.", ""),
    ("Read `docs/plan.md`. The output of `src/a.py` is stored in memory.", ""),
    ("The path: `src/a.py`", ""),
    ("```\nwrite the report to `out/report.json`\n```", ""),
    ("```sh\nmake report > out/report.json\n```", ""),
]


@pytest.mark.parametrize(("body", "expected"), OUTPUT_PATHS)
def test_output_paths_without_a_suite(hits: Hits, body: str, expected: str) -> None:
    assert [hit for hit in hits(body) if "hardcoded" in hit] == ([expected] if expected else [])


def test_what_the_skill_has_itself_is_no_output(lint: Lint) -> None:
    text = HEAD + "The rules are stored in `docs/rules.md`.\n"
    assert [f.match for f in mine(lint(text))] == ["docs/rules.md"]
    assert mine(lint(text, files={"docs/rules.md": "# Rules\n"})) == []


TASK = ("kit/coverage", "reports/report.json")
COLLISIONS = [
    ("Write the report to `/app/output/report.json`.", "SKILL.md:5 puts output at `/app/output/report.json`"),
    ("```sh\nmake report > out/report.json\n```", "SKILL.md:6 puts output at `out/report.json`"),
    ("```sh\nmake report -o out/report.json\n```", "SKILL.md:6 puts output at `out/report.json`"),
    ("```sh\nmake | tee out/report.json\n```", "SKILL.md:6 puts output at `out/report.json`"),
    ('```sh\nmake --output-file="out/report.json"\n```', "SKILL.md:6 puts output at `out/report.json`"),
    ("```sh\nmake report > reports/report.json\n```", None),
    ("```py\nif a >= out/report.json: pass\n```", None),
    ("Write it to `/srv/app/reports/report.json`.", None),
]


@pytest.mark.parametrize(("body", "said"), COLLISIONS)
def test_an_output_path_collides_with_a_task(lint: Lint, body: str, said: str | None) -> None:
    found = [f.message for f in mine(lint(HEAD + body, tasks=[TASK])) if f.severity == "warning"]
    wanted = "; task `kit/coverage` wants it in `reports/` (fixtures/kit/tasks/coverage/task.yml:12)"
    assert found == ([said + wanted] if said else [])


def test_a_reference_collides_too(lint: Lint) -> None:
    text = HEAD + "See [output](references/output.md) for where results go.\n"
    output = "# Output\n\nWrite it to `out/report.json`.\n\n```\nsave to `a/report.json`\n```\n"
    files = {"references/output.md": output}
    (found,) = mine(lint(text, files=files, tasks=[TASK]))
    assert (found.where.path, found.where.line) == ("skills/demo/references/output.md", 3)
    assert found.message.startswith(
        "references/output.md:3 puts output at `out/report.json`; task `kit/coverage`"
    )
    assert mine(lint(text, files=files)) == []


def test_a_home_folder_is_found_at_each_place(lint: Lint) -> None:
    text = HEAD + "/Users/alice/a\n/Users/alice/b /Users/alice/c\n/Users/bob/d\n"
    found = mine(lint(text, files={"run.sh": "#!/Users/alice/bin/sh\n", "logo.png": "/Users/alice/x"}))
    assert [(str(f.where), f.match) for f in found] == [
        ("skills/demo/SKILL.md:5:1", "/Users/alice"),
        ("skills/demo/SKILL.md:6:1", "/Users/alice"),
        ("skills/demo/SKILL.md:6:16", "/Users/alice"),
        ("skills/demo/SKILL.md:7:1", "/Users/bob"),
        ("skills/demo/run.sh:1:3", "/Users/alice"),
    ]
    assert {f.message for f in merged(found) if f.where.line == 5} == {
        "`/Users/alice` is a folder of one machine; on any other the instruction may fail (also on line 6)"
    }
