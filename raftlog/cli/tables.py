"""Tables for people."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


def show(table: Table) -> None:
    """Print a table as wide as it needs to be: a path or a number that is cut off helps nobody."""
    console = Console(highlight=False)
    unbounded = console.options.update(max_width=1 << 16)
    needed = Measurement.get(console, unbounded, table).maximum
    console.width = max(console.width, needed)
    console.print(table)


def times(number: int, noun: str) -> str:
    """`1 log`, `2 logs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def or_dash(value: object) -> str:
    """What is not known is a dash."""
    return "-" if value is None else str(value)
