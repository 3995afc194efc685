"""Workload of topics that are deleted and recreated under the same names while clients write and read.

One further topic is never deleted, for the operations of the other workloads.
"""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.client.numbering import ProcessNumberPool
from jepsen.workloads.plan import Plan
from jepsen.workloads.roles.plain_producer import Producer
from jepsen.workloads.roles.topic_follower import Follower, TopicProducer
from jepsen.workloads.roles.topic_operator import Operator

PLAN: Final = Plan({"steady": 2}, topics_per_client=2)
STEADY_SEND_SHARE, STEADY_POLL_SHARE, STEADY_LIST_SHARE = 0.15, 0.1, 0.05
SEND_SHARE, FOLLOW_SHARE = 0.35, 0.35
_OPERATOR: Final = 300
"""Process number of the first operator."""
_FOLLOWER: Final = 320
"""Process number of the follower at node 0."""
_SENDER: Final = 340
"""Process number of the first sender at node 0."""
_SENDERS: Final = 40
"""Number of senders at each node."""


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    shared = (client.access, client.history)
    client.add_producer(
        Producer(*shared, client.partitions, client.values, client.senders, client.random), STEADY_SEND_SHARE
    )
    client.add_readers(STEADY_POLL_SHARE)
    client.add_listers(STEADY_LIST_SHARE)
    names = PLAN.all_recreated_names(client.clients)
    for number, name in enumerate(PLAN.recreated_names_of(client.number)):
        client.add_role(Operator(*shared, client.process(_OPERATOR + number), name, client.new_random()).run)
    followers = {
        node: Follower(*shared, client.process(_FOLLOWER + node), node, names, client.random)
        for node in client.access.nodes
    }
    for follower in followers.values():
        client.add_repeated_step(follower.step, FOLLOW_SHARE / len(followers))
    senders = {
        node: ProcessNumberPool(client.process(_SENDER + _SENDERS * node), _SENDERS) for node in client.access.nodes
    }
    producer = TopicProducer(*shared, followers, client.values, senders, names, client.random)
    client.add_producer(producer, SEND_SHARE)
