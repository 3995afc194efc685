"""`raftlog cluster log-level`: log level of a broker, for a while."""

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import option
from raftlog.client import BrokerClient
from raftlog.client.addresses import BrokerAddresses
from raftlog.errors import Unavailable
from raftlog.values.brokers import LogLevel

LEVELS = ("debug", "info", "warning", "error")


@operator_command("Print the new level as JSON.")
@click.argument("name", metavar="LOGGER")
@click.argument("level", metavar="LEVEL", type=click.Choice(LEVELS))
@option(
    "--expires",
    "expires_s",
    type=click.IntRange(0, 604_800),
    default=600,
    metavar="SECONDS",
    help="Seconds until the level is reset; 0: not before the broker restarts.",
)
@option("--node", type=click.IntRange(min=0), help="Broker to change; without it, the broker that answers.")
def log_level(name: str, level: str, expires_s: int, node: int | None, verb: OperatorVerb) -> None:
    """Set the level of LOGGER at a broker to LEVEL for a while.

    LOGGER is `raftlog` or one of its modules, LEVEL is debug, info, warning or error.
    """
    answer = verb.ask(lambda client: _set_level(client, verb.bootstrap, name, level, expires_s, node))
    until = f"for {expires_s} s" if expires_s else "until the broker restarts"
    verb.output(answer, f"{answer.name} logs level {answer.level} and above {until}")


async def _set_level(
    client: BrokerClient, bootstrap: BrokerAddresses, name: str, level: str, expires_s: int, node: int | None
) -> LogLevel:
    """Set the level of a logger on the broker `node`; without a node on the broker that answers."""
    if node is None:
        return await client.admin.set_log_level(name, level, expires_s)
    address = (await client.admin.broker(node)).http
    if address is None:
        raise Unavailable(f"node {node} has not registered an HTTP address yet; `raftlog broker show {node}` shows it")
    async with BrokerClient(bootstrap.with_addresses([address])) as there:
        return await there.admin.set_log_level(name, level, expires_s)
