"""Assignors of consumer groups, and Kafka's embedded consumer protocol. Pure.

`consumer_protocol` is the codec of the subscriptions that group members send and the assignments that they
receive; `ASSIGNORS` are functions from subscriptions and partition counts to assignments. Called by the client's
consumer when it is the group leader, and by the coordinator when it computes the assignment itself. Imports only types
and errors."""

from raftlog.assignors.consumer_protocol import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from raftlog.assignors.strategies import ASSIGNORS, Assignor

assert __name__.startswith("raftlog."), "import this room as raftlog.assignors"

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "MemberAssignment",
    "Subscription",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]
