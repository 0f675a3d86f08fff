"""Questions to the Docker engine before anything runs: get, pull, build and search an image.

Each is asked on a connection of its own and ends in an answer or a PrerequisiteError with a way
on; what an engine, a registry or a set-up said is cut to a few lines that only show.
"""

from __future__ import annotations

import gc
import re
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, cast

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from docker.models.images import Image as EngineImage
from docker.utils import parse_repository_tag
from urllib3.exceptions import HTTPError, ReadTimeoutError

from skillgate.bench.host.owner import IMAGE_LABEL, LABEL, owner_labels
from skillgate.bench.images.baked import Baked, find_baked
from skillgate.bench.images.blueprint import Blueprint
from skillgate.errors import PrerequisiteError, writing

T = TypeVar("T")
ENGINE_ERRORS = (DockerException, OSError)  # requests' errors are OSErrors
SILENT_S = 1800  # a step that says nothing for so long hangs

_SHOWN_LINES, _SHOWN_CHARS = 15, 20_000
_CHUNK = 1024 * 1024
_GET_ENGINE = "Install Docker and start it, or point DOCKER_HOST to an engine; `docker info` must answer."
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class ImageMissing(PrerequisiteError):
    """The image is not on this machine and cannot be pulled."""


class ImageBuildFailed(PrerequisiteError):
    """The set-up of an image failed."""


def ask_engine(question: Callable[[docker.DockerClient], T]) -> T:
    """Ask the engine before anything runs. Raises: PrerequisiteError, or what the question raises."""
    with warnings.catch_warnings():  # the SDK leaves a socket that did not connect to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with closing(docker.from_env()) as client:
                return question(client)
        except APIError as problem:
            hint = "`docker info` and `docker system df` tell more; the engine's log tells most."
            error = PrerequisiteError(f"the Docker engine failed: {_clean(_explain(problem))}", hint)
        except ENGINE_ERRORS as problem:
            error = PrerequisiteError(f"no Docker engine answers: {problem}", _GET_ENGINE)
        gc.collect()
    raise error


def get_image(name: str) -> EngineImage | None:
    """Return an image of this machine, None when it is not there. Raises: PrerequisiteError."""
    return ask_engine(lambda client: _get(client, name))


def pull_image(name: str) -> EngineImage:
    """Get an image from its registry. Raises: PrerequisiteError, ImageMissing."""
    return ask_engine(lambda client: _pull(client, name))


def build_image(blueprint: Blueprint, tag: str, key: str, suite: str) -> EngineImage:
    """Build an image. Raises: PrerequisiteError, ImageBuildFailed, SuiteError when a file cannot be read."""
    room = writing(Path(tempfile.gettempdir()), "Let TMPDIR name a folder with some space.")
    with room, tempfile.TemporaryFile() as context:
        blueprint.pack(context)
        options: dict[str, Any] = {
            "fileobj": context,
            "custom_context": True,
            "dockerfile": blueprint.name,
            "tag": tag,
            "labels": {LABEL: "1", IMAGE_LABEL: key},
            "network_mode": None if blueprint.network else "none",
            "timeout": SILENT_S,
            "rm": True,
            "forcerm": True,  # else the container of a step that failed stays
        }
        return ask_engine(lambda client: _build(client, options, suite))


def search_image(image_id: str) -> Baked:
    """Look through the files of an image, of which nothing is started. Raises: PrerequisiteError."""
    return ask_engine(lambda client: _search(client, image_id))


def _get(client: docker.DockerClient, name: str) -> EngineImage | None:
    try:
        return client.images.get(name)
    except ImageNotFound:
        return None
    except APIError as problem:
        if not problem.is_client_error():
            raise
        hint = "Write NAME, NAME:TAG or NAME@sha256:..., in lower case."
        raise ImageMissing(f"`{name}` names no image: {_clean(_explain(problem))}", hint) from None


def _pull(client: docker.DockerClient, name: str) -> EngineImage:
    repository, tag = parse_repository_tag(name)
    try:
        events = client.api.pull(repository, tag or "latest", stream=True, decode=True)
        said = [str(event["error"]) for event in _events(events) if "error" in event]
    except DockerException as problem:
        said = [_explain(problem)]
    found = None if said else _get(client, name)
    if found is None or not _has_digest(found, name):
        why = _clean(said[-1] if said else "the registry sent another one")
        hint = f"Check the name and the network until `docker pull {name}` works, build it, or name another."
        raise ImageMissing(f"the image {name} is not on this machine and cannot be pulled: {why}", hint)
    return found


def _has_digest(image: EngineImage, name: str) -> bool:
    _, at, digest = name.partition("@")
    return not at or any(known.endswith(f"@{digest}") for known in image.attrs.get("RepoDigests") or ())


def _build(client: docker.DockerClient, options: dict[str, Any], suite: str) -> EngineImage:
    step, output, problem = "before its first step", "", ""
    try:
        for event in _events(client.api.build(decode=True, **options)):
            said = str(event.get("stream", ""))
            problem = problem or str(event.get("error", ""))
            if re.match(r"Step \d+/\d+ : ", said):
                step, output = said.strip(), ""
            elif not said.startswith((" ---> ", "Removing intermediate container ")):
                output = (output + said)[-_SHOWN_CHARS:]
    except DockerException as refused:
        problem = _explain(refused)
    built = None if problem else _get(client, options["tag"])
    if built is None:
        raise _build_error(suite, step, output, problem or "the engine lost the image")
    return built


def _build_error(suite: str, step: str, output: str, problem: str) -> ImageBuildFailed:
    lines = [line for raw in output.replace("\r", "\n").splitlines() if (line := _clean(raw)).strip()]
    shown = "".join(f"\n  {line}" for line in (*lines[-_SHOWN_LINES:], _clean(problem)))
    hint = "What a step needs must be in the base image, in the repository or, if `network` is true, there."
    if "no space left" in f"{output}{problem}".lower():
        hint = "The disk of the engine is full: `docker system df` tells of what."
    return ImageBuildFailed(f"the image of suite `{suite}` was not built: {_clean(step)}{shown}", hint)


def _explain(problem: DockerException) -> str:
    return str(getattr(problem, "explanation", None) or problem)


def _clean(text: str) -> str:
    """Make one short line that only shows."""
    line = _COLOUR.sub("", " ".join(text.split("\n"))).expandtabs(4)
    line = "".join(character for character in line if character.isprintable())
    return line if len(line) <= 400 else f"{line[:400]}…"


def _events(stream: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what the engine says; requests leaves the errors of the library below as they are."""
    try:
        yield from stream
    except ReadTimeoutError:
        raise DockerException(f"nothing was said for {SILENT_S} s") from None
    except HTTPError as problem:
        raise OSError(str(problem)) from problem


def _search(client: docker.DockerClient, image_id: str) -> Baked:
    container = client.containers.create(image_id, ["true"], labels=owner_labels(), network_mode="none")
    try:
        chunks = cast(Iterator[bytes], container.export(chunk_size=_CHUNK))
        with tarfile.open(fileobj=cast(Any, _Chunks(chunks)), mode="r|", bufsize=_CHUNK) as tar:
            baked = find_baked(_members(tar))
        for _ in chunks:  # to its end, so that the connection is given back
            pass
        return baked
    finally:
        container.remove(force=True, v=True)


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := tar.next()) is not None:
        yield member
        tar.members = []  # type: ignore[attr-defined]  # else it keeps every one


class _Chunks:
    """Chunks as a file that is read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def read(self, _size: int = -1) -> bytes:
        """Return the next chunk; its reader takes any size."""
        return next(self._chunks, b"")
