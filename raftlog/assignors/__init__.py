"""Who in a group reads which partition: Kafka's embedded consumer protocol and its assignors. Pure.

`consumer_protocol` is the codec of what members say (subscription) and are told (assignment); `ASSIGNORS` are functions
from subscriptions and partition counts to assignments. Called by the client's consumer when it leads a group, and by
the coordinator when it assigns by itself. Imports types and errors only.
"""

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
