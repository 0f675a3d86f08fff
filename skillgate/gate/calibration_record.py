"""A calibration record on disk -> what a report may cite of it: only what speaks of the same suites."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from skillgate.core import Calibration
from skillgate.errors import UsageError

FILE_NAME = "calibration.json"
SCHEMA = 1


def load_record(path: Path) -> Calibration | None:
    """Read a record, None where there is none. Raises: UsageError when it is damaged."""
    hint = "Write it again with `skillgate calibrate`, or remove it."
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict) and value.get("schema", SCHEMA) != SCHEMA:
            raise UsageError(f"{path}: of another version of skillgate (schema {value['schema']})", hint)
        return msgspec.convert(value, Calibration)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as problem:  # msgspec's errors are ValueErrors
        raise UsageError(f"{path}: not a calibration that can be read ({problem})", hint) from None


def fitting(
    record: Calibration | None, suites: Mapping[str, str], agent: str, model: str
) -> tuple[Calibration | None, str]:
    """Return the record if it speaks of these suites, this agent and this model, else why it does not.

    Args: suites: their digests by name, all that judge together.
    """
    if record is None:
        return None, "nobody has calibrated these suites: `skillgate calibrate`"
    checks: tuple[tuple[str, Any, Any, Callable[[Any], str]], ...] = (
        ("the agent", record.agent, agent, str),
        ("the model", record.model, model, str),
        ("the suites", sorted(record.suites), sorted(suites), ", ".join),
    )
    for what, had, has, show in checks:
        if had != has:
            return None, f"the calibration is of {what} {show(had)}, not {show(has)}"
    for name, digest in suites.items():
        if not record.suites[name]:
            return None, f"the calibration does not know of which version of the suite {name} its runs are"
        if record.suites[name] != digest:
            return None, f"the suite {name} has changed since it was calibrated"
    return record, ""
