"""`raftlog cluster upgrade`: releases of the brokers, their feature levels, and the step that ends an upgrade."""

import asyncio
from collections.abc import Sequence

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import Columns, show, table_of
from raftlog.client import BrokerClient
from raftlog.client.addresses import BrokerAddresses
from raftlog.values.brokers import BrokerLevels, Features

_BROKER: Columns[BrokerLevels] = {
    "node": lambda broker: broker.node_id,
    "version": lambda broker: broker.version,
    "feature levels": lambda broker: f"{broker.level_min} – {broker.level_max}",
}


@operator_command("Print the levels as JSON.")
@option("--finish", is_flag=True, help="Raise the feature level for good: brokers cannot return to the old release.")
def upgrade(finish: bool, verb: OperatorVerb) -> None:
    """Show the progress of an upgrade, and finish it once all brokers run the new release.

    Brokers of two releases work together, and any broker can return to the old release, until the feature level is
    raised. Only then brokers use formats of files and messages that the old release cannot read.
    """
    verb.output(asyncio.run(_finish(verb.bootstrap) if finish else _fetch_levels(verb.bootstrap)), _show)


def _show(levels: Features) -> None:
    """Print the levels of all brokers, and the next step."""
    show(table_of(levels.brokers, _BROKER))
    click.echo(f"\nfeature level {levels.feature_level}: {next_step(levels)}")


async def _fetch_levels(bootstrap: BrokerAddresses) -> Features:
    """Return the feature levels of the cluster and its brokers."""
    async with BrokerClient(bootstrap) as client:
        return await client.admin.features()


async def _finish(bootstrap: BrokerAddresses) -> Features:
    """Raise the feature level; raises `CommandFailed` that names the steps to take first."""
    levels = await _fetch_levels(bootstrap)
    if levels.is_finished and (behind := _find_outdated(levels)):
        raise CommandFailed(_describe_obstacle(levels, behind))
    if levels.is_finished:
        return levels
    asked = [broker.node_id for broker in levels.brokers if broker.level_max > levels.feature_level]
    async with BrokerClient(bootstrap) as client:
        addresses = [broker.http for broker in await client.brokers() if broker.node_id in asked and broker.http]
    async with BrokerClient(bootstrap.with_addresses(addresses)) as client:
        return await client.admin.finish_upgrade()


def next_step(levels: Features) -> str:
    """Return the next step of the upgrade, as a sentence."""
    if behind := _find_outdated(levels):
        return _describe_obstacle(levels, behind)
    if levels.feature_level < levels.highest_known_by_all:
        return (
            f"all brokers support {levels.highest_known_by_all}. Finish the upgrade with `raftlog cluster upgrade "
            "--finish`; from then on no broker can return to the earlier release"
        )
    if levels.absent_seeds:
        return f"seeds that never joined: {', '.join(map(str, levels.absent_seeds))}"
    return "the upgrade is finished"


def _find_outdated(levels: Features) -> list[BrokerLevels]:
    """Return the brokers whose highest feature level is below that of others."""
    highest = max(broker.level_max for broker in levels.brokers)
    return [broker for broker in levels.brokers if broker.level_max < highest]


def _describe_obstacle(levels: Features, behind: Sequence[BrokerLevels]) -> str:
    """Return the advice to upgrade the brokers `behind`, which prevent a higher feature level."""
    names = ", ".join(f"node {broker.node_id} ({broker.version or 'does not answer'})" for broker in behind)
    return (
        f"{names} must run the new release before the level can rise above {levels.highest_known_by_all}: "
        "restart with it, for example with `raftlog cluster rolling-restart --only ID`"
    )
