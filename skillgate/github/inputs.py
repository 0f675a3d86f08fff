"""The environment of a step of action.yml -> its inputs, and what the runner says; all checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from skillgate.errors import UsageError
from skillgate.github.event import Mode
from skillgate.values import Struct

PREFIX = "SKILLGATE_"
_RUNNER = (
    *("GITHUB_API_URL", "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_OUTPUT", "GITHUB_RUN_ID"),
    *("GITHUB_SERVER_URL", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "RUNNER_TEMP"),
)


class Inputs(Struct, kw_only=True, rename="kebab"):
    """The inputs of action.yml, by their names there; the token is kept out of every value."""

    mode: Mode = Mode.GATE
    config: Annotated[str, msgspec.Meta(pattern=r"^[^/]")] | None = None
    agent: str | None = None
    model: str | None = None
    budget_usd: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    sandbox: Literal["docker", "local"] | None = None
    comment_id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")] = "default"
    comment: bool = True
    status: bool = False
    label: str = ""
    report: str | None = None
    setup_agent: bool = True
    out: str | None = None


def read_inputs(env: Mapping[str, str]) -> Inputs:
    """Read the inputs; an empty one counts as not given, as it does in a workflow.

    Raises: UsageError naming the input.
    """
    names = Inputs.__struct_encode_fields__
    given = {name: env.get(PREFIX + name.replace("-", "_").upper(), "").strip() for name in names}
    try:
        return msgspec.convert({k: v for k, v in given.items() if v}, Inputs, strict=False)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        name = where.rstrip("`")
        raise UsageError(
            f"input `{name}` is `{given.get(name, '')}`: {problem[0].lower()}{problem[1:]}",
            "Correct it under `with:` in the workflow.",
        ) from None


def require_runner(env: Mapping[str, str]) -> None:
    """Refuse before anything is spent what could not be published afterwards. Raises: UsageError."""
    missing = [name for name in _RUNNER if not env.get(name)]
    if missing:
        hint = "This command runs inside GitHub Actions; elsewhere use `skillgate gate`."
        raise UsageError(f"not set in the environment: {', '.join(missing)}", hint)
