"""Failures of a verb: error line and exit code."""

import os

import click

from raftlog.errors import RaftlogError

EXIT_FAILED = 1
EXIT_UNKNOWN = 3


class CommandFailed(Exception):
    """Failure of a verb, as one line for its user."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def exit_code_of(error: RaftlogError) -> int:
    """Return 3 if the operation may have happened, otherwise 1."""
    return EXIT_UNKNOWN if error.outcome == "unknown" else EXIT_FAILED


def print_error(message: str) -> None:
    """Print an error as one line on stderr; on a terminal its first word is red, unless `NO_COLOR` is set."""
    color = False if os.environ.get("NO_COLOR") else None  # None: only on a terminal
    click.echo(f"{click.style('error:', fg='red', bold=True)} {' '.join(message.split())}", err=True, color=color)
