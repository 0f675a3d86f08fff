"""Regular expressions that are compiled when first used: most commands need few of them."""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split", "pattern")


class _Lazy:
    def __init__(self, pattern: str, flags: int) -> None:
        self._compile = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(*self._compile)
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return self.__dict__[name]


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return what works like the compiled pattern."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))
