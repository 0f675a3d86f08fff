"""Every workflow that somebody may copy, and action.yml, under three linters, and under what no linter knows.

No linter needs the network. Each must also find a fault that is planted, or it would prove nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
EXAMPLES = ROOT / "examples" / "workflows"
NAMES = ("forks.yml", "pull-request.yml", "record.yml", "schedule.yml")
TEXTS = {name: (EXAMPLES / name).read_text(encoding="utf-8") for name in NAMES}
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
README = re.findall(r"^```yaml\n(name: .*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
PAGE = (ROOT / "docs" / "github.md").read_text(encoding="utf-8")
# `on` is a boolean in YAML 1.1
FLOWS: dict[str, dict[Any, Any]] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}


class Job(NamedTuple):
    """One job of one workflow."""

    workflow: str
    name: str
    body: dict[str, Any]

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.body["steps"])

    @property
    def writes(self) -> bool:
        return "write" in self.body["permissions"].values()

    @property
    def has_secret(self) -> bool:
        return "secrets." in json.dumps(self.body)

    @property
    def calls(self) -> list[str]:
        return [step["uses"].partition("@")[0] for step in self.steps]

    @property
    def mode(self) -> str:
        (step,) = (step for step in self.steps if step["uses"].startswith("skillgate/"))
        return str(step.get("with", {}).get("mode", "gate"))


JOBS = [Job(flow, name, job) for flow in NAMES for name, job in FLOWS[flow]["jobs"].items()]
BY_NAME = {job.name: job for job in JOBS}


# --- what the linters say -----------------------------------------------------------


def lay_out(folder: Path, files: dict[str, str]) -> list[str]:
    """Write files as they lie in a repository; return their paths. A linter tells them by where they are."""
    paths = []
    for name, text in files.items():
        path = folder / ("" if name == "action.yml" else ".github/workflows") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return paths


def zizmor(paths: list[str], *options: str) -> list[tuple[str, str]]:
    """Return each finding as the file's name and the audit."""
    command = [str(BIN / "zizmor"), "--offline", "--no-config", "--no-progress", "--format", "json", *options]
    done = subprocess.run([*command, *paths], capture_output=True, text=True)
    assert done.stdout, done.stderr
    return sorted(
        (Path(found["locations"][0]["symbolic"]["key"]["Local"]["verbatim_path"]).name, found["ident"])
        for found in json.loads(done.stdout)
    )


def actionlint(paths: list[str]) -> list[tuple[str, str]]:
    """Return each finding on workflows as the file's name and the kind; scripts go through shellcheck."""
    given = [path for path in paths if Path(path).name != "action.yml"]
    command = [str(BIN / "actionlint"), "-format", "{{json .}}", "-shellcheck", str(BIN / "shellcheck")]
    done = subprocess.run([*command, "-pyflakes", "", *given], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return (
        [(Path(found["filepath"]).name, found["kind"]) for found in json.loads(done.stdout)] if given else []
    )


def schema(paths: list[str]) -> list[tuple[str, str]]:
    """Return each error against GitHub's own schemas as the file's name and the place."""
    found: list[tuple[str, str]] = []
    for path in paths:
        kind = "actions" if Path(path).name == "action.yml" else "workflows"
        command = [
            str(BIN / "check-jsonschema"),
            "--builtin-schema",
            f"vendor.github-{kind}",
            "-o",
            "JSON",
            path,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        said = json.loads(done.stdout)
        assert done.returncode == (said["status"] != "ok"), done.stderr
        found += [(Path(path).name, error["path"]) for error in said.get("errors", ())]
    return found


def shellcheck(text: str) -> str:
    """Return what is wrong with the scripts of an action."""
    scripts = [step["run"] for step in yaml.safe_load(text)["runs"]["steps"] if "run" in step]
    command = [str(BIN / "shellcheck"), "-s", "bash", "-f", "gcc", "-"]
    return "".join(
        subprocess.run(command, input=one, capture_output=True, text=True).stdout for one in scripts
    )


ALL = {**TEXTS, "action.yml": ACTION, "readme.yml": "".join(README)}


@pytest.mark.parametrize("persona", ["regular", "auditor"])
def test_zizmor_finds_nothing(tmp_path: Path, persona: str) -> None:
    # a workflow to copy from the README is short: the auditor would have a name and a group in it
    files = {name: text for name, text in ALL.items() if persona == "regular" or name != "readme.yml"}
    assert zizmor(lay_out(tmp_path, files), "--persona", persona) == []


def test_what_zizmor_is_told_to_ignore_is_what_the_page_explains(tmp_path: Path) -> None:
    unpinned = "unpinned-uses"
    assert zizmor(lay_out(tmp_path, ALL), "--no-ignores") == [
        *(("forks.yml", unpinned), ("forks.yml", unpinned)),
        ("pull-request.yml", unpinned),
        ("readme.yml", unpinned),
        *(("record.yml", "dangerous-triggers"), ("record.yml", unpinned)),
        ("schedule.yml", unpinned),
    ]
    assert {f"`{audit}`" for audit in (unpinned, "dangerous-triggers")} <= set(re.findall("`[a-z-]+`", PAGE))


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    assert actionlint(lay_out(tmp_path, ALL)) == []


def test_the_schemas_of_github_find_nothing(tmp_path: Path) -> None:
    assert schema(lay_out(tmp_path, ALL)) == []


def test_shellcheck_finds_nothing() -> None:
    assert shellcheck(ACTION) == ""


FAULTS = [
    (
        "action.yml",
        "run: PYTHONPATH",
        'run: echo "${{ inputs.model }}" && PYTHONPATH',
        zizmor,
        "template-injection",
    ),
    ("action.yml", "cache@9255dc7a253b0ccc959486e2bca901246202afeb", "cache@v5", zizmor, "unpinned-uses"),
    ("action.yml", "default: gate", "defualt: gate", schema, "$.inputs.mode"),
    ("pull-request.yml", "          persist-credentials: false\n", "", zizmor, "artipacked"),
    ("pull-request.yml", "runs-on:", "run-on:", schema, "$.jobs.gate"),
    (
        "pull-request.yml",
        "github.event_name == 'merge_group'",
        "github.evnt == 'x'",
        actionlint,
        "expression",
    ),
    ("record.yml", "[dangerous-triggers]", "[unpinned-uses]", zizmor, "dangerous-triggers"),
    ("record.yml", "statuses: write", "statuses: writ", schema, "$.jobs.record"),
    ("record.yml", "types: [completed]", "types: [complete]", actionlint, "events"),
    ("forks.yml", "    environment: skillgate-forks", "    # environment", zizmor, "secrets-outside-env"),
    ("forks.yml", "needs: evaluate", "needs: evaluates", actionlint, "job-needs"),
    ("forks.yml", "cancel-in-progress: false", "cancel-in-progres: false", schema, "$.concurrency"),
    ("schedule.yml", "permissions: {}", "permissions: write-all", zizmor, "excessive-permissions"),
    ("schedule.yml", "timeout-minutes: 180", "timeout-minutes: soon", schema, "$.jobs.watch"),
    ("schedule.yml", "23 4 * * 1", "73 4 * * 1", actionlint, "events"),
    ("readme.yml", "permissions: {}", "permissions: write-all", zizmor, "excessive-permissions"),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "lint", "found"), FAULTS, ids=lambda v: getattr(v, "__name__", str(v)[:30])
)
def test_a_planted_fault_is_found(
    tmp_path: Path, name: str, old: str, new: str, lint: Any, found: str
) -> None:
    assert old in ALL[name]
    paths = lay_out(tmp_path, {name: ALL[name].replace(old, new)})
    options = ("--persona", "auditor") if lint is zizmor else ()
    assert (name, found) in lint(paths, *options)


def test_every_file_has_a_fault_for_every_linter_that_reads_it() -> None:
    tried = {(name, lint) for name, _, _, lint, _ in FAULTS}
    wanted = {(name, lint) for name in (*NAMES, "action.yml") for lint in (zizmor, schema)}
    assert wanted | {(name, actionlint) for name in NAMES} <= tried


def test_shellcheck_finds_a_planted_fault() -> None:
    assert "SC2086" in shellcheck(ACTION.replace('"$SKILLGATE_PYTHON"', "$SKILLGATE_PYTHON"))


# --- what no linter knows -----------------------------------------------------------


def test_the_readme_has_one_workflow_and_it_is_a_part_of_the_example() -> None:
    (short,) = (yaml.safe_load(text) for text in README)
    full, job = FLOWS["pull-request.yml"], FLOWS["pull-request.yml"]["jobs"]["gate"]
    assert short["name"] == full["name"]
    assert short[True]["pull_request"] == full[True]["pull_request"]
    gate = short["jobs"]["gate"]
    assert gate["permissions"].items() <= job["permissions"].items()
    assert gate["steps"][0] == job["steps"][0]
    assert gate["steps"][1]["uses"] == job["steps"][1]["uses"]


def test_every_workflow_begins_with_no_permission_and_says_what_each_is_for() -> None:
    assert [flow["permissions"] for flow in FLOWS.values()] == [{}] * 4
    granted = re.findall(r"^      [a-z-]+: (?:read|write)\b(.*)$", "".join(TEXTS.values()), re.MULTILINE)
    assert len(granted) == sum(len(job.body["permissions"]) for job in JOBS)
    assert [reason for reason in granted if not reason.startswith(" # to ")] == []


def test_the_permissions_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| `([a-z-]+\.yml)`, `([a-z]+)` \| `([a-z]+)` \| (.*?) \|", PAGE, re.MULTILINE)
    shown = {
        (flow, job): (mode, dict(re.findall(r"`([a-z-]+): (\w+)`", text))) for flow, job, mode, text in rows
    }
    assert shown == {(job.workflow, job.name): (job.mode, job.body["permissions"]) for job in JOBS}


def test_a_key_comes_from_an_environment_and_never_meets_a_token_that_writes_for_strangers() -> None:
    assert {job.name for job in JOBS if job.has_secret} == {"gate", "evaluate", "watch"}
    assert all("environment" in job.body for job in JOBS if job.has_secret)
    assert not any("environment" in job.body for job in JOBS if not job.has_secret)
    # `gate` has both, for branches of the repository only; a fork gets neither
    assert {job.name for job in JOBS if job.has_secret and job.writes} == {"gate"}
    assert {flow for flow in NAMES if "pull_request_target" in TEXTS[flow]} == set()


def test_the_gate_of_record_brings_nothing_in() -> None:
    job = BY_NAME["record"]
    assert job.calls == ["skillgate/skillgate"]
    assert (job.mode, job.has_secret) == ("lint", False)
    assert FLOWS["record.yml"][True] == {
        "workflow_run": {"workflows": [FLOWS["pull-request.yml"]["name"]], "types": ["completed"]}
    }


def test_one_job_evaluates_a_fork_and_another_publishes() -> None:
    evaluate, publish = BY_NAME["evaluate"], BY_NAME["publish"]
    assert (evaluate.writes, publish.has_secret) == (False, False)
    assert publish.calls == ["actions/download-artifact", "skillgate/skillgate"]
    assert evaluate.steps[0]["with"]["ref"] == "${{ github.event.repository.default_branch }}"
    upload, download = evaluate.steps[2]["with"], publish.steps[0]["with"]
    assert upload["name"] == download["name"]
    assert publish.steps[1]["with"]["report"] == f"{download['path']}/report.json"
    assert set(FLOWS["forks.yml"][True]["workflow_dispatch"]["inputs"]) == {"pr", "sha"}


def test_every_checkout_is_whole_and_keeps_no_token() -> None:
    checkouts = [step["with"] for job in JOBS for step in job.steps if "checkout" in step["uses"]]
    assert [with_ | {"ref": ""} for with_ in checkouts] == [
        {"fetch-depth": 0, "persist-credentials": False, "ref": ""}
    ] * 3


def test_only_a_new_commit_ends_a_run() -> None:
    cancels = {name: flow["concurrency"]["cancel-in-progress"] for name, flow in FLOWS.items()}
    assert cancels.pop("pull-request.yml") == (
        "${{ github.event_name == 'pull_request' && github.event.action == 'synchronize' }}"
    )
    assert set(cancels.values()) == {False}
    groups = [flow["concurrency"]["group"] for flow in FLOWS.values()]
    assert len({group.partition("${{")[0] for group in groups}) == 4


def test_the_gate_starts_for_every_pull_request_and_merge_group() -> None:
    on = FLOWS["pull-request.yml"][True]
    assert on == {
        "pull_request": {"types": ["opened", "synchronize", "reopened", "ready_for_review"]},
        "merge_group": None,
    }


def uses() -> Iterator[str]:
    for text in (*TEXTS.values(), ACTION, *README, PAGE):
        yield from re.findall(r"^ +(?:- )?uses: (.*)", text, re.MULTILINE)


def test_actions_of_others_are_pinned_with_their_version_and_each_in_one_version() -> None:
    others = {use for use in uses() if not use.startswith("skillgate/")}
    assert [
        use for use in others if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)
    ] == []
    assert len(others) == len({use.partition("@")[0] for use in others}) == 4
    ours = {use for use in uses() if use.startswith("skillgate/")}
    assert ours == {"skillgate/skillgate@v1 # zizmor: ignore[unpinned-uses]"}


def test_every_input_that_is_given_is_one_of_the_action() -> None:
    known = yaml.safe_load(ACTION)["inputs"]
    given = [
        name
        for job in JOBS
        for step in job.steps
        if "skillgate/" in step["uses"]
        for name in step.get("with", ())
    ]
    assert set(given) <= set(known)
    assert "cache" not in given


def test_every_job_has_an_end() -> None:
    assert all(isinstance(job.body["timeout-minutes"], int) for job in JOBS)
