"""Workload of group members that read and commit, by single requests and by the client library's consumer."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan
from jepsen.workloads.roles.group_reader import GroupReader

PLAN: Final = Plan({"narrow": 1, "wide": 6})
_MEMBERS: Final = 2
_FIRST: Final = 200
"""Process number of the first member; that of the reader follows those of all members."""
_JOINS: Final = 210
"""Process number for joins of the first member, for clients whose joins overlap with other operations."""


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    client.add_producer(client.adapter.new_sender())
    client.add_readers()
    client.add_listers()
    topics: dict[str, int] = {}
    for place in client.partitions:
        topics[place.topic] = max(topics.get(place.topic, 0), place.partition + 1)
    for number in range(_MEMBERS):
        process = client.process(_FIRST + number)
        member = client.adapter.new_member(process, client.process(_JOINS + number), topics, client.new_random())
        client.add_role(member.run)
    process = client.process(_FIRST + _MEMBERS)
    client.add_role(GroupReader(client.adapter, client.history, process, sorted(topics), client.new_random()).run)
