"""Tables and formats of values for people; on a terminal problems are red, unless `NO_COLOR` is set."""

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

T = TypeVar("T")
Columns: TypeAlias = dict[str, Callable[[T], object]]
"""Titles of columns, each with the function that returns the cell of a row."""


def show(table: Table) -> None:
    """Print a table as wide as it needs to be, so that no path or number is cut off."""
    console = Console(highlight=False)
    unbounded = console.options.update(max_width=1 << 16)
    needed = Measurement.get(console, unbounded, table).maximum
    console.width = max(console.width, needed)
    console.print(table)


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun: `1 log`, `2 logs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def or_dash(value: object) -> str:
    """Return the text of a value, or a dash for None."""
    return "-" if value is None else str(value)


def escape_text(text: str | None) -> str:
    """Return text from other parties, such as a client id, without markup and terminal control; a dash if empty."""
    if not text:
        return "-"
    return escape("".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text))


def green(text: str) -> str:
    """Return markup that shows the text in green on a terminal."""
    return f"[green]{escape(text)}[/]"


def red(text: str) -> str:
    """Return markup that shows the text in red on a terminal."""
    return f"[red]{escape(text)}[/]"


def yes_no(is_so: bool) -> str:
    """Format a state as `yes` in green or `no` in red."""
    return green("yes") if is_so else red("no")


def format_duration(seconds: float) -> str:
    """Format a duration in the unit that fits: seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def format_size(count: int | None) -> str:
    """Format a number of bytes in the unit that fits; None is a dash."""
    if count is None:
        return "-"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count} B"


def format_nodes(numbers: Iterable[int]) -> str:
    """Format node ids in their given order."""
    return ", ".join(map(str, numbers)) or "-"


def table_of(rows: Iterable[T], columns: Columns[T]) -> Table:
    """Return a table with a line for each row. A cell that is None is a dash."""
    table = Table(*columns, box=None, header_style="bold")
    for row in rows:
        table.add_row(*(or_dash(cell(row)) for cell in columns.values()))
    return table


def format_rate(bytes_per_s: float | None) -> str:
    """Format a rate in bytes per second in the unit that fits; None and 0 are a dash."""
    return f"{format_size(int(bytes_per_s))}/s" if bytes_per_s else "-"


def show_properties(*rows: tuple[str, object]) -> None:
    """Print a table of one object: each line has a name and a value."""
    table = Table("", "", box=None, show_header=False)
    for name, value in rows:
        table.add_row(name, or_dash(value))
    show(table)
