"""`raftlog cluster health`: health of the cluster, and the reasons when it is unhealthy."""

import asyncio
from collections.abc import Sequence
from typing import Final

import click
from msgspec import to_builtins

from raftlog.cli.operator_verbs import OperatorVerb, operator_command, until_ctrl_c, watch, watch_option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import nodes, red, show_properties, yes_no
from raftlog.client import BrokerClient, ClusterHealth
from raftlog.values.value import to_json

PARTITIONS_SHOWN: Final = 10


@operator_command("Print the health as JSON, with --watch a line for each change.")
@watch_option("Print again whenever something changes, until Ctrl-C.", "watch")
def health(watch: bool, verb: OperatorVerb) -> None:
    """Show whether the cluster is healthy, and the reasons if not. Exit code 1 if it is unhealthy."""
    with until_ctrl_c(watch):
        last = asyncio.run(_health(verb, watch))
    if not last.is_healthy:
        raise CommandFailed(f"the cluster is unhealthy: {'; '.join(last.unhealthy_reasons)}")


async def _health(verb: OperatorVerb, watches: bool) -> ClusterHealth:
    async with BrokerClient(verb.bootstrap) as client:
        if watches:
            await watch(client.health, lambda found: _print(found, verb.as_json), steady=_steady, retry_s=0.0)
        found = await client.health()
        _print(found, verb.as_json)
        return found


def _steady(found: ClusterHealth) -> ClusterHealth:
    """Return the health without the parts that change with each commit and each leadership transfer."""
    return found.copy_with(lagging_partitions=(), lagging_count=0, electing_partitions=(), electing_count=0)


def _print(found: ClusterHealth, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(to_builtins(found) | {"controller_id": found.controller_id}))
        return
    show_properties(
        ("healthy", yes_no(found.is_healthy)),
        ("reasons", red("\n".join(found.unhealthy_reasons)) if found.unhealthy_reasons else None),
        *([("notes", "\n".join(found.notes))] if found.notes else []),
        ("controller", found.controller_id),
        ("all nodes", nodes(sorted(found.all_nodes))),
        ("nodes down", nodes(sorted(found.nodes_down))),
        ("nodes in maintenance", nodes(sorted(found.nodes_in_maintenance))),
        ("nodes draining", nodes(sorted(found.nodes_draining))),
        ("leaderless partitions", _names_and_count(found.leaderless_partitions, found.leaderless_count)),
        (
            "under-replicated partitions",
            _names_and_count(found.under_replicated_partitions, found.under_replicated_count),
        ),
        ("lagging partitions", f"{found.lagging_count:,}"),
        ("partitions in election", f"{found.electing_count:,}"),
        ("moving partitions", f"{found.reconfigurations_count:,}"),
    )


def _names_and_count(names: Sequence[str], count: int) -> str:
    if not count:
        return "0"
    shown = ", ".join(names[:PARTITIONS_SHOWN])
    return f"{count:,}: {shown}{', …' if count > min(len(names), PARTITIONS_SHOWN) else ''}"
