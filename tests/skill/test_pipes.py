from __future__ import annotations

import os
from pathlib import Path

from skillgate.skill import Files, parse


def test_a_pipe_in_a_skill_is_unreadable_and_does_not_hang(tmp_path: Path) -> None:
    for name in ("SKILL.md", "notes.md"):
        os.mkfifo(tmp_path / name)
    skill = parse(Files.from_folder(tmp_path), "skills/x")
    assert [source.facts.unreadable for source in skill.sources] == ["not a plain file", "not a plain file"]
