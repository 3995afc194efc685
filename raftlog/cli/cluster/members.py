"""`raftlog cluster members`: the brokers as gossip has them at the one that is asked."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import click
from rich.table import Table

from raftlog.cli.operating import until_ctrl_c
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.tables import age, bad, good, or_dash, show, size
from raftlog.client import BrokerClient
from raftlog.values.brokers import BrokerLoad, ClusterMember, ClusterMembers
from raftlog.values.value import to_json

WATCH_SECONDS: Final = 1.0


@click.command()
@option("--watch", "-w", is_flag=True, help="Go on, and print again whenever a state has changed; Ctrl-C ends it.")
@json_option("Print the members as JSON, with --watch a line each time.")
@bootstrap_option
def members(watch: bool, as_json: bool, bootstrap: list[str]) -> None:
    """Show who is up as gossip has it: a hint, which no leader and no replica follows from.

    States are alive, suspect (it did not answer; a few seconds later it is dead), dead, left (it stopped in an orderly
    way) and unknown (it does not gossip). `raftlog cluster health` asks the brokers themselves.
    """
    with until_ctrl_c(watch):
        asyncio.run(_members(bootstrap, watch, as_json))


async def _members(bootstrap: Sequence[str], watch: bool, as_json: bool) -> None:
    async with BrokerClient(bootstrap) as client:
        if not watch:
            _print(await client.admin.members(), as_json)
            return
        async for told in _changes(client):
            _print(told, as_json)


async def _changes(client: BrokerClient) -> AsyncIterator[ClusterMembers]:
    """Ages and loads change all the time; what counts is who is there, and how."""
    last: list[Any] | None = None
    while True:
        told = await client.admin.members()
        now = [(one.node_id, one.state, one.is_registered, one.disk_uuid) for one in told.members]
        if now != last:
            yield told
        last = now
        await asyncio.sleep(WATCH_SECONDS)


def _print(told: ClusterMembers, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(told))
        return
    click.echo(f"as node {told.node_id} has them, gossip {told.gossip_address or 'off'}\n")
    table = Table(
        "node", "state", "since", "HTTP", "gossip", "host", "rack", "version", "replicas", "leads", "disk free",
        box=None, header_style="bold",
    )  # fmt: skip
    for one in told.members:
        table.add_row(*_row(one))
    show(table)


def _row(one: ClusterMember) -> list[str]:
    load = one.load
    replicas, leaders, free = ("-", "-", "-") if load is None else _load(load)
    return [
        str(one.node_id) if one.is_registered else f"{one.node_id} (not registered)",
        _state(one.state),
        "-" if one.state_s is None else age(one.state_s),
        *map(or_dash, (one.http_address, one.gossip_address, one.host, one.rack, one.version)),
        replicas,
        leaders,
        free,
    ]


def _state(state: str) -> str:
    return good(state) if state == "alive" else bad(state) if state in ("suspect", "dead") else state


def _load(load: BrokerLoad) -> tuple[str, str, str]:
    free, total = load.disk_free, load.disk_total
    room = f"{size(free)} of {size(total)}" if total > 0 else "-"
    return f"{load.replicas:,}", f"{load.leaders:,}", room
