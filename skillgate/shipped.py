"""Where the rules and fixtures lie that travel with the program.

In an installed wheel they are inside the package; in a checkout, an editable install or the
tree of a GitHub Action they are beside it.
"""

from __future__ import annotations

from pathlib import Path

from skillgate.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """Return the folder `rules` or `fixtures`. Raises: UsageError when the install is broken."""
    for root in (_PACKAGE / "_shipped", _PACKAGE.parent):
        if (root / name).is_dir():
            return root / name
    raise UsageError(
        f"the folder {name}/ is missing from this installation", "Install skillgate-action again."
    )
