"""peers/traps.yml -> small repositories on disk, one for each trap; traps.yml says what its words mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from skillgate.document import decode
from skillgate.values import Struct

DATA = Path(__file__).resolve().parent / "peers"


class File(Struct, kw_only=True):
    """A file of a trap that is more than its text."""

    text: str = ""
    encoding: str = "utf-8"
    executable: bool = False
    link: str | None = None


Content = str | File


class Trap(Struct, kw_only=True, omit_defaults=True):
    """One fault, or a harmless text; traps.yml says what the fields mean."""

    id: str
    group: str
    says: str
    caught: str
    silent: bool = False
    layout: str | None = None
    folder: str = "release-notes"
    lines: dict[str, str | None] = {}
    add: str = ""
    skill: Content | None = None
    files: dict[str, Content] = {}
    tree: dict[str, Content] = {}
    config: str | None = None


class Traps(Struct, kw_only=True):
    """All of traps.yml."""

    texts: dict[str, str]
    traps: tuple[Trap, ...]


CLEAN = Trap(id="clean", group="", says="", caught="")


def read_traps() -> Traps:
    return decode((DATA / "traps.yml").read_text(encoding="utf-8"), Traps, "traps.yml")


def write_trap(trap: Trap, texts: Mapping[str, str], root: Path, layout: str = "skills") -> Path:
    """Write one trap as a small repository at `root`; return the folder of its skills."""
    layout = trap.layout or layout
    (root / layout).mkdir(parents=True, exist_ok=True)
    skill = trap.skill if trap.skill is not None else _changed(texts["clean"], trap)
    folder = f"{layout}/{trap.folder}"
    tree = {f"{folder}/SKILL.md": skill} | {f"{folder}/{path}": text for path, text in trap.files.items()}
    if trap.tree:
        tree = {re.sub("^skills/", f"{layout}/", path): text for path, text in trap.tree.items()}
    if trap.config is not None:
        tree["skillgate.yml"] = trap.config
    for path, content in tree.items():
        for number, name in _numbered(path):
            _write(root / name, content if isinstance(content, File) else File(text=content), texts, number)
    return root / layout


def _changed(clean: str, trap: Trap) -> str:
    """Replace lines of the frontmatter and add to the body."""
    _, head, body = clean.split("---\n", 2)
    lines = dict(line.split(": ", 1) for line in head.splitlines()) | trap.lines
    head = "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)
    return f"---\n{head}---\n{body}\n{trap.add.rstrip()}\n" if trap.add else f"---\n{head}---\n{body}"


def _numbered(path: str) -> Iterator[tuple[int, str]]:
    span = re.search(r"\{(\d+)\.\.(\d+)\}", path)
    if span is None:
        yield 0, path
        return
    for number in range(int(span[1]), int(span[2]) + 1):
        yield number, path.replace(span[0], str(number))


def _write(path: Path, file: File, texts: Mapping[str, str], number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.link is not None:
        path.symlink_to(file.link)
        return
    text = file.text.replace("{n}", str(number))
    for name, value in texts.items():
        text = text.replace(f"{{{name}}}", value)
    while (expanded := re.sub(r"\{(\d+) x ([^{}]*)\}", lambda many: int(many[1]) * many[2], text)) != text:
        text = expanded
    text = f"{text.rstrip()}\n" if text else ""
    path.write_bytes(_encoded(text, file.encoding))
    if file.executable:
        path.chmod(0o755)


def _encoded(text: str, encoding: str) -> bytes:
    match encoding:
        case "windows-lines":
            return text.replace("\n", "\r\n").encode()
        case "mixed-lines":
            head, rest = text[: len(text) // 2], text[len(text) // 2 :]
            return (head + rest.replace("\n", "\r\n")).encode()
        case _:
            return text.encode(encoding)
