"""`skillgate weigh`: a folder and a model on the command line -> a Weighing.

Where the API of a model does not count, the tokenizer of the package does, and the user is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from skillgate.errors import PrerequisiteError, SkillgateError, UsageError
from skillgate.model_tokens import is_countable, model_counter
from skillgate.prices import input_price, shipped_prices
from skillgate.skill import SKILL_FILE, Files, Skill, parse
from skillgate.values import InputPrice
from skillgate.weights import CL100K, Counter, Weighing, weigh


class Request(NamedTuple):
    """What to weigh and for which model; the price is that of the table unless it is given."""

    folder: Path
    model: str | None = None
    usd_per_mtok: float | None = None
    key: str | None = None
    base_url: str | None = None

    def __repr__(self) -> str:
        return f"Request({self.folder}, {self.model})"


def weigh_folder(request: Request, tell: Callable[[SkillgateError], None]) -> Weighing:
    """Weigh a skill on disk; `tell` hears what is less than was asked for. Raises: UsageError."""
    folder = request.folder.parent if request.folder.name == SKILL_FILE else request.folder
    if not (folder / SKILL_FILE).is_file():
        raise UsageError(f"{folder}: there is no {SKILL_FILE}", "Name the folder of a skill.")
    skill = parse(Files.from_folder(folder), folder.as_posix())
    price = _price(request, tell)
    if request.model and request.key and is_countable(request.model):
        try:
            return _weigh_by_model(skill, request.model, request.key, request.base_url, price)
        except PrerequisiteError as problem:
            tell(PrerequisiteError(f"{problem.message}; counted with {CL100K.name} instead", problem.hint))
    return weigh(skill, price=price)


def _weigh_by_model(
    skill: Skill, model: str, key: str, base_url: str | None, price: InputPrice | None
) -> Weighing:
    counter = Counter(f"{model} itself", model_counter(model, key, base_url))
    return weigh(skill, counter, price)


def _price(request: Request, tell: Callable[[SkillgateError], None]) -> InputPrice | None:
    if request.usd_per_mtok is not None:
        if not 0 <= request.usd_per_mtok < math.inf:
            raise UsageError("--input-usd-per-mtok is no amount", "Give dollars, for instance 2.5.")
        return InputPrice(usd_per_mtok=request.usd_per_mtok, source="as given")
    if request.model is None:
        return None
    price = shipped_prices().price(request.model)
    if price is None:
        known = ", ".join(shipped_prices().models)
        hint = f"Give it with --input-usd-per-mtok, or name one of {known}."
        tell(UsageError(f"no price is known for `{request.model}`", hint))
        return None
    return input_price(price)
