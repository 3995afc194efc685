"""Command-line arguments shared by the commands that run tests."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
SECONDS_MAX: Final = 86_400
RATE_MAX: Final = 1_000_000


class Finite(click.FloatRange):
    """Range of finite numbers, without `nan`, which passes the comparison with any bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert an argument to a number; infinite numbers and NaN are usage errors."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{found} is not in the range {self._describe_range()}.", param, ctx)
        return found


def store_option(help_text: str = "Where runs are kept, each in a folder of its own.") -> Decorator:
    """Return the option `--store DIRECTORY`."""
    kind = click.Path(file_okay=False, path_type=Path)
    return click.option("--store", type=kind, default=Path("jepsen-store"), show_default=True, help=help_text)


def sync_method_option() -> Decorator:
    """Return the option `--sync-method`."""
    return click.option(
        "--sync-method",
        type=click.Choice(["auto", "aio", "threads"]),
        default="auto",
        show_default=True,
        help="Method for the syncs of the brokers' commits.",
    )


@contextmanager
def exit_on_store_error(store: Path) -> Iterator[None]:
    """Exit with 2, as for a wrong command line, if a folder cannot be created in the block."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"runs cannot be kept in {store}: {error}") from error
