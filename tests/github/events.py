"""Webhook payloads as GitHub sent them, and changes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EVENTS = Path(__file__).parents[1] / "data" / "events"


def read_payload(name: str = "pull_request.opened", **changes: object) -> dict[str, Any]:
    """Read a real payload; a change is named by its path, with `__` for the dots."""
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_bytes())
    for path, value in changes.items():
        *way, last = path.split("__")
        inner = found
        for step in way:
            inner = inner[step]
        inner[last] = value
    return found
