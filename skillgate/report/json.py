"""GateReport <-> report.json: the saved form that every renderer can redraw from.

Stable: the same report gives the same bytes. Reading checks schema version and every type.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

from skillgate.core import SCHEMA_VERSION, GateReport
from skillgate.errors import ReportError

_SURROGATE = re.compile("[\ud800-\udfff]")
_HINT = "Give the report.json of a gate, unchanged."


def dump(report: GateReport) -> str:
    """Write the report as indented JSON; fields keep the order of their types."""
    return write(report)


def write(value: object) -> str:
    """Write any of our values as indented JSON that is always valid UTF-8."""
    text = json.dumps(
        msgspec.to_builtins(value, order="deterministic"), indent=2, ensure_ascii=False, allow_nan=False
    )
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text) + "\n"


def load(text: str, path: str) -> GateReport:
    """Read a saved report; `path` names it in errors.

    Raises: ReportError when it is no report, or of another schema version.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        _check_schema(value, path)
        return msgspec.convert(value, GateReport)
    except json.JSONDecodeError as problem:
        raise ReportError(f"{path}:{problem.lineno}: not JSON: {problem.msg}", _HINT) from None
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at `$.")
        spot = f"{where.rstrip('`')}: " if where else ""
        raise ReportError(f"{path}: {spot}{what[0].lower()}{what[1:]}", _HINT) from None
    except (ValueError, RecursionError) as problem:
        raise ReportError(f"{path}: not JSON: {problem}", _HINT) from None


def _check_schema(value: Any, path: str) -> None:
    if not isinstance(value, dict) or "schema" not in value:
        raise ReportError(f"{path}: not a report of skillgate: it has no `schema`", _HINT)
    reports = value.get("reports")
    parts = [value, *(reports if isinstance(reports, list) else [])]
    for part in parts:
        version = part.get("schema", SCHEMA_VERSION) if isinstance(part, dict) else SCHEMA_VERSION
        if version != SCHEMA_VERSION:
            hint = "Read it with the version of skillgate that wrote it, or run the gate again."
            raise ReportError(f"{path}: schema {version!r}, this version reads {SCHEMA_VERSION}", hint)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
