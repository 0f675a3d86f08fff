"""A repository's own manifests and `environment:` -> the Dockerfile that sets it up once.

Pure: knows neither Docker nor a suite. A run mounts its own copy of the repository over
/workspace, without network, on a read-only root, as any user, with an empty home: so what the
set-up installs lies outside of /workspace, and variables tell each tool where. A tag is not a
pin: it moves when its owner pushes. Only a `base` with a digest (`NAME@sha256:...`) is one.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from skillgate.errors import SuiteError
from skillgate.values import Struct

BASES = {
    "Python": "python:3.12-slim-bookworm",
    "Node": "node:22-bookworm-slim",
    "Go": "golang:1.23-bookworm",
    "Maven": "maven:3.9-eclipse-temurin-21",
    "Rust": "rust:1.83-slim-bookworm",
}
BARE_BASE = "debian:bookworm-slim"  # for a `setup` beside which no manifest says more
UV = "uv==0.13.8"

Base = Annotated[str, msgspec.Meta(pattern=r"^\w[\w./:@-]*\Z")]
Shell = Annotated[str, msgspec.Meta(pattern=r"\S")]


class Environment(Struct, kw_only=True, rename="kebab"):
    """How the image of a repository is made; what is left out, its manifests tell.

    `base` is the image to start from, `setup` a `sh -e` script that takes the place of what the
    manifests would install, run as root in /workspace; without `network` it has none.
    """

    base: Base | None = None
    setup: Shell | None = None
    network: bool = True


class Recipe(NamedTuple):
    """A Dockerfile that copies the build context's `repo/`; `because` names the manifests that decided."""

    base: str
    dockerfile: str
    because: tuple[str, ...]


class _Way(NamedTuple):
    """How one ecosystem is set up: `args` are seen by the steps alone, `offline` by what comes after."""

    ecosystem: str
    because: tuple[str, ...]
    steps: tuple[str, ...]
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()


def recipe(repo: Path, environment: Environment) -> Recipe:
    """Write the Dockerfile.

    Raises: SuiteError when nothing tells how, or when two ecosystems would each need a base.
    """
    ways = [way for find in _FINDERS if (way := find(repo))]
    base = environment.base or _default_base(repo, environment, ways)
    because = tuple(name for way in ways for name in way.because)
    steps = [step for way in ways for step in way.steps]
    if environment.setup is not None:
        because, steps = (*because, "environment.setup"), [environment.setup]
    lines = [
        f"FROM {base}",
        # first: finds what a failed build left, and no layer made with a network is taken for one without
        f"LABEL skillgate=1 skillgate.network={environment.network}",
        "USER root",
        "WORKDIR /workspace",
        "COPY repo/ /workspace/",
        *_lines("ARG", (way.args for way in ways)),
        *_lines("ENV", (way.env for way in ways)),
        *map(_run, steps),
        *_lines("ENV", (way.offline for way in ways)),
    ]
    return Recipe(base, "".join(f"{line}\n" for line in lines), because)


def _default_base(repo: Path, environment: Environment, ways: list[_Way]) -> str:
    match ways:
        case [way]:
            return BASES[way.ecosystem]
        case [] if environment.setup is not None:
            return BARE_BASE
        case []:
            known = "requirements.txt, pyproject.toml, package.json, go.mod, pom.xml or Cargo.toml"
            hint = f"Add one of {known}, or say it with `environment: {{base: IMAGE, setup: COMMANDS}}`."
            raise SuiteError(f"{repo.as_posix()}: no manifest tells how to set it up", hint)
    *some, last = (f"{way.ecosystem} ({way.because[0].split()[0]})" for way in ways)
    hint = "Name an image that has the tools of all of them in `environment: {base: IMAGE}`."
    raise SuiteError(f"{repo.as_posix()}: {', '.join(some)} and {last} need one base", hint)


def _lines(instruction: str, pairs: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"{instruction} {pair}" for some in pairs for pair in some]


def _run(step: str) -> str:
    """Write a step of any number of lines as one instruction; two streams would arrive in any order."""
    return "RUN " + json.dumps(["sh", "-ec", f"exec 2>&1\n{step}"], ensure_ascii=False)


_PIP = "python3 -m pip install"
_PIP_ARGS = (
    "PIP_BREAK_SYSTEM_PACKAGES=1",  # a distribution's Python refuses to install for everybody
    "PIP_DISABLE_PIP_VERSION_CHECK=1",
    "PIP_NO_CACHE_DIR=1",
    "PIP_NO_INPUT=1",
    "PIP_ROOT_USER_ACTION=ignore",
)


def _python(repo: Path) -> _Way | None:
    project = _pyproject(repo)
    builds = "build-system" in project
    if (repo / "uv.lock").is_file():
        return _uv(builds)
    editable = (f"{_PIP} --no-deps -e .",) if builds else ()
    if (repo / "requirements.txt").is_file():
        because = ("requirements.txt", *(["pyproject.toml"] if builds else []))
        return _Way("Python", because, (f"{_PIP} -r requirements.txt", *editable), _PIP_ARGS)
    if builds or "project" in project:  # else it only configures tools
        return _Way("Python", ("pyproject.toml (nothing is locked)",), (f"{_PIP} -e .",), _PIP_ARGS)
    return None


def _pyproject(repo: Path) -> dict[str, Any]:
    path = repo / "pyproject.toml"
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:  # not TOML, not UTF-8
        raise SuiteError(f"{path.as_posix()}: cannot be read: {problem}", "Correct the TOML.") from None


def _uv(builds: bool) -> _Way:
    return _Way(
        "Python",
        ("uv.lock", *(["pyproject.toml"] if builds else [])),
        (
            f"command -v uv || {_PIP} {UV}",
            "uv sync --frozen --no-install-project",
            *(["uv pip install --no-deps -e ."] if builds else []),
        ),
        args=(*_PIP_ARGS, "UV_NO_CACHE=1", "UV_LINK_MODE=copy"),
        env=(
            "UV_PROJECT_ENVIRONMENT=/opt/venv",
            "UV_PYTHON_DOWNLOADS=never",  # it would land in root's home; the base has the right one
            "VIRTUAL_ENV=/opt/venv",
            "PATH=/opt/venv/bin:$PATH",
        ),
        offline=("UV_OFFLINE=1", "UV_NO_SYNC=1"),
    )


# Node looks for packages in every folder above: /workspace finds those of /node_modules. npm's own
# record tells what it linked into the repository, and what it put there and a run would not see.
_MOVE = """\
mkdir -p node_modules
mv node_modules /node_modules
node -e '
  const fs = require("fs"), record = "/node_modules/.package-lock.json"
  const packages = fs.existsSync(record) ? JSON.parse(fs.readFileSync(record, "utf8")).packages : {}
  for (const [path, { link, resolved }] of Object.entries(packages)) {
    if (!path.startsWith("node_modules/")) {
      if (!path.includes("/node_modules/")) continue
      console.error(`npm puts ${path} into the repository, which a run replaces: let one version serve all`)
      process.exit(1)
    }
    if (link) {
      fs.unlinkSync(`/${path}`)
      fs.symlinkSync(`/workspace/${resolved}`, `/${path}`)
    }
  }
'"""


def _node(repo: Path) -> _Way | None:
    if not (repo / "package.json").is_file():
        return None
    locked = (repo / "package-lock.json").is_file()
    command = f"npm {'ci' if locked else 'install'} --include=dev --no-audit --no-fund"
    return _Way(
        "Node",
        ("package-lock.json",) if locked else ("package.json (nothing is locked)",),
        (f"{command}\nrm -rf /tmp/npm", _MOVE),
        args=("NPM_CONFIG_CACHE=/tmp/npm", "NPM_CONFIG_UPDATE_NOTIFIER=false"),
        env=("PATH=/node_modules/.bin:$PATH",),
    )


def _go(repo: Path) -> _Way | None:
    if not (repo / "go.mod").is_file():
        return None
    return _Way(
        "Go",
        ("go.mod",),
        ("go mod download",),
        env=("GOMODCACHE=/opt/go/mod", "GOTOOLCHAIN=local"),
        offline=("GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off"),
    )


def _maven(repo: Path) -> _Way | None:
    if not (repo / "pom.xml").is_file():
        return None
    ours = "/opt/maven/repository"
    head = "/home/agent/.m2/repository"  # what a run writes; Maven 3.9 finds the rest in the tail
    return _Way(
        "Maven",
        ("pom.xml",),
        ("mvn -B -ntp dependency:go-offline",),
        args=(f"MAVEN_ARGS=-Dmaven.repo.local={ours}",),
        offline=(
            f'MAVEN_ARGS="--offline -Dmaven.repo.local={head} -Dmaven.repo.local.tail={ours}"',
            "MAVEN_OPTS=-Duser.home=/home/agent",  # Java asks the user database, not HOME
            'MAVEN_CONFIG=""',  # the public image sets a folder, which mvnw takes for a goal
        ),
    )


def _rust(repo: Path) -> _Way | None:
    if not (repo / "Cargo.toml").is_file():
        return None
    locked = (repo / "Cargo.lock").is_file()
    return _Way(
        "Rust",
        ("Cargo.lock",) if locked else ("Cargo.toml (nothing is locked)",),
        (f"cargo fetch{' --locked' if locked else ''}",),
        env=("CARGO_HOME=/opt/cargo", "PATH=/opt/cargo/bin:$PATH"),
        offline=("CARGO_NET_OFFLINE=true",),
    )


_FINDERS: tuple[Callable[[Path], _Way | None], ...] = (_python, _node, _go, _maven, _rust)
