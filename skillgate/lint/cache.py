"""What checks gave last time -> kept on disk, keyed by the content of the skill, the rules and the tasks."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from skillgate import __version__
from skillgate.lint.engine import Checked
from skillgate.lint.rule import Rule
from skillgate.skill import MAX_FILE_BYTES, Files


class _Entry(msgspec.Struct, frozen=True):
    key: str
    checked: Checked


class Cache:
    """What checks gave last time, one file for each root; without a folder it knows nothing."""

    def __init__(self, folder: Path | None, root: Path, rules: Sequence[Rule]) -> None:
        self._root = root
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:24]
        self._file = folder / f"lint-{name}.msgpack" if folder is not None else None
        self._common = _hash(__version__, repr(rules)) if folder is not None else ""
        self._entries = self._load()

    def key(self, folder: str, *circumstances: object) -> str:
        """Identify a skill, its rules and what else decides; empty when it cannot be remembered."""
        if self._file is None:
            return ""
        files = Files.from_folder(self._root / folder)
        try:
            parts = (
                files.digest(MAX_FILE_BYTES + 1),  # no check reads more
                *sorted(files.known),
                *sorted(files.links),
                *sorted(files.programs or ()),
            )
        except OSError:
            return ""
        return _hash(self._common, *parts, repr(circumstances))

    def get(self, folder: str, key: str) -> Checked | None:
        """Return what the check gave, None when something has changed since."""
        entry = self._entries.get(folder)
        return entry.checked if entry and key and entry.key == key else None

    def put(self, keys: Mapping[str, str], checked: Mapping[str, Checked]) -> None:
        """Remember these beside the others, whole or not at all; a cache that cannot be written is none."""
        entries = {folder: _Entry(key, checked[folder]) for folder, key in keys.items() if key}
        new = {folder: entry for folder, entry in entries.items() if _is_text(folder, entry)}
        if self._file is None or all(self._entries.get(folder) == entry for folder, entry in new.items()):
            return
        part = self._file.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(msgspec.msgpack.encode(self._entries | new))
                part.replace(self._file)
            finally:
                part.unlink(missing_ok=True)

    def _load(self) -> dict[str, _Entry]:
        try:
            content = self._file.read_bytes() if self._file is not None else b""
            return msgspec.msgpack.decode(content, type=dict[str, _Entry]) if content else {}
        except (OSError, msgspec.DecodeError):
            return {}


def _is_text(folder: str, entry: _Entry) -> bool:
    """Say whether it can be written down: a file name, or an escape in YAML, may hold what is no text."""
    try:
        msgspec.msgpack.encode((folder, entry))
    except UnicodeEncodeError:
        return False
    return True


def _hash(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
