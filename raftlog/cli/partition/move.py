"""`raftlog partition move`, `moves` and `cancel-move`."""

from collections.abc import Sequence

import click
from rich.table import Table

from raftlog.cli.operating import HowFar, operate, until_ctrl_c, wait, wait_options, watch
from raftlog.cli.options import bootstrap_option, json_option, option, partition_place
from raftlog.cli.tables import nodes, show, size, times
from raftlog.client import BrokerClient
from raftlog.values.placement import Ordered, Reconfiguration
from raftlog.values.value import to_json

_LOOK = "raftlog partition moves"
_NODE_DIGITS_MAX = len(str((1 << 31) - 1))


@click.command()
@click.argument("partition", metavar="TOPIC/PARTITION")
@option(
    "--to",
    "targets",
    required=True,
    metavar="NODE,…",
    callback=lambda _context, _parameter, text: _read_nodes(text),
    help="On which brokers its replicas shall be, the preferred leader first; more or fewer than now are possible.",
)
@option(
    "--expected-version",
    type=click.IntRange(min=0),
    metavar="N",
    help="Do nothing when somebody else has moved it meanwhile; `raftlog partition show` has the version.",
)
@wait_options("its replicas are there")
@json_option("Print the version of the order as JSON.")
@bootstrap_option
def move(
    partition: str,
    targets: list[int],
    expected_version: int | None,
    waits: bool,
    timeout_s: float,
    as_json: bool,
    bootstrap: list[str],
) -> None:
    """Say on which brokers the replicas of TOPIC/PARTITION shall be.

    New replicas are filled first, and old ones leave last; writing goes on. Another order for the same partition
    replaces this one.
    """
    topic, number = partition_place(partition)
    told = operate(bootstrap, lambda client: _move(client, topic, number, targets, expected_version, waits, timeout_s))
    if as_json:
        click.echo(to_json(told))
    elif waits:
        click.echo(f"{partition} is on {nodes(targets)}")
    else:
        click.echo(f"{partition} moves to {nodes(targets)}; `{_LOOK}` shows how far it is")


async def _move(
    client: BrokerClient,
    topic: str,
    number: int,
    targets: Sequence[int],
    expected_version: int | None,
    waits: bool,
    timeout_s: float,
) -> Ordered:
    told = await client.admin.set_replicas(topic, number, targets, expected_version=expected_version)
    if not waits:
        return told

    async def how_far() -> HowFar:
        rows = await client.admin.reconfigurations()
        found = next((row for row in rows if (row.topic, row.partition) == (topic, number)), None)
        return HowFar(True, "") if found is None else _how_far(found)

    await wait(how_far, f"move of {topic}/{number}", timeout_s, _LOOK)
    return told


def _how_far(move: Reconfiguration) -> HowFar:
    left, whole = move.bytes_left_to_move, move.partition_size
    text = f"{size(left)} left" + (f"; {move.reason}" if move.reason else "")
    moved = move.bytes_moved or 0
    return HowFar(False, text) if left is None or not whole else HowFar(False, text, moved, left + moved)


@click.command()
@option(
    "--watch", "-w", "watches", is_flag=True, help="Print them again whenever something has changed; Ctrl-C ends it."
)
@json_option("Print them as a JSON array, with --watch a line each time.")
@bootstrap_option
def moves(watches: bool, as_json: bool, bootstrap: list[str]) -> None:
    """Show the partitions whose replicas are on their way: from and to where, bytes left, and what is waited for."""

    async def look(client: BrokerClient) -> None:
        if watches:
            await watch(client.admin.reconfigurations, lambda rows: _show(rows, as_json))
        _show(await client.admin.reconfigurations(), as_json)

    with until_ctrl_c(watches):
        operate(bootstrap, look)


def _show(rows: Sequence[Reconfiguration], as_json: bool) -> None:
    if as_json:
        click.echo(to_json(rows))
        return
    if not rows:
        click.echo("nothing moves")
        return
    table = Table("partition", "from", "to", "left", "of", "rate", "waits for", box=None, header_style="bold")
    for row in rows:
        table.add_row(
            f"{row.topic}/{row.partition}",
            nodes(each.node_id for each in row.previous_replicas),
            nodes(each.node_id for each in row.current_replicas),
            size(row.bytes_left_to_move),
            size(row.partition_size),
            f"{size(row.bytes_per_s)}/s" if row.bytes_per_s else "-",
            row.reason or "-",
        )
    show(table)


@click.command()
@click.argument("partition", metavar="[TOPIC/PARTITION]", required=False)
@option("--all", "all_of_them", is_flag=True, help="Everything that moves.")
@option("--node", type=click.IntRange(min=0), help="Everything that moves from or to this broker.")
@json_option("Print what was called off as JSON.")
@bootstrap_option
def cancel_move(
    partition: str | None, all_of_them: bool, node: int | None, as_json: bool, bootstrap: list[str]
) -> None:
    """Let the replicas of TOPIC/PARTITION stay where they vote now; or those of all partitions that move.

    The balancer may move them again: `raftlog cluster config set balancer.mode=off` keeps it from that.
    """
    if sum((partition is not None, all_of_them, node is not None)) != 1:
        raise click.UsageError("name a TOPIC/PARTITION, or give --all or --node NODE")
    if partition is not None:
        topic, number = partition_place(partition)
        told = operate(bootstrap, lambda client: client.admin.cancel_reconfiguration(topic, number))
        click.echo(to_json(told) if as_json else f"{partition} stays where it is")
        return
    rows = operate(bootstrap, lambda client: client.admin.cancel_reconfigurations(node))
    click.echo(to_json(rows) if as_json else f"{times(len(rows), 'move')} called off")


def _read_nodes(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) <= _NODE_DIGITS_MAX for part in parts):
        raise click.BadParameter(f"{text!r} are not node ids, such as 1,2,3")
    return [int(part) for part in parts]
