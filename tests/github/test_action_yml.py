"""action.yml without a runner: what it promises, what it passes on, how it installs itself."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from skillgate.github.inputs import PREFIX, Inputs

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
ALL_STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ALL_STEPS if "id" in step}
FOR_THE_INSTALL = {"python", "cache"}


def test_every_input_reaches_its_step_through_the_environment_and_no_other_way() -> None:
    gate = dict(STEPS["gate"]["env"])
    assert gate.pop("PYTHON") == "${{ steps.install.outputs.python || steps.python.outputs.python }}"
    passed = {name.removeprefix(PREFIX).lower().replace("_", "-"): value for name, value in gate.items()}
    inputs = [name for name in ACTION["inputs"] if name not in FOR_THE_INSTALL]
    assert passed == {name: f"${{{{ inputs.{name} }}}}" for name in inputs}
    assert STEPS["python"]["env"] == {"SKILLGATE_PYTHON": "${{ inputs.python }}"}
    assert STEPS["install"]["env"] == {"SKILLGATE_CACHE": "${{ inputs.cache }}"}


def test_the_program_reads_the_inputs_that_the_action_has() -> None:
    assert {*Inputs.__struct_encode_fields__, "github-token"} == set(ACTION["inputs"]) - FOR_THE_INSTALL


def test_defaults_agree_with_the_program() -> None:
    defaults = {name: spec["default"] for name, spec in ACTION["inputs"].items() if "default" in spec}
    assert defaults == {
        "mode": Inputs().mode,
        "comment-id": Inputs().comment_id,
        "comment": str(Inputs().comment).lower(),
        "status": str(Inputs().status).lower(),
        "setup-agent": str(Inputs().setup_agent).lower(),
        "github-token": "${{ github.token }}",
        "cache": "false",  # not in a job with a key or a token that writes
    }


def test_no_script_holds_an_expression_and_every_script_is_bash() -> None:
    scripts = [step for step in ALL_STEPS if "run" in step]
    assert {step["shell"] for step in scripts} == {"bash"}
    assert [step["id"] for step in scripts if "${{" in step["run"]] == []
    assert [step["id"] for step in scripts if "GITHUB_ENV" in step["run"]] == []


def test_the_one_action_it_calls_is_pinned_and_off_unless_asked_for() -> None:
    (call,) = (step for step in ALL_STEPS if "uses" in step)
    assert re.fullmatch(r"actions/cache@[0-9a-f]{40}", call["uses"])
    assert call["if"].startswith("inputs.cache == 'true' && ")


def test_outputs_are_those_of_the_gate_step() -> None:
    assert {name: spec["value"] for name, spec in ACTION["outputs"].items()} == {
        name: f"${{{{ steps.gate.outputs.{name} }}}}" for name in ACTION["outputs"]
    }
    assert set(ACTION["outputs"]) == {
        *("verdict", "decision-by-skill", "report-path", "summary-path"),
        *("sarif-path", "comment-url", "cost-usd", "skills-changed"),
    }


# --- installing, with a python3 that writes down what it is asked for -------------------

PYTHON3 = """\
#!/bin/sh
echo "$@" >>"$CALLS"
echo "PIP_CACHE_DIR=$PIP_CACHE_DIR" >>"$CALLS.cache"
case "$*" in
  *version_info*) exit {old} ;;
  *hashlib*) echo 0123abcd ;;
  *venv*) mkdir -p "$5/bin" && cp "$0" "$5/bin/python" ;;
  *pip*) exit {broken} ;;
esac
"""


class Install:
    """Runs the steps that install as a runner does."""

    def __init__(self, folder: Path, old: bool = False, broken: bool = False) -> None:
        self.folder = folder
        python3 = folder / "bin" / "python3"
        python3.parent.mkdir()
        python3.write_text(PYTHON3.format(old=int(old), broken=int(broken)))
        python3.chmod(0o755)

    def run(self, step: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "CALLS": str(self.folder / "calls"),
            "GITHUB_ACTION_PATH": "/the/action",
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "RUNNER_TEMP": str(self.folder),
            **{name: inputs.get(name, "") for name in STEPS[step]["env"]},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]]
        return subprocess.run(command, env=env, cwd=self.folder, capture_output=True, text=True)

    def read(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def test_it_installs_what_the_lock_lists_and_nothing_else(tmp_path: Path) -> None:
    install = Install(tmp_path)
    assert install.run("python").returncode == 0
    assert install.run("install").returncode == 0
    venv = tmp_path / "skillgate-venv"
    version, digest, *calls = install.read("calls")
    assert version == "-I -c import sys; sys.exit(sys.version_info < (3, 11))"
    assert (digest[:5], digest.rpartition(" ")[2]) == ("-I -c", "/the/action/requirements.lock")
    assert calls == [
        f"-I -m venv --clear {venv}",
        "-I -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: "
        "--require-hashes --requirement /the/action/requirements.lock",
    ]
    assert install.read("output") == ["lock=0123abcd", f"python={venv / 'bin' / 'python'}"]
    assert set(install.read("calls.cache")) == {"PIP_CACHE_DIR="}


def test_the_cache_is_the_folder_that_is_kept(tmp_path: Path) -> None:
    install = Install(tmp_path)
    assert install.run("install", SKILLGATE_CACHE="true").returncode == 0
    (call,) = (step for step in ALL_STEPS if "uses" in step)
    assert call["with"]["path"] == "${{ runner.temp }}/skillgate-pip"
    assert set(install.read("calls.cache")) == {f"PIP_CACHE_DIR={tmp_path}/skillgate-pip"}


def test_an_interpreter_that_is_given_is_used_as_it_is(tmp_path: Path) -> None:
    install = Install(tmp_path, old=True)
    assert install.run("python", SKILLGATE_PYTHON="/opt/python").returncode == 0
    assert (install.read("calls"), install.read("output")) == ([], ["python=/opt/python"])
    assert STEPS["install"]["if"] == "steps.python.outputs.lock != ''"


def test_an_old_python_is_refused_with_what_to_do(tmp_path: Path) -> None:
    install = Install(tmp_path, old=True)
    done = install.run("python")
    assert (done.returncode, done.stdout) == (
        4,
        "::error title=skillgate::Python 3.11 or newer is needed. "
        "Put actions/setup-python before this step.\n",
    )
    assert install.read("output") == []


def test_an_install_that_fails_says_which_way_there_is(tmp_path: Path) -> None:
    install = Install(tmp_path, broken=True)
    done = install.run("install")
    assert done.returncode == 4
    assert done.stdout.startswith("::error title=skillgate::Its packages could not be installed")
    assert "the input `python`" in done.stdout
    assert install.read("output") == []


# --- the lock -------------------------------------------------------------------------------

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")


class Locked(NamedTuple):
    """One package of the lock."""

    requirement: Requirement
    hashes: tuple[str, ...]


def locked(text: str) -> list[Locked]:
    """Read a lock: a requirement on a line, and each of its hashes on another."""
    joined = re.sub(r" \\\n +", " ", "".join(re.findall(r"^[^#].*\n", text, re.MULTILINE)))
    found = []
    for line in joined.splitlines():
        requirement, *hashes = line.split(" --hash=sha256:")
        found.append(Locked(Requirement(requirement), tuple(hashes)))
    return found


def problems(text: str, wanted: Sequence[str]) -> list[str]:
    """Say what of a lock does not fit what pyproject.toml asks for, on each machine."""
    lock = locked(text)
    found = [
        f"{one.requirement.name}: {what}"
        for one in lock
        for what, wrong in (
            ("no hash", not all(re.fullmatch("[0-9a-f]{64}", each) for each in one.hashes or ("",))),
            ("not one version", not re.fullmatch(r"==[^=,*]+", str(one.requirement.specifier))),
            ("comes from elsewhere", one.requirement.url is not None),
        )
        if wrong
    ]
    for python, machine in itertools.product(PYTHONS, MACHINES):
        pins = {canonicalize_name(one.requirement.name): one for one in lock if _holds(one, python, machine)}
        for asked in map(Requirement, wanted):
            pin = pins.get(canonicalize_name(asked.name))
            version = str(pin.requirement.specifier).removeprefix("==") if pin else "missing"
            if pin is None or not asked.specifier.contains(version, prereleases=True):
                found.append(f"{asked} on Python {python}, {machine}: {version}")
    return found


def _holds(one: Locked, python: str, machine: str) -> bool:
    marker = one.requirement.marker
    here = {
        **{"python_version": python, "python_full_version": f"{python}.0", "platform_machine": machine},
        **{"sys_platform": "linux", "platform_system": "Linux", "implementation_name": "cpython"},
        "platform_python_implementation": "CPython",
    }
    return marker is None or marker.evaluate(here)


WANTED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]


def test_the_lock_has_every_dependency_in_a_version_that_fits_with_hashes() -> None:
    assert problems(LOCK, WANTED) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (r"^click==.* \\$", r"click==7.0 \\", "click>=8.1 on Python 3.11, x86_64: 7.0"),
        (r"^msgspec==", "other==", "msgspec>=0.19 on Python 3.13, aarch64: missing"),
        (
            r"^scipy==(\S+) ",
            r"scipy==\1 ; python_version < '3.13' ",
            "scipy>=1.13 on Python 3.13, x86_64: missing",
        ),
        (r"^idna==(\S+) \\\n( .*\n)+", r"idna==\1\n", "idna: no hash"),
        (r"^idna==", "idna>=", "idna: not one version"),
    ],
)
def test_what_is_wrong_with_a_lock_is_found(old: str, new: str, problem: str) -> None:
    text, count = re.subn(old, new, LOCK, flags=re.MULTILINE)
    assert count == 1
    assert problem in problems(text, WANTED)


def test_the_lock_names_no_host_and_takes_no_option() -> None:
    assert "://" not in LOCK
    assert [
        line for line in LOCK.splitlines() if not re.match(r"#|[a-z0-9-]+==|    --hash=sha256:", line)
    ] == []


@pytest.mark.long
def test_the_lock_installs_and_the_action_runs_from_its_tree(tmp_path: Path) -> None:
    python3 = tmp_path / "bin/python3"
    python3.parent.mkdir()
    python3.symlink_to(sys.executable)
    env = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        },
        "PATH": f"{python3.parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "RUNNER_TEMP": str(tmp_path),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["install"]["run"]]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    python = (tmp_path / "output").read_text().strip().removeprefix("python=")
    check = subprocess.run([python, "-I", "-m", "pip", "check"], env=env, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout
    # what one mode imports, with none of the packages of this test's own environment
    everything = "import skillgate.cli, skillgate.github.action, skillgate.gate.pipeline; print('fine')"
    ran = subprocess.run(
        [python, "-P", "-c", everything],
        env={**env, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ran.stdout, ran.stderr) == ("fine\n", "")
