"""The file names of an image -> the folders in it that an agent would take skills or settings from.

An image may come with the skills, plugins and settings of whoever made it, in both arms: the
sandbox hides these folders and the report lists the skills. Pure: the caller reads the image.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

MOUNTED = ("/workspace", "/home/agent", "/tmp", "/skillgate", "/proc", "/sys", "/dev")  # noqa: S108
_SKILLS = ("skill", "skills")
_PLUGINS = ("plugins", "extensions")  # they bring skills, hooks and commands
_AGENTS = (".agents", ".claude", ".codex", ".copilot", ".cursor", ".gemini", ".opencode")
_OPERATOR = ("/etc/claude-code", "/etc/codex", "/etc/gemini-cli", "/etc/opencode")
# What a library keeps in a folder `skills` is its own: to hide it would break what was installed.
_PACKAGES = ("site-packages", "dist-packages", "node_modules")
_MODULES = ("/opt/go/mod/", "/opt/cargo/registry/")
_MAX_LINKS = 40


class Baked(NamedTuple):
    """`folders`: the outermost ones to hide; `skills`: every folder with a SKILL.md, hidden or not."""

    folders: tuple[str, ...]
    skills: tuple[str, ...]


def find_baked(members: Iterable[tarfile.TarInfo]) -> Baked:
    """Look through the members of an image's file system. A link counts as what it leads to."""
    folders, links, found, skills = set[str](), dict[str, str](), set[str](), set[str]()
    for member in members:
        path = posixpath.normpath(f"/{member.name.lstrip('/')}")
        if member.isdir():
            folders.add(path)
        elif member.issym():
            links[path] = member.linkname
        if member.isdir() or member.issym():
            found |= {path} if _holds_settings(PurePosixPath(path)) else set()
        elif posixpath.basename(path) == "SKILL.md":
            skills.add(posixpath.dirname(path))
            found |= set(_skill_folders(PurePosixPath(path)))
    real = {_resolve(path, links) for path in found} & folders
    shown = {path for path in skills if not _is_mounted(path)}
    return Baked(tuple(_outermost(path for path in real if not _is_mounted(path))), tuple(sorted(shown)))


def _holds_settings(path: PurePosixPath) -> bool:
    """Say whether agents look there, whatever it holds today."""
    agent, above = path.parent.name, path.parent.parent.name
    if path.name in _SKILLS:
        return agent.startswith(".") or above == ".config"
    return (path.name in _PLUGINS and agent in _AGENTS) or str(path) in _OPERATOR


def _skill_folders(path: PurePosixPath) -> Iterator[str]:
    """Yield the folders called skills that this SKILL.md lies in."""
    if set(path.parts) & set(_PACKAGES) or str(path).startswith(_MODULES):
        return
    for folder in path.parent.parents:
        if folder.name in _SKILLS:
            yield str(folder)


def _resolve(path: str, links: dict[str, str]) -> str:
    """Follow links as inside of the image; return "" for a circle."""
    for _ in range(_MAX_LINKS):
        parts = PurePosixPath(path).parts
        heads = (posixpath.join(*parts[: n + 1]) for n in range(len(parts)))
        link = next((head for head in heads if head in links), None)
        if link is None:
            return path
        rest = path[len(link) :].lstrip("/")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(link), links[link], rest))
    return ""


def _is_mounted(path: str) -> bool:
    """Say whether a run sees something else there."""
    return any(path == mount or path.startswith(f"{mount}/") for mount in MOUNTED)


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    last = None
    for path in sorted(paths, key=lambda path: PurePosixPath(path).parts):
        if last is None or not path.startswith(f"{last}/"):
            last = path
            yield path
