"""Manifests to Dockerfile. Python and Node recipes are also built, in test_images.py; the tool chains
of Go, Maven and Rust, and uv, were not run: for them the text alone is tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skillgate.bench.images.recipe import BASES, Environment, Recipe, recipe
from skillgate.errors import SuiteError

BUILDS = '[build-system]\nrequires = ["hatchling"]\n[project]\nname = "it"\n'
PIP_ARGS = """\
ARG PIP_BREAK_SYSTEM_PACKAGES=1
ARG PIP_DISABLE_PIP_VERSION_CHECK=1
ARG PIP_NO_CACHE_DIR=1
ARG PIP_NO_INPUT=1
ARG PIP_ROOT_USER_ACTION=ignore
"""


def repository(folder: Path, **files: str) -> Path:
    """Write files; `go_mod` is go.mod, for a name must be an identifier."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def head(base: str, network: bool = True) -> str:
    label = f"LABEL skillgate=1 skillgate.network={network}"
    return f"FROM {base}\n{label}\nUSER root\nWORKDIR /workspace\nCOPY repo/ /workspace/\n"


def run(step: str) -> str:
    return "RUN " + json.dumps(["sh", "-ec", f"exec 2>&1\n{step}"]) + "\n"


def steps(made: Recipe) -> list[str]:
    """Return the scripts that the Dockerfile runs."""
    lines = made.dockerfile.splitlines()
    scripts = [json.loads(line.removeprefix("RUN "))[2] for line in lines if line.startswith("RUN ")]
    return [script.removeprefix("exec 2>&1\n") for script in scripts]


PIP = "python3 -m pip install"
UV_STEPS = ["command -v uv || python3 -m pip install uv==0.13.8", "uv sync --frozen --no-install-project"]
CI, INSTALL = (
    f"npm {word} --include=dev --no-audit --no-fund\nrm -rf /tmp/npm" for word in ("ci", "install")
)


@pytest.mark.parametrize(
    ("files", "base", "because", "expected"),
    [
        ({"requirements_txt": ""}, "Python", ["requirements.txt"], [f"{PIP} -r requirements.txt"]),
        (
            {"requirements_txt": "", "pyproject_toml": BUILDS},
            "Python",
            ["requirements.txt", "pyproject.toml"],
            [f"{PIP} -r requirements.txt", f"{PIP} --no-deps -e ."],
        ),
        (
            {"requirements_txt": "", "pyproject_toml": "[tool.ruff]\n"},
            "Python",
            ["requirements.txt"],
            [f"{PIP} -r requirements.txt"],
        ),
        ({"pyproject_toml": BUILDS}, "Python", ["pyproject.toml (nothing is locked)"], [f"{PIP} -e ."]),
        (
            {"pyproject_toml": '[project]\nname = "it"\n'},
            "Python",
            ["pyproject.toml (nothing is locked)"],
            [f"{PIP} -e ."],
        ),
        (
            {"uv_lock": "", "requirements_txt": "", "pyproject_toml": BUILDS},
            "Python",
            ["uv.lock", "pyproject.toml"],
            [*UV_STEPS, "uv pip install --no-deps -e ."],
        ),
        ({"uv_lock": "", "pyproject_toml": '[project]\nname = "it"\n'}, "Python", ["uv.lock"], UV_STEPS),
        ({"package_json": "{}"}, "Node", ["package.json (nothing is locked)"], [INSTALL]),
        ({"package_json": "{}", "package-lock_json": "{}"}, "Node", ["package-lock.json"], [CI]),
        # a Node project whose pyproject.toml only configures tools is no Python project
        (
            {"package_json": "{}", "pyproject_toml": "[tool.ruff]\n"},
            "Node",
            ["package.json (nothing is locked)"],
            [INSTALL],
        ),
        ({"go_mod": ""}, "Go", ["go.mod"], ["go mod download"]),
        ({"pom_xml": ""}, "Maven", ["pom.xml"], ["mvn -B -ntp dependency:go-offline"]),
        ({"Cargo_toml": ""}, "Rust", ["Cargo.toml (nothing is locked)"], ["cargo fetch"]),
        ({"Cargo_toml": "", "Cargo_lock": ""}, "Rust", ["Cargo.lock"], ["cargo fetch --locked"]),
    ],
)
def test_the_strongest_manifest_of_an_ecosystem_decides(
    tmp_path: Path, files: dict[str, str], base: str, because: list[str], expected: list[str]
) -> None:
    made = recipe(repository(tmp_path, **files), Environment())
    assert (made.base, list(made.because)) == (BASES[base], because)
    found = [step for step in steps(made) if not step.startswith("mkdir -p node_modules\n")]
    assert found == expected
    assert (len(found) < len(steps(made))) == (base == "Node")
    assert made.dockerfile.startswith(head(BASES[base]))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"requirements_txt": "", "pyproject_toml": BUILDS},
            head(BASES["Python"])
            + PIP_ARGS
            + run(f"{PIP} -r requirements.txt")
            + run(f"{PIP} --no-deps -e ."),
        ),
        (
            {"uv_lock": ""},
            head(BASES["Python"])
            + PIP_ARGS
            + "ARG UV_NO_CACHE=1\nARG UV_LINK_MODE=copy\n"
            + "ENV UV_PROJECT_ENVIRONMENT=/opt/venv\nENV UV_PYTHON_DOWNLOADS=never\n"
            + "ENV VIRTUAL_ENV=/opt/venv\nENV PATH=/opt/venv/bin:$PATH\n"
            + "".join(map(run, UV_STEPS))
            + "ENV UV_OFFLINE=1\nENV UV_NO_SYNC=1\n",
        ),
        (
            {"go_mod": ""},
            head(BASES["Go"])
            + "ENV GOMODCACHE=/opt/go/mod\nENV GOTOOLCHAIN=local\n"
            + run("go mod download")
            + "ENV GOFLAGS=-mod=mod\nENV GOPROXY=off\nENV GOSUMDB=off\n",
        ),
        (
            {"pom_xml": ""},
            head(BASES["Maven"])
            + "ARG MAVEN_ARGS=-Dmaven.repo.local=/opt/maven/repository\n"
            + run("mvn -B -ntp dependency:go-offline")
            + 'ENV MAVEN_ARGS="--offline -Dmaven.repo.local=/home/agent/.m2/repository'
            + ' -Dmaven.repo.local.tail=/opt/maven/repository"\n'
            + 'ENV MAVEN_OPTS=-Duser.home=/home/agent\nENV MAVEN_CONFIG=""\n',
        ),
        (
            {"Cargo_toml": "", "Cargo_lock": ""},
            head(BASES["Rust"])
            + "ENV CARGO_HOME=/opt/cargo\nENV PATH=/opt/cargo/bin:$PATH\n"
            + run("cargo fetch --locked")
            + "ENV CARGO_NET_OFFLINE=true\n",
        ),
    ],
)
def test_the_whole_dockerfile(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    assert recipe(repository(tmp_path, **files), Environment()).dockerfile == expected


def test_node_packages_lie_where_node_finds_them_from_the_workspace(tmp_path: Path) -> None:
    made = recipe(repository(tmp_path, package_json="{}"), Environment())
    assert "\nENV PATH=/node_modules/.bin:$PATH\n" in made.dockerfile
    assert "\nARG NPM_CONFIG_CACHE=/tmp/npm\nARG NPM_CONFIG_UPDATE_NOTIFIER=false\n" in made.dockerfile
    assert "mv node_modules /node_modules\n" in steps(made)[1]


def test_a_setup_takes_the_place_of_the_steps_and_keeps_the_variables(tmp_path: Path) -> None:
    setup = 'cd sub\necho "a \\\\ b" \\\n  > x\n# ünïcode\n'
    made = recipe(repository(tmp_path, go_mod=""), Environment(setup=setup))
    assert (made.base, made.because) == (BASES["Go"], ("go.mod", "environment.setup"))
    assert steps(made) == [setup]
    assert [line for line in made.dockerfile.splitlines() if line.startswith("ENV")] == [
        "ENV GOMODCACHE=/opt/go/mod",
        "ENV GOTOOLCHAIN=local",
        "ENV GOFLAGS=-mod=mod",
        "ENV GOPROXY=off",
        "ENV GOSUMDB=off",
    ]
    assert made.dockerfile.count("\nRUN ") == 1


@pytest.mark.parametrize(
    ("environment", "base", "expected"),
    [
        (Environment(setup="true"), "debian:bookworm-slim", ["true"]),
        (Environment(base="mine@sha256:ab"), "mine@sha256:ab", []),
        (Environment(base="mine:1", setup="true", network=False), "mine:1", ["true"]),
    ],
)
def test_without_a_manifest_the_environment_tells(
    tmp_path: Path, environment: Environment, base: str, expected: list[str]
) -> None:
    made = recipe(tmp_path, environment)
    assert (made.base, steps(made)) == (base, expected)
    assert made.dockerfile.startswith(head(base, environment.network))


def test_two_ecosystems_share_a_base_that_is_named(tmp_path: Path) -> None:
    repo = repository(tmp_path, requirements_txt="", package_json="{}")
    made = recipe(repo, Environment(base="both:1"))
    assert (made.base, made.because) == ("both:1", ("requirements.txt", "package.json (nothing is locked)"))
    assert steps(made)[:2] == [f"{PIP} -r requirements.txt", INSTALL]


@pytest.mark.parametrize("environment", [Environment(), Environment(setup="true")])
def test_two_ecosystems_need_a_base(tmp_path: Path, environment: Environment) -> None:
    repo = repository(tmp_path, requirements_txt="", package_json="{}", go_mod="")
    with pytest.raises(SuiteError) as caught:
        recipe(repo, environment)
    found = "Python (requirements.txt), Node (package.json) and Go (go.mod)"
    assert caught.value.message == f"{repo}: {found} need one base"
    assert "environment: {base: IMAGE}" in caught.value.hint


@pytest.mark.parametrize("files", [{}, {"pyproject_toml": "[tool.ruff]\n"}, {"README_md": ""}])
def test_nothing_tells_how(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(SuiteError) as caught:
        recipe(repository(tmp_path, **files), Environment())
    assert caught.value.message == f"{tmp_path}: no manifest tells how to set it up"
    assert "requirements.txt" in caught.value.hint


@pytest.mark.parametrize("content", [b"[project\n", b"x = '\xff'\n"])
def test_a_manifest_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    with pytest.raises(SuiteError, match=r"pyproject\.toml: cannot be read: ") as caught:
        recipe(tmp_path, Environment())
    assert caught.value.hint == "Correct the TOML."


@pytest.mark.parametrize(
    "keys",
    [
        {"base": ""},
        {"base": "--platform=other x"},
        {"base": "x\nRUN evil"},
        {"base": "x\n"},
        {"base": "x AS y"},
        {"base": "$X"},
        {"setup": ""},
        {"setup": " \n"},
        {"network": "no"},
        {"bse": "x"},
    ],
)
def test_an_environment_that_is_none(keys: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(keys, Environment)


@pytest.mark.parametrize("base", ["python", "a.b:5000/c/d_e:1.2-3", f"x@sha256:{'0' * 64}", "x:1@sha256:ab"])
def test_a_base(base: str) -> None:
    assert msgspec.convert({"base": base}, Environment) == Environment(base=base)
