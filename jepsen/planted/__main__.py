"""`python -m jepsen.planted`: show that every bug planted into the product is detected.

The simulation detects all of them; with `--real` the checkers of real processes detect those they can observe."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from jepsen.planted.registry import BUGS
from jepsen.runner.arguments import store_option


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(BUGS)), metavar="[NAME]...")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=200, show_default=True, help="Largest number of seeds for each bug."
)
@click.option("--from", "first", type=click.IntRange(min=0), default=1, show_default=True, help="The first seed.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="one for each core",
    help="Bugs that are hunted at the same time.",
)
@click.option("--real", "is_real", is_flag=True, help="On real brokers, one run after another.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each bug, with --real.")
@click.option("--seed", type=click.IntRange(min=0), help="Draws what clients do, with --real. [default: any]")
@click.option(
    "--sound", "is_sound", is_flag=True, help="With --real: the same scenarios without the bugs, which must be valid."
)
@store_option("Where runs are kept, with --real.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line instead of a table.")
def main(
    names: tuple[str, ...],
    seeds: int,
    first: int,
    jobs: int,
    is_real: bool,
    runs: int,
    seed: int | None,
    is_sound: bool,
    store: Path,
    as_json: bool,
) -> None:
    """Plant each bug (all of them without a NAME) and run seeds until a property detects it.

    Exit code 1 when one was not found.
    """
    _check_arguments({"seeds", "first", "jobs"} if is_real else {"runs", "seed", "is_sound", "store"}, is_real=is_real)
    if is_real:
        # Only real processes need these imports.
        from jepsen.planted import detection

        sys.exit(detection.main(names, runs, seed, store, is_sound=is_sound, as_json=as_json))
    wanted = names or tuple(BUGS)
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda name: hunt_in_process(name, first, seeds), wanted))
    if as_json:
        for each in found:
            click.echo(json.dumps(each))
    else:
        Console().print(_table(found))
    sys.exit(any(each["seed"] is None for each in found))


def _check_arguments(unsuitable: set[str], *, is_real: bool) -> None:
    """Raise `UsageError` for options of the other kind of run."""
    context = click.get_current_context()
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in unsuitable and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{', '.join(given)} {'does not go' if is_real else 'goes only'} with --real")


def hunt_in_process(name: str, first: int, seeds: int) -> dict[str, Any]:
    """Run `hunt` in a new interpreter without assertions, and return its result.

    Raises `CalledProcessError` when it fails."""
    command = (sys.executable, "-O", "-m", "jepsen.planted.hunt", name, str(first), str(seeds))
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own module
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _table(found: list[dict[str, Any]]) -> Table:
    """Return a table with a row per bug: the seed and the property that detected it, or the other failures."""
    table = Table("bug", "found by seed", "property")
    for each in found:
        seed = each["seed"]
        others = ", ".join(f"{name} × {count}" for name, count in each["others"].items())
        table.add_row(each["name"], "not found" if seed is None else str(seed), each["property"] or others)
    return table


if __name__ == "__main__":
    main()
