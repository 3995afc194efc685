"""`raftlog cluster health`: health of the cluster, and the reasons when it is unhealthy."""

import asyncio
from collections.abc import Sequence
from typing import Final

import click
from msgspec import to_builtins

from raftlog.cli.operator_verbs import OperatorVerb, operator_command, until_ctrl_c, watch, watch_option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import format_nodes, red, show_properties, yes_no
from raftlog.client import BrokerClient, ClusterHealth
from raftlog.values.value import to_json

PARTITIONS_SHOWN: Final = 10


@operator_command("Print the health as JSON, with --watch a line for each change.")
@watch_option("Print again whenever something changes, until Ctrl-C.", "watch")
def health(watch: bool, verb: OperatorVerb) -> None:
    """Show whether the cluster is healthy, and the reasons if not. Exit code 1 if it is unhealthy."""
    with until_ctrl_c(watch):
        last = asyncio.run(_show_health(verb, watch))
    if not last.is_healthy:
        raise CommandFailed(f"the cluster is unhealthy: {'; '.join(last.unhealthy_reasons)}")


async def _show_health(verb: OperatorVerb, watches: bool) -> ClusterHealth:
    """Print the health of the cluster, with `watches` after each change until Ctrl-C. Returns it."""
    async with BrokerClient(verb.bootstrap) as client:
        if watches:
            await watch(
                client.health, lambda found: _print(found, verb.as_json), steady=_remove_changing_parts, retry_s=0.0
            )
        found = await client.health()
        _print(found, verb.as_json)
        return found


def _remove_changing_parts(found: ClusterHealth) -> ClusterHealth:
    """Remove the parts of the health that change with each commit and each leadership transfer."""
    return found.copy_with(lagging_partitions=(), lagging_count=0, electing_partitions=(), electing_count=0)


def _print(found: ClusterHealth, as_json: bool) -> None:
    """Print the health of the cluster as JSON or as a table."""
    if as_json:
        click.echo(to_json(to_builtins(found) | {"controller_id": found.controller_id}))
        return
    show_properties(
        ("healthy", yes_no(found.is_healthy)),
        ("reasons", red("\n".join(found.unhealthy_reasons)) if found.unhealthy_reasons else None),
        *([("notes", "\n".join(found.notes))] if found.notes else []),
        ("controller", found.controller_id),
        ("all nodes", format_nodes(sorted(found.all_nodes))),
        ("nodes down", format_nodes(sorted(found.nodes_down))),
        ("nodes in maintenance", format_nodes(sorted(found.nodes_in_maintenance))),
        ("nodes draining", format_nodes(sorted(found.nodes_draining))),
        ("leaderless partitions", _format_names(found.leaderless_partitions, found.leaderless_count)),
        (
            "under-replicated partitions",
            _format_names(found.under_replicated_partitions, found.under_replicated_count),
        ),
        ("lagging partitions", f"{found.lagging_count:,}"),
        ("partitions in election", f"{found.electing_count:,}"),
        ("moving partitions", f"{found.reconfigurations_count:,}"),
    )


def _format_names(names: Sequence[str], count: int) -> str:
    """Return a text with the count and the first names; `names` may have fewer than `count`."""
    if not count:
        return "0"
    shown = ", ".join(names[:PARTITIONS_SHOWN])
    return f"{count:,}: {shown}{', …' if count > min(len(names), PARTITIONS_SHOWN) else ''}"
