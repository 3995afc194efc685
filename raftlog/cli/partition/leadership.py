"""`raftlog partition transfer-leadership`."""

import click

from raftlog.cli.operating import operate
from raftlog.cli.options import bootstrap_option, json_option, option, partition_place
from raftlog.values.value import to_json


@click.command()
@click.argument("partition", metavar="TOPIC/PARTITION")
@option("--to", "target", type=click.IntRange(min=0), metavar="NODE", help="Who; without it, whichever can.")
@json_option("Print who leads as JSON.")
@bootstrap_option
def transfer_leadership(partition: str, target: int | None, as_json: bool, bootstrap: list[str]) -> None:
    """Let another replica of TOPIC/PARTITION lead, and prefer it from now on.

    Writing pauses for some milliseconds. A replica that does not take over in time changes nothing.
    """
    topic, number = partition_place(partition)
    told = operate(bootstrap, lambda client: client.admin.transfer_leadership(topic, number, target))
    click.echo(to_json(told) if as_json else f"node {told.leader_id} leads {partition}")
