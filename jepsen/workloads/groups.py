"""Members of groups share partitions, read and commit, by hand and through `raftlog.client.Consumer`."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan
from jepsen.workloads.roles.group_member import Member
from jepsen.workloads.roles.group_reader import GroupReader
from jepsen.workloads.roles.plain_producer import Producer

PLAN: Final = Plan({"narrow": 1, "wide": 6})
_MEMBERS: Final = 2
_FIRST: Final = 200
"""Process number of the first member; the reader's follows those of all members."""


def begin(client: Client) -> None:
    client.produce(
        Producer(client.access, client.history, client.partitions, client.values, client.senders, client.random)
    )
    client.read()
    client.list_offsets()
    topics: dict[str, int] = {}
    for place in client.partitions:
        topics[place.topic] = max(topics.get(place.topic, 0), place.partition + 1)
    for number in range(_MEMBERS):
        process = client.process(_FIRST + number)
        member = Member(client.addresses, client.access, client.history, process, topics, client.new_random())
        client.live(member.live)
    process = client.process(_FIRST + _MEMBERS)
    client.live(GroupReader(client.addresses, client.history, process, sorted(topics), client.new_random()).live)
