"""`raftlog cluster info`: the cluster's id and its brokers."""

import asyncio
from collections.abc import Sequence

import click
import orjson
from rich.table import Table

from raftlog.cli.options import bootstrap_option, json_option
from raftlog.cli.tables import or_dash, show, yes_no
from raftlog.client import BrokerClient, BrokerDescription

_SHOWN = ("node_id", "is_alive", "membership_status", "version", "http", "rpc", "host", "disk_uuid", "in_maintenance")


@click.command()
@json_option("Print the cluster as JSON.")
@bootstrap_option
def info(as_json: bool, bootstrap: list[str]) -> None:
    """Show the cluster's id and its brokers."""
    cluster_id, controller, brokers = asyncio.run(_info(bootstrap))
    if as_json:
        rows = [{name: getattr(broker, name) for name in _SHOWN} for broker in brokers]
        click.echo(orjson.dumps({"cluster_id": cluster_id, "controller_id": controller, "brokers": rows}))
        return
    click.echo(f"cluster {cluster_id}, controller {or_dash(controller)}\n")
    show(_brokers_table(brokers))


async def _info(bootstrap: Sequence[str]) -> tuple[str, int | None, list[BrokerDescription]]:
    async with BrokerClient(bootstrap) as client:
        return await client.cluster_id(), (await client.health()).controller_id, await client.brokers()


def _brokers_table(brokers: Sequence[BrokerDescription]) -> Table:
    table = Table("node", "alive", "status", "HTTP", "RPC", "host", "version", "disk", box=None, header_style="bold")
    for broker in brokers:
        table.add_row(
            str(broker.node_id),
            yes_no(broker.is_alive),
            "maintenance" if broker.in_maintenance else broker.membership_status,
            or_dash(broker.http),
            or_dash(broker.rpc),
            or_dash(broker.host),
            broker.version or "-",
            or_dash(broker.disk_uuid),
        )
    return table
