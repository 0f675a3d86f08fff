"""Hostile agents against a real engine: what they do in their own session changes no grade and leaves nothing.

Each attack is played to its end, as a run is: the agent's session, then the graders' in a new copy. Attacks that
do not disturb each other share a run. `says` is the whole output: an attack that was not even tried is none.
"""

# ruff: noqa: E501 - a command is easier to read in one piece
from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skillgate.bench.docker import docker_sandbox
from skillgate.bench.failure import Failure
from skillgate.bench.sandbox import KILLED, OUTPUT_LIMIT, Limit, Phase, Sandbox
from skillgate.bench.suite import load_suite
from skillgate.bench.workspace import Workspace
from skillgate.core import Outcome
from skillgate.skill import Files, parse
from tests.fakes.attacker import MARK, Arena, Attacker, arena

pytestmark = pytest.mark.docker
NAMES = ("doubles/doubles.zero", "doubles/doubles.two", "exists", "old-suite")
NOTHING = (False, False, False, True)  # the grades of an agent that does nothing
EXISTS = (False, False, True, True)  # there is a file, and that is all
BROKEN = (False, False, False, False)  # what worked before no longer does
SOLVED = (True, True, True, True)
SOLVE = "printf 'def double(n):\\n    return 2 * n\\n' > calc/double.py"
BREAK = "echo 'def add(a, b): return 0' > calc/__init__.py"
NEXT = "\n# the next command\n"
LIMITS = "limits: {timeout-s: 20, memory-mb: 48, pids: 40, disk-mb: 64}"


class Attack(NamedTuple):
    """What the agent runs, what that says (a pattern), and what the run comes to."""

    command: str
    says: str = ""
    grades: tuple[bool, ...] = NOTHING
    reason: str = ""


@pytest.fixture(scope="module")
def sandbox(docker_image: str) -> Sandbox:
    return docker_sandbox(docker_image)


@pytest.fixture
def place(
    tiny_suite: Path, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Arena]:
    path = tiny_suite / "suite.yml"
    path.write_text(re.sub("limits: .*", LIMITS, path.read_text()))
    with arena(tiny_suite, sandbox, tmp_path, monkeypatch) as made:
        yield made


REPORT = """<s><testcase classname="doubles" name="zero"/><testcase classname="doubles" name="two"/></s>"""
FORGE = f"import os; r = os.environ.get('RESULTS'); r and open(r + '/doubles.xml', 'w').write('{REPORT}'); os._exit(0)"
TRIED = "for what in {}; do $what && echo done; done 2>&1 | grep -c done; true"


def plant(*names: str) -> str:
    return f'mkdir -p node_modules bin; for n in {" ".join(names)}; do echo "{FORGE!s}" > "$n"; done'.replace(
        f'echo "{FORGE!s}"', "cat > forged <<'END'\n" + FORGE + "\nEND\ncp forged"
    ).replace('cp forged > "$n"', 'cp forged "$n"')


def left_out(name: str, why: str) -> str:
    return f"not graded: `{name}` {why}"


DECIDES, LEADS_OUT, NOT_PLAIN = (
    "decides how tests run",
    "is a link that leads out of the repository",
    "is no plain file",
)

ATTACKS = {
    # --- in the place of the tests, or of what runs them
    "plants that are left out": Attack(
        plant("conftest.py", "sitecustomize.py", "usercustomize.py", "tests/x.pth", "pytest.ini"),
        reason="; ".join(
            left_out(name, DECIDES)
            for name in ("conftest.py", "pytest.ini", "sitecustomize.py", "usercustomize.py")
        ),
    ),
    "plants that no grader looks at": Attack(
        plant("os.py", "json.py", "calc/os.py", "re.py", "python3", "sh", "env", "test", "bin/python3", "node_modules/x.js")
        + "; chmod 755 python3 sh env test bin/python3; cp python3 ~; mkdir -p ~/.local/bin; cp python3 ~/.local/bin;"
        " echo 'PATH=/workspace:$PATH' | tee ~/.profile ~/.bashrc ~/.pythonrc > /tmp/.bashrc",
    ),
    "home and bytecode": Attack(
        "d=~/.local/lib/python3.11/site-packages; mkdir -p $d calc/__pycache__ tests/__pycache__; "
        "echo 'import os; os._exit(0)' | tee $d/usercustomize.py > $d/sitecustomize.py; "
        f"{BREAK}; python3 -I -c \"import py_compile as p; open('/tmp/ok.py', 'w').write('def load_tests(*_): "
        "import unittest; return unittest.TestSuite()'); p.compile('/tmp/ok.py', 'tests/__pycache__/"
        "test_add.cpython-311.pyc', invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)\"; ls tests/__pycache__",
        says="test_add.cpython-311.pyc\n",
        grades=BROKEN,
    ),
    "the tests changed": Attack(f"{BREAK}; echo 'raise SystemExit(0)' > tests/test_add.py", grades=BROKEN),
    "more tests that pass": Attack(
        f"{BREAK}; echo 'def load_tests(*_): raise SystemExit(0)' | tee tests/__init__.py > tests/test_z.py",
        grades=BROKEN,
    ),
    "the tests removed": Attack(f"{BREAK}; rm -r tests", grades=BROKEN),
    "the tests are a link to a folder outside": Attack(
        f"{BREAK}; mv tests ~/t; echo > ~/t/test_add.py; ln -s ../home/t tests",
        grades=BROKEN,
        reason=left_out("tests", LEADS_OUT),
    ),
    "the tests are a link to a folder inside": Attack(f"{BREAK}; rm -r tests; ln -s calc tests", grades=BROKEN),
    "the tests are a file": Attack(f"{BREAK}; rm -r tests; echo > tests", grades=BROKEN),
    "a repository of git where the graders work": Attack(
        "git init -q --bare . && git config core.bare false && git config core.worktree . && "
        "git config core.fsmonitor 'touch /tmp/MARK #' && echo x > objects/x && echo x > refs/x && "
        "git init -q calc; printf '#!/bin/sh\\nexit 1' > hooks/pre-commit; chmod +x hooks/pre-commit",
    ),
    # --- out of the workspace
    "links out": Attack(
        "ln -s /skillgate/tests/doubles.py calc/double.py; ln -s /etc/passwd p; ln -s ../home h; ln -s /proc/self/root r; "
        "ln -s /proc/1/cwd/../tests t",
        reason="; ".join(left_out(name, LEADS_OUT) for name in ("calc/double.py", "h", "p", "r", "t")),
    ),
    "a link that leads out by way of another": Attack(
        "mkdir -p a/b/c; ln -s ../../.. a/b/c/up; ln -s ../a/b/c/up/../skillgate/tests/doubles.py calc/double.py",
        reason=left_out("calc/double.py", LEADS_OUT),
    ),
    "links in circles": Attack("ln -s double.py calc/double.py; ln -s b a; ln -s a b; ln -s . calc/calc"),
    "hard links": Attack(
        "for f in /etc/passwd /usr/bin/su /proc/1/environ ~/x; do echo 1 > ~/x; ln $f calc/double.py; done 2>&1 | wc -l",
        says="4\n",
    ),
    # --- no plain files
    "a pipe": Attack("mkfifo calc/double.py", reason=left_out("calc/double.py", NOT_PLAIN)),
    "a socket, devices, a folder": Attack(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'; mknod n c 1 3; mknod m b 8 0; mkdir -p calc/double.py/x",
        says="mknod: n: Operation not permitted\nmknod: m: Operation not permitted\n",
        reason=left_out("s", NOT_PLAIN),
    ),
    "a folder for a file, with files": Attack(
        "mkdir calc/double.py; echo 'double = int' > calc/double.py/__init__.py"
    ),
    # --- names, sizes, rights
    "names": Attack(
        "cd calc; for n in \"$(printf 'a\\nb')\" \"q'\\\"\" '$(id>MARK)' '`id`' -rf --help ' ' '*' '\\' "
        "\"$(printf '\\377\\376')\" \"$(printf '%0255d' 0)\" '::error::x' \"$(printf '\\033[2J')\" '%s%n'; do "
        'echo x > "./$n" || echo no; done; ls | wc -l',
        says="16\n",
    ),
    "a long path, and folders without end": Attack(
        "python3 -c 'import os\nfor _ in range(1100): os.mkdir(\"a\"); os.chdir(\"a\")\nopen(\"deep\", \"w\")'",
    ),
    "deeper than any path": Attack(
        "python3 -c 'import os\nfor _ in range(2500): os.mkdir(\"a\"); os.chdir(\"a\")\nopen(\"deep\", \"w\")\nos.chmod(\".\", 0)'",
    ),
    "many empty files": Attack("mkdir many; cd many; seq 4000 | xargs touch; ls | wc -l", says="4000\n"),
    "no rights": Attack(f"{SOLVE}; chmod 000 calc/double.py calc tests .; chmod 000 ~ /tmp", grades=SOLVED),
    "everything removed": Attack("rm -rf . /workspace ~ /tmp /* 2>/dev/null; ls -A /workspace", grades=BROKEN),
    "the workspace moved": Attack(
        "mv /workspace /w 2>&1; rmdir /workspace 2>&1; umount /workspace 2>&1",
        says="mv: .*\nrmdir: .*\numount: .*\n",
    ),
    "a setuid file": Attack(
        f"{SOLVE}; cp /usr/bin/id calc/id; chmod 6755 calc/id calc/double.py calc; ls -l calc/id | cut -c1-10",
        says="-rwsr-sr-x\n",
        grades=SOLVED,
    ),
    # --- out of the sandbox
    "programs with more rights": Attack(
        "su -c id root 2>&1; mount -t tmpfs x /tmp 2>&1; cp /usr/bin/id i; chmod 4755 i; ./i -u; "
        "unshare -Ur id 2>&1; nsenter -t 1 -m id 2>&1; chroot / id 2>&1; dmesg 2>&1; true",
        says="(Password: )?su: .*\nmount: .*(\n.*)?\n1000\nunshare: .*\nnsenter: .*\nchroot: .*\ndmesg: .*\n",
    ),
    "a read-only root": Attack(
        "for f in / /usr /etc /usr/local/bin /var/tmp /proc/sys/kernel /sys /sys/fs/cgroup /home /skillgate; do "
        "touch $f/MARK && echo wrote $f; done 2>/dev/null; echo x > /proc/sysrq-trigger; true",
        says="sh: 1: cannot create /proc/sysrq-trigger: .*\n",
    ),
    "what is held out": Attack(
        "ls /skillgate $TESTS $RESULTS 2>&1 | head -1; find / -name solution.patch -o -name doubles.py -o -name junit.py "
        "2>/dev/null; true",
        says="given\n",
    ),
    "the host through /proc": Attack(
        "cut -d' ' -f4 /proc/self/mountinfo | while read p; do case $p in *skillgate-*) ls -d $p;; esac; done 2>/dev/null; "
        "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c canary; ls /proc/1/root /proc/1/cwd /proc/1/fd 2>&1 | "
        "grep -c denied; echo MARK > /proc/1/fd/1; cat /proc/kcore /dev/mem 2>/dev/null | head -c1; ls -d /proc/[0-9]* | wc -l",
        says="0\n3\nsh: 1: cannot create /proc/1/fd/1: Permission denied\n[4-9]\n",
    ),
    "the engine and the network": Attack(
        "ls /var/run/docker.sock /run/docker.sock /.dockerenv-x 2>/dev/null; ls /sys/class/net; wc -l < /proc/net/route; "
        "python3 -c 'import socket as s; s.socket(s.AF_INET, s.SOCK_RAW, 1)' 2>&1 | tail -1; ss -xl 2>/dev/null | grep -c docker; true",
        says="lo\n[01]\nPermissionError: .*\n0\n",
    ),
    "kernel keys and rings": Attack(
        "python3 -c 'import ctypes as c\nl = c.CDLL(None, use_errno=True)\n"
        "for n in (248, 250, 321, 298, 425, 310, 169): print(l.syscall(n, 0, 0, 0, 0, 0), c.get_errno())'",
        says="(-1 (1|38|3|14|22)\n){7}",
    ),
    "a preloaded library": Attack(
        "cp /lib/x86_64-linux-gnu/libm.so.6 evil.so; echo /workspace/evil.so > /etc/ld.so.preload; "
        "echo LD_PRELOAD=/workspace/evil.so | tee ~/.pam_environment .env > .envrc; true",
        says="sh: 1: cannot create /etc/ld.so.preload: Read-only file system\n",
    ),
    # --- processes
    "killing everybody": Attack(
        "kill -9 -1 1; kill -STOP 1; for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || kill -9 ${p#/proc/}; done 2>/dev/null; echo alive",
        says="(sh: 1: kill: .*\n+)*alive\n",
    ),
    "processes that stay": Attack(
        "cat > /tmp/w <<'END'\n" + "import os, sys, time\n"
        "if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        "f = open('/workspace/kept-open', 'w')\n"
        "while True:\n    f.write('x'); f.flush(); open('/workspace/calc/double.py', 'w').write('double = lambda n: 2 * n')\nEND\n"
        "python3 /tmp/w MARK; nohup setsid sh -c 'sleep 300; MARK' >/dev/null 2>&1 & "
        "until [ -s kept-open ]; do :; done" + NEXT + "rm -f calc/double.py; cat /proc/[0-9]*/cmdline | tr -c [:print:] . | grep -c 'python3[.]/tmp/[w]'; sleep 0.1",
        says="0\n",
    ),
    "shared memory and queues": Attack(
        "dd if=/dev/zero of=/dev/shm/MARK bs=1M count=20 2>/dev/null; ls /dev/shm; df /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2; "
        "touch /dev/mqueue/MARK && echo queue",
        says="MARK\n65536\nqueue\n".replace("MARK", MARK),
    ),
    # --- output
    "binary output and commands to a terminal": Attack(
        "head -c 3000 /dev/urandom; printf '\\n::error::owned\\n::set-output name=x::y\\n\\033[2J\\033]0;x\\007'",
        says=r"(?s).*::error::owned.*",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_changes_no_grade_and_leaves_nothing(place: Arena, name: str) -> None:
    attack = ATTACKS[name]
    (run, failure, _), agent = place.attack(*attack.command.split(NEXT))
    assert re.fullmatch(attack.says, agent.output), agent.output
    assert failure is None, run.reason
    assert run.reason == attack.reason
    assert tuple((one.grader, one.passed) for one in run.grades) == tuple(
        zip(NAMES, attack.grades, strict=True)
    )
    assert run.wall_s < 20


class Limited(NamedTuple):
    """An attack on a limit: the failure it is recorded as, and the limit that ended its command."""

    command: str
    failure: Failure | None
    limit: Limit | None
    grades: tuple[bool, ...] = NOTHING


LIMITED = {
    "a huge file": Limited("head -c 10000000000 /dev/zero > calc/double.py", Failure.AGENT_DISK, Limit.DISK),
    "many huge files": Limited(
        "while :; do head -c 5000000 /dev/zero > f$((n = n + 1)); done", Failure.AGENT_DISK, Limit.DISK
    ),
    "a deleted file that grows": Limited(
        "exec 3> f; exec 4> /tmp/g; rm f /tmp/g; while :; do head -c 3000000 /dev/zero | tee /dev/fd/3 >&4; done",
        Failure.AGENT_DISK,
        Limit.DISK,
    ),
    "a sparse file": Limited("truncate -s 1T calc/double.py; truncate -s 60M x; ls -s x", None, None),
    "endless output": Limited("yes", Failure.AGENT_CLOCK, Limit.CLOCK),
    "a fork bomb": Limited("f() { f | f & }; f; sleep 60", Failure.AGENT_CLOCK, Limit.CLOCK),
    "burning": Limited(
        "for i in 1 2 3; do sh -c 'trap \"\" TERM; while :; do :; done' & done; wait", Failure.AGENT_CLOCK, Limit.CLOCK
    ),
    "a memory bomb": Limited("python3 -c 'x = b\"x\" * 10**9'", Failure.AGENT_MEMORY, Limit.MEMORY),
    "memory without a process": Limited(
        "dd if=/dev/zero of=/dev/shm/x bs=1M count=99 2>/dev/null; while :; do printf %04096d 0 >> /dev/shm/y || break; done",
        Failure.AGENT_MEMORY,
        Limit.MEMORY,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITED)
def test_an_attack_on_a_limit_is_ended_and_named(place: Arena, name: str) -> None:
    attack = LIMITED[name]
    (run, failure, _), agent = place.attack(
        f"echo {MARK} > /tmp/MARK; {attack.command}",
        "echo next",
        timeout_s=15 if attack.limit is Limit.DISK else 2,
    )
    assert agent.results[0].limit is attack.limit
    assert failure is attack.failure, run.reason
    if attack.failure is not None:
        assert (run.outcome, len(agent.results)) == (Outcome.LIMIT, 1)
        ended = (KILLED, 128 + signal.SIGXFSZ)  # by us, or by the kernel at the size of one file
        assert agent.results[0].exit_code in ended
        assert len(agent.output) <= OUTPUT_LIMIT
        assert run.reason.startswith("the agent used up its ")
    assert (
        tuple((one.grader, one.passed) for one in run.grades)[:2]
        == tuple(zip(NAMES, attack.grades, strict=True))[:2]
    )
    assert run.wall_s < 15


def test_who_forks_and_ends_all_the_time_does_not_look_idle(place: Arena) -> None:
    """A list of the processes shows it in three of four looks only."""
    suite = load_suite(place.folder)
    hop = [
        "python3",
        "-c",
        "import os\nwhile True:\n    try:\n        if os.fork(): os._exit(0)\n    except OSError: pass",
        MARK,
    ]
    with (
        Workspace.create(suite) as workspace,
        place.sandbox.session(workspace, Phase.AGENT, suite.tasks[0].limits) as session,
    ):
        inside: Any = session
        assert inside._is_idle()
        inside._container.exec_run(hop, user="1000:1000", detach=True)
        while inside._is_idle():  # until it has begun
            pass
        assert [inside._is_idle() for _ in range(40)] == [False] * 40
        assert (session.run("true", 5).exit_code, inside._is_idle()) == (0, True)


def test_what_an_agent_nests_does_not_stop_its_next_attempt(place: Arena) -> None:
    with (place.folder / "suite.yml").open("a") as file:
        file.write("attempts: 2\n")
    deep = 'python3 -c \'import os\nfor _ in range(2500): os.mkdir("a"); os.chdir("a")\nopen("deep", "w")\''
    agent = Attacker([f"{deep}; chmod 0 a; ln -s /etc e; chmod 000 ."], [SOLVE])
    run, failure, _ = place.play(agent)
    assert (run.outcome, failure) == (Outcome.PASSED, None), run.reason
    assert agent.prompts[1].count("Your last attempt") == 1


SKILL = b"---\nname: evil\ndescription: d\n---\nText.\n"


@pytest.mark.parametrize(
    "name", [f"../../../../{MARK}", f"a/../../../../../{MARK}"], ids=["up", "down and up"]
)
def test_a_skill_that_leaves_its_folder_is_no_run(place: Arena, name: str) -> None:
    skill = parse(Files.from_map({"SKILL.md": SKILL, name: b"x"}), "skills/evil")
    run, failure, cost_known = place.play(Attacker([]), skill)
    assert (run.outcome, failure, cost_known) == (Outcome.INVALID, Failure.SUITE_BROKEN, True)
    assert (place.folder.parent / MARK).exists() is False
