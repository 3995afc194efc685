"""`raftlog cluster balancer status` and `raftlog cluster balance`."""

import click

from raftlog.cli.operating import operate, until_ctrl_c, watch
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.tables import nodes, properties, show, times
from raftlog.client import BrokerClient
from raftlog.values.placement import BalancerStatus
from raftlog.values.value import to_json


@click.group()
def balancer() -> None:
    """Show what the balancer does. `raftlog cluster config set balancer.mode=…` steers it."""


@balancer.command()
@option("--watch", "-w", "watches", is_flag=True, help="Print it again whenever it has changed; Ctrl-C ends it.")
@json_option("Print it as JSON, with --watch a line each time.")
@bootstrap_option
def status(watches: bool, as_json: bool, bootstrap: list[str]) -> None:
    """Show what the balancer does, and what keeps it from it."""

    async def look(client: BrokerClient) -> None:
        if watches:
            await watch(lambda: _asked(client), lambda found: _show(found, as_json))
        _show(await client.admin.balancer_status(), as_json)

    with until_ctrl_c(watches):
        operate(bootstrap, look)


async def _asked(client: BrokerClient) -> BalancerStatus:
    """Without what is another one every time."""
    return (await client.admin.balancer_status()).replaced(seconds_since_last_tick=None)


def _show(found: BalancerStatus, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(found))
        return
    last = found.seconds_since_last_tick
    show(
        properties(
            (
                ("status", found.status),
                ("mode", found.mode),
                ("moves under way", found.current_reassignments_count),
                ("reasons", "\n".join(found.reasons) or "-"),
                ("brokers away", nodes(found.violations.unavailable_nodes)),
                ("brokers without room", nodes(found.violations.over_disk_limit_nodes)),
                ("last look", None if last is None else f"{last:.1f} s ago"),
            )
        )
    )


@click.command()
@json_option("Print how many partitions will move as JSON.")
@bootstrap_option
def balance(as_json: bool, bootstrap: list[str]) -> None:
    """Spread replicas and leaders evenly now, also while balancer.mode is off."""
    told = operate(bootstrap, lambda client: client.admin.rebalance())
    if as_json:
        click.echo(to_json(told))
    elif told.partitions_to_move:
        count = times(told.partitions_to_move, "partition")
        click.echo(f"{count} will move; `raftlog partition moves --watch` shows them")
    else:
        click.echo("nothing is to be moved")
