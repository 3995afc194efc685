"""`raftlog partition transfer-leadership`."""

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import option, parse_partition


@operator_command("Print the leader as JSON.")
@click.argument("partition", metavar="TOPIC/PARTITION")
@option(
    "--to", "target", type=click.IntRange(min=0), metavar="NODE", help="New leader; without it, any eligible replica."
)
def transfer_leadership(partition: str, target: int | None, verb: OperatorVerb) -> None:
    """Transfer the leadership of TOPIC/PARTITION to another replica, which becomes the preferred leader.

    Writes pause for some milliseconds. If the replica does not take over in time, the leader stays.
    """
    topic, number = parse_partition(partition)
    answer = verb.ask(lambda client: client.admin.transfer_leadership(topic, number, target))
    verb.output(answer, f"node {answer.leader_id} is the leader of {partition}")
