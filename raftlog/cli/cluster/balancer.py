"""`raftlog cluster balancer status` and `raftlog cluster balance`."""

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command, watch_option
from raftlog.cli.tables import format_count, format_nodes, show_properties
from raftlog.client import BrokerClient
from raftlog.values.placement import BalancerStatus


@click.group()
def balancer() -> None:
    """Show the state of the balancer. `raftlog cluster config set balancer.mode=…` controls it."""


@operator_command("Print it as JSON, with --watch a line for each change.", group=balancer)
@watch_option("Print it again whenever it changes, until Ctrl-C.")
def status(watches: bool, verb: OperatorVerb) -> None:
    """Show the balancer's activity, and the conditions that stop it."""

    async def read_status(client: BrokerClient) -> BalancerStatus:
        """Return the status; when it is watched, without the figures that change each time."""
        found = await client.admin.balancer_status()
        return found.copy_with(seconds_since_last_tick=None) if watches else found

    verb.show_or_watch(watches, read_status, lambda found: verb.output(found, _show))


def _show(found: BalancerStatus) -> None:
    """Print the state of the balancer and the violations that it found."""
    last = found.seconds_since_last_tick
    show_properties(
        ("status", found.status),
        ("mode", found.mode),
        ("moves in progress", found.current_reassignments_count),
        ("reasons", "\n".join(found.reasons) or "-"),
        ("brokers down", format_nodes(found.violations.unavailable_nodes)),
        ("brokers with a full disk", format_nodes(found.violations.over_disk_limit_nodes)),
        ("last check", None if last is None else f"{last:.1f} s ago"),
    )


@operator_command("Print the number of partitions to move as JSON.")
def balance(verb: OperatorVerb) -> None:
    """Balance replicas and leaders now, even if balancer.mode is off."""
    answer = verb.ask(lambda client: client.admin.rebalance())
    count = format_count(answer.partitions_to_move, "partition")
    moves = f"{count} will move; `raftlog partition moves --watch` shows them"
    verb.output(answer, moves if answer.partitions_to_move else "no partition has to move")
