"""action.yml without a runner: what it promises, what it passes on, how it installs itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from skillgate.github.action import PREFIX, Inputs

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ACTION["runs"]["steps"]}


def test_every_input_reaches_its_step_through_the_environment_and_no_other_way() -> None:
    gate, install = STEPS["gate"]["env"], STEPS["install"]["env"]
    passed = {name.removeprefix(PREFIX).lower().replace("_", "-"): value for name, value in gate.items()}
    assert passed.pop("python") == "${{ steps.install.outputs.python }}"
    assert passed == {name: f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"] if name != "python"}
    assert install == {"SKILLGATE_PYTHON": "${{ inputs.python }}"}


def test_the_program_reads_the_inputs_that_the_action_has() -> None:
    assert {*Inputs.__struct_encode_fields__, "github-token", "python"} == set(ACTION["inputs"])


def test_defaults_agree_with_the_program() -> None:
    defaults = {name: spec["default"] for name, spec in ACTION["inputs"].items() if "default" in spec}
    assert defaults == {
        "mode": Inputs().mode,
        "comment-id": Inputs().comment_id,
        "comment": str(Inputs().comment).lower(),
        "status": str(Inputs().status).lower(),
        "github-token": "${{ github.token }}",
    }


def test_no_script_holds_an_expression_and_every_step_is_bash() -> None:
    assert [step["shell"] for step in STEPS.values()] == ["bash", "bash"]
    assert [name for name, step in STEPS.items() if "${{" in step["run"]] == []


def test_outputs_are_those_of_the_gate_step() -> None:
    assert {name: spec["value"] for name, spec in ACTION["outputs"].items()} == {
        name: f"${{{{ steps.gate.outputs.{name} }}}}" for name in ACTION["outputs"]
    }


# --- the install step, with a python3 that writes down what it is asked for -------------

PYTHON3 = """\
#!/bin/sh
echo "$@" >>"$CALLS"
case "$*" in
  *version_info*) exit {old} ;;
  *venv*) mkdir -p "$5/bin" && cp "$0" "$5/bin/python" ;;
esac
"""


class Install:
    """Runs the install step as a runner does."""

    def __init__(self, folder: Path, old: bool = False) -> None:
        self.folder = folder
        python3 = folder / "bin" / "python3"
        python3.parent.mkdir()
        python3.write_text(PYTHON3.format(old=int(old)))
        python3.chmod(0o755)

    def run(self, python: str = "") -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "CALLS": str(self.folder / "calls"),
            "GITHUB_ACTION_PATH": "/the/action",
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "RUNNER_TEMP": str(self.folder),
            "SKILLGATE_PYTHON": python,
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["install"]["run"]]
        return subprocess.run(command, env=env, cwd=self.folder, capture_output=True, text=True)

    def read(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def test_the_action_installs_its_own_tree(tmp_path: Path) -> None:
    install = Install(tmp_path)
    assert install.run().returncode == 0
    venv = tmp_path / "skillgate-venv"
    assert install.read("calls") == [
        "-I -c import sys; sys.exit(sys.version_info < (3, 11))",
        f"-I -m venv --clear {venv}",
        "-I -m pip install --quiet --disable-pip-version-check /the/action",
    ]
    assert install.read("output") == [f"python={venv / 'bin' / 'python'}"]


def test_an_interpreter_that_is_given_is_used_as_it_is(tmp_path: Path) -> None:
    install = Install(tmp_path, old=True)
    assert install.run("/opt/python").returncode == 0
    assert (install.read("calls"), install.read("output")) == ([], ["python=/opt/python"])


def test_an_old_python_is_refused_with_what_to_do(tmp_path: Path) -> None:
    install = Install(tmp_path, old=True)
    done = install.run()
    assert (done.returncode, done.stdout) == (
        4,
        "::error title=skillgate::Python 3.11 or newer is needed. "
        "Put actions/setup-python before this step.\n",
    )
    assert install.read("output") == []
