"""The image of each suite in the Docker sandbox: looked up, pulled or built, and searched for skills.

Which image a suite gets is decided once per process, so both arms run in the same one whatever
happens to a tag or a folder meanwhile. What was built is found again by the content of all it
was built from. Images are never removed: `docker image prune -a --filter label=skillgate=1`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable
from pathlib import Path
from typing import NamedTuple, Protocol

from docker.models.images import Image as EngineImage
from docker.types import Mount

from skillgate.bench.host.owner import IMAGE_LABEL
from skillgate.bench.images.baked import Baked
from skillgate.bench.images.blueprint import Blueprint, by_dockerfile, by_recipe
from skillgate.bench.images.engine import build_image, get_image, pull_image, search_image
from skillgate.bench.images.recipe import Environment
from skillgate.bench.sandbox import Phase, environment
from skillgate.errors import PrerequisiteError

BUILT = "skillgate-built"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OURS = frozenset(environment(path="", home="", temp="", tests="", results="", phase=Phase.GRADE))


class Image(NamedTuple):
    """An image of this machine, with what a run gets from it.

    `digest` is what a registry calls it, its id when none does; `env` has no name of ours;
    `baked` are the folders to hide, `skills` all that hold a SKILL.md.
    """

    name: str
    id: str  # containers are made from it: a tag may move between two arms
    digest: str
    path: str
    env: tuple[str, ...] = ()
    baked: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


class Source(Protocol):
    """What of a suite decides its image; at most one of the last three is set."""

    @property
    def name(self) -> str:
        """Return what errors call it."""

    @property
    def folder(self) -> Path:
        """Return where `dockerfile` is looked for."""

    @property
    def repo(self) -> Path:
        """Return the repository that `environment` sets up."""

    @property
    def image(self) -> str | None:
        """Return the name of an image to look up or pull."""

    @property
    def dockerfile(self) -> str | None:
        """Return the path of a Dockerfile to build."""

    @property
    def environment(self) -> Environment | None:
        """Return how to set the repository up."""


class Images:
    """Images by suite; safe to use from several threads, which wait for one another's build."""

    def __init__(self) -> None:
        self._found: dict[str, Image] = {}
        self._chosen: dict[Hashable, Image] = {}
        self._locks = _Locks()

    def of(self, source: Source, default: str | None) -> Image:
        """Return the image of a suite, that of the name `default` if it says nothing; always the same one.

        Raises: PrerequisiteError when no engine answers or no image is named, ImageMissing,
            ImageBuildFailed; SuiteError when nothing can be built from what the suite says.
        """
        asked = (source.folder, source.repo, source.image, source.dockerfile, source.environment, default)
        with self._locks.of(asked):
            if asked not in self._chosen:
                image = self._choose(source, default)
                baked = _search(image.id)
                self._chosen[asked] = image._replace(baked=baked.folders, skills=baked.skills)
            return self._chosen[asked]

    def find(self, name: str) -> Image:
        """Look an image up or pull it, once; it is not searched. Raises: PrerequisiteError, ImageMissing."""
        with self._locks.of(name):
            if name not in self._found:
                self._found[name] = _record(name, get_image(name) or pull_image(name))
            return self._found[name]

    def describe(self) -> dict[str, str]:
        """Return the digest of each image used, also of those that others were built from.

        A tag had it when it was pulled; only a name with a digest gives the same image again.
        """
        used = {image.name: image.digest for image in (*self._found.values(), *self._chosen.values())}
        return {f"image {name}": digest for name, digest in sorted(used.items())}

    def _choose(self, source: Source, default: str | None) -> Image:
        if source.environment is not None:
            return self._build(by_recipe(source.folder, source.repo, source.environment), source.name)
        if source.dockerfile is not None:
            return self._build(by_dockerfile(source.folder, source.dockerfile), source.name)
        name = source.image or default
        if name is None:
            hint = "Set `run.image` in skillgate.yml, or `image`, `dockerfile` or `environment` in suite.yml."
            raise PrerequisiteError("no image is named for the docker sandbox", hint)
        return self.find(name)

    def _build(self, blueprint: Blueprint, suite: str) -> Image:
        key = blueprint.key([self.find(base).id for base in blueprint.bases])
        tag = f"{BUILT}:{key[:32]}"
        with self._locks.of(tag):
            built = get_image(tag)
            if built is None or built.labels.get(IMAGE_LABEL) != key:
                built = build_image(blueprint, tag, key, suite)
            return _record(tag, built)


def masks(image: Image) -> list[Mount]:
    """Return an empty, read-only folder to mount over each of those that hold baked skills or settings."""
    return [Mount(folder, None, type="tmpfs", read_only=True, tmpfs_mode=0o555) for folder in image.baked]


def _record(name: str, found: EngineImage) -> Image:
    digest = (found.attrs.get("RepoDigests") or [found.id])[0]
    variables = [pair for pair in (found.attrs.get("Config") or {}).get("Env") or () if "=" in pair]
    path = dict(pair.split("=", 1) for pair in variables).get("PATH", DEFAULT_PATH)
    env = tuple(pair for pair in variables if pair.split("=", 1)[0] not in OURS)
    return Image(name, str(found.id), str(digest), path, env)


class _Locks:
    """One lock for each thing."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: defaultdict[Hashable, threading.Lock] = defaultdict(threading.Lock)

    def of(self, thing: Hashable) -> threading.Lock:
        with self._guard:
            return self._locks[thing]


_searched: dict[str, Baked] = {}  # of a process, not of a sandbox: what an id means never changes
_searching = _Locks()


def _search(image_id: str) -> Baked:
    with _searching.of(image_id):
        if image_id not in _searched:
            _searched[image_id] = search_image(image_id)
        return _searched[image_id]
