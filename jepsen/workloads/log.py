"""Plain requests, each sent once, through any node: batches, JSON, polls, lists, commits of groups without members.

Senders and readers are cancelled at times (`plain`). A few clients also subscribe, as members of one group.
"""

from typing import Final

from jepsen.workloads import plain
from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import SMALL_SEGMENTS, Plan
from jepsen.workloads.roles.group_reader import GroupReader

PLAN: Final = Plan({"narrow": 1, "wide": 3, "rolling": 2}, {"rolling": SMALL_SEGMENTS})
"""Topics; `rolling` has small segments, so that new segments begin continuously."""
SUBSCRIBERS: Final = 2
_SUBSCRIBER: Final = 200
"""Process number of the subscribed consumer."""
_PAUSE_S: Final = 0.2


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    plain.begin(client)
    if client.number <= SUBSCRIBERS:
        process = client.process(_SUBSCRIBER)
        random = client.new_random()
        topics = sorted({place.topic for place in client.partitions})
        client.add_role(GroupReader(client.adapter, client.history, process, topics, random, _PAUSE_S).run)
