"""`raftlog cluster members`: states of the brokers by the gossip of the broker that answers."""

import asyncio

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command, until_ctrl_c, watch, watch_option
from raftlog.cli.tables import Columns, format_duration, format_size, green, red, show, table_of
from raftlog.client import BrokerClient
from raftlog.values.brokers import BrokerLoad, ClusterMember, ClusterMembers


@operator_command("Print the members as JSON, with --watch a line for each change.")
@watch_option("Print again whenever a state changes, until Ctrl-C.", "watch")
def members(watch: bool, verb: OperatorVerb) -> None:
    """Show the state of each broker according to gossip: a hint that decides no leader and moves no replica.

    States are alive, suspect (no answer to probes; some seconds later dead), dead, left (stopped gracefully) and
    unknown (without gossip). `raftlog cluster health` asks the brokers themselves.
    """
    with until_ctrl_c(watch):
        asyncio.run(_show_members(verb, watch))


async def _show_members(verb: OperatorVerb, watches: bool) -> None:
    """Print the members once, or with `watches` after each change until Ctrl-C."""
    async with BrokerClient(verb.bootstrap) as client:
        if watches:
            await watch(
                client.admin.members, lambda answer: verb.output(answer, _show), steady=_remove_loads, retry_s=0.0
            )
        verb.output(await client.admin.members(), _show)


def _remove_loads(answer: ClusterMembers) -> list[object]:
    """Return the members without their ages and loads, which change all the time."""
    return [(one.node_id, one.state, one.is_registered, one.disk_uuid) for one in answer.members]


def _show(answer: ClusterMembers) -> None:
    """Print the members according to the broker that answered."""
    click.echo(f"members according to node {answer.node_id}, gossip {answer.gossip_address or 'off'}\n")
    show(table_of(answer.members, _MEMBER))


def _color_state(state: str) -> str:
    """Return the state of a member with its colour."""
    return green(state) if state == "alive" else red(state) if state in ("suspect", "dead") else state


def _format_disk_free(load: BrokerLoad) -> str | None:
    """Return the free and total space of the disk; None if unknown."""
    return f"{format_size(load.disk_free)} of {format_size(load.disk_total)}" if load.disk_total > 0 else None


_MEMBER: Columns[ClusterMember] = {
    "node": lambda one: one.node_id if one.is_registered else f"{one.node_id} (not registered)",
    "state": lambda one: _color_state(one.state),
    "since": lambda one: None if one.state_s is None else format_duration(one.state_s),
    "HTTP": lambda one: one.http_address,
    "gossip": lambda one: one.gossip_address,
    "host": lambda one: one.host,
    "rack": lambda one: one.rack,
    "version": lambda one: one.version,
    "replicas": lambda one: one.load and f"{one.load.replicas:,}",
    "leads": lambda one: one.load and f"{one.load.leaders:,}",
    "disk free": lambda one: one.load and _format_disk_free(one.load),
}
