"""`raftlog cluster info`: the cluster's id and its brokers."""

import click
import orjson

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.tables import Columns, or_dash, show, table_of, yes_no
from raftlog.client import BrokerClient, BrokerDescription

_SHOWN = ("node_id", "is_alive", "membership_status", "version", "http", "rpc", "host", "disk_uuid", "in_maintenance")
_BROKER: Columns[BrokerDescription] = {
    "node": lambda broker: broker.node_id,
    "alive": lambda broker: yes_no(broker.is_alive),
    "status": lambda broker: "maintenance" if broker.in_maintenance else broker.membership_status,
    "HTTP": lambda broker: broker.http,
    "RPC": lambda broker: broker.rpc,
    "host": lambda broker: broker.host,
    "version": lambda broker: broker.version or None,
    "disk": lambda broker: broker.disk_uuid,
}


@operator_command("Print the cluster as JSON.")
def info(verb: OperatorVerb) -> None:
    """Show the cluster's id and its brokers."""
    cluster_id, controller, brokers = verb.ask(_fetch_info)
    if verb.as_json:
        rows = [{name: getattr(broker, name) for name in _SHOWN} for broker in brokers]
        click.echo(orjson.dumps({"cluster_id": cluster_id, "controller_id": controller, "brokers": rows}))
        return
    click.echo(f"cluster {cluster_id}, controller {or_dash(controller)}\n")
    show(table_of(brokers, _BROKER))


async def _fetch_info(client: BrokerClient) -> tuple[str, int | None, list[BrokerDescription]]:
    """Return the cluster id, the node id of the controller's leader, and the brokers."""
    return await client.cluster_id(), (await client.health()).controller_id, await client.brokers()
