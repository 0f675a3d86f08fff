"""Where results go: stdout, and nothing else goes there."""

from __future__ import annotations

import os
import sys

import click


def show(text: str) -> None:
    """Write a result to stdout; a reader that has seen enough changes no exit code."""
    try:
        click.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
