"""`raftlog partition transfer-leadership`."""

import click

from raftlog.cli.operating import OperatorVerb, operator_verb
from raftlog.cli.options import option, partition_place


@click.command()
@click.argument("partition", metavar="TOPIC/PARTITION")
@option("--to", "target", type=click.IntRange(min=0), metavar="NODE", help="Who; without it, whichever can.")
@operator_verb("Print who leads as JSON.")
def transfer_leadership(partition: str, target: int | None, verb: OperatorVerb) -> None:
    """Let another replica of TOPIC/PARTITION lead, and prefer it from now on.

    Writing pauses for some milliseconds. A replica that does not take over in time changes nothing.
    """
    topic, number = partition_place(partition)
    told = verb.ask(lambda client: client.admin.transfer_leadership(topic, number, target))
    verb.say(told, f"node {told.leader_id} leads {partition}")
