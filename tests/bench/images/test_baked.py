"""Which folders of an image are hidden, from the names of its files."""

from __future__ import annotations

import tarfile
from pathlib import PurePosixPath

import pytest

from skillgate.bench.docker import HOME, TEMP, TESTS, WORKSPACE
from skillgate.bench.images.baked import MOUNTED, Baked, find_baked


def members(*names: str) -> list[tarfile.TarInfo]:
    """Return members for `file`, `folder/` and `link -> target`, with the folders above them."""
    made: dict[str, tarfile.TarInfo] = {}
    for name in names:
        path, _, target = name.partition(" -> ")
        for folder in [*reversed(PurePosixPath(path).parents)][1:]:
            made[str(folder)] = member(str(folder), tarfile.DIRTYPE)
        kind = tarfile.SYMTYPE if target else tarfile.DIRTYPE if path.endswith("/") else tarfile.REGTYPE
        made[path.rstrip("/")] = member(path.rstrip("/"), kind, target)
    return list(made.values())


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("names", "folders", "skills"),
    [
        (["usr/bin/python3", "root/.bashrc", "root/.claude/settings.json"], [], []),
        (["root/.claude/skills/a/SKILL.md"], ["/root/.claude/skills"], ["/root/.claude/skills/a"]),
        (["home/x/.agents/skills/"], ["/home/x/.agents/skills"], []),  # empty today, filled by an entrypoint
        (
            ["opt/.codex/skills/a/b/SKILL.md", "srv/.gemini/skills/c/SKILL.md"],
            ["/opt/.codex/skills", "/srv/.gemini/skills"],
            ["/opt/.codex/skills/a/b", "/srv/.gemini/skills/c"],
        ),
        (
            ["root/.opencode/skill/a/SKILL.md", "root/.config/opencode/skill/b/SKILL.md"],
            ["/root/.config/opencode/skill", "/root/.opencode/skill"],
            ["/root/.config/opencode/skill/b", "/root/.opencode/skill/a"],
        ),
        (
            ["etc/claude-code/.claude/skills/a/SKILL.md", "etc/codex/config.toml", "etc/gemini-cli/s.json"],
            ["/etc/claude-code", "/etc/codex", "/etc/gemini-cli"],
            ["/etc/claude-code/.claude/skills/a"],
        ),
        (["root/.claude/plugins/x/hooks.json"], ["/root/.claude/plugins"], []),
        (["root/.gemini/extensions/x/y"], ["/root/.gemini/extensions"], []),
        (["root/.vim/plugins/x", "usr/lib/plugins/x", "opt/skills/one.txt"], [], []),
        (["root/skills/a/SKILL.md"], ["/root/skills"], ["/root/skills/a"]),
        (["mnt/skills/public/pdf/SKILL.md"], ["/mnt/skills"], ["/mnt/skills/public/pdf"]),
        (["skills/a/SKILL.md"], ["/skills"], ["/skills/a"]),
        # one that no client finds is told of, not hidden: its folder may hold anything else
        (["opt/tool/SKILL.md", "SKILL.md"], [], ["/", "/opt/tool"]),
        # a library's own
        (
            [
                "usr/lib/python3/dist-packages/x/skills/a/SKILL.md",
                "opt/.venv/lib/python3.12/site-packages/x/skills/__init__.py",
                "opt/go/mod/example.com/x@v1/skills/a/SKILL.md",
            ],
            [],
            ["/opt/go/mod/example.com/x@v1/skills/a", "/usr/lib/python3/dist-packages/x/skills/a"],
        ),
        (
            ["node_modules/x/.claude/skills/a/SKILL.md"],
            ["/node_modules/x/.claude/skills"],
            ["/node_modules/x/.claude/skills/a"],
        ),
        # what a run mounts something over is not there
        (
            [
                "workspace/.claude/skills/a/SKILL.md",
                "home/agent/.claude/skills/a/SKILL.md",
                "tmp/skills/a/SKILL.md",
            ],
            [],
            [],
        ),
        # only the outermost; a name that merely begins alike is another folder
        (
            [
                "a/.x/skills/skills/b/SKILL.md",
                "a/.x/skills-2/c/SKILL.md",
                "a/.x/skills/z/.y/skill/d/SKILL.md",
            ],
            ["/a/.x/skills"],
            ["/a/.x/skills-2/c", "/a/.x/skills/skills/b", "/a/.x/skills/z/.y/skill/d"],
        ),
    ],
)
def test_what_an_image_was_baked_with(names: list[str], folders: list[str], skills: list[str]) -> None:
    assert find_baked(members(*names)) == Baked(tuple(folders), tuple(skills))


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        (["root/.claude/skills -> /opt/lib", "opt/lib/a/x"], ["/opt/lib"]),
        (["root/.claude/skills -> ../../opt/lib", "opt/lib/a/x"], ["/opt/lib"]),
        (["root/.claude -> conf", "root/conf/skills/x"], []),  # no skill in it: nothing to hide
        (["root/.claude/skills -> /one/two", "one -> opt", "opt/two/x"], ["/opt/two"]),
        (["root/.claude/skills -> ../../../../opt/lib", "opt/lib/x"], ["/opt/lib"]),
        # it would hide the skill under test, or stop every run
        (["root/.claude/skills -> /workspace/.claude/skills", "workspace/.claude/skills/x"], []),
        (["root/.claude/skills -> /opt/a-file", "opt/a-file"], []),
        (["root/.claude/skills -> /nowhere"], []),
        (["root/.claude/skills -> skills"], []),
        (["a/.x/skills -> /b/.x/skills", "b/.x/skills -> /a/.x/skills"], []),
        (["root/.claude/skills -> /"], []),
    ],
)
def test_a_link_counts_as_what_it_leads_to(names: list[str], folders: list[str]) -> None:
    assert find_baked(members(*names)).folders == tuple(folders)


@pytest.mark.parametrize("style", ["./{}", "/{}", "{}/"])
def test_every_spelling_of_a_member(style: str) -> None:
    names = [member(style.format("root/.claude/skills"), tarfile.DIRTYPE)]
    assert find_baked(names).folders == ("/root/.claude/skills",)


def test_it_knows_what_a_run_mounts() -> None:
    for mounted in (WORKSPACE, HOME, TEMP, TESTS):
        assert any(mounted == place or mounted.startswith(f"{place}/") for place in MOUNTED)
