"""Operations of consumer groups: for simple users, for members, and as REST Proxy's v3 has them."""

from typing import Any

from raftlog.api.http.bounds import TEXT
from raftlog.api.http.openapi.operation import LEADER, Method, in_query
from raftlog.api.http.requests import CommitBody, HeartbeatBody, JoinBody, LeaveBody, ResetBody, SyncBody
from raftlog.values.groups import (
    ConsumerAssignment,
    ConsumerDescription,
    GroupDescription,
    GroupLagSummary,
    GroupNames,
    GroupOffsets,
    HeartbeatTaken,
    Joined,
    MembersLeft,
    OffsetsReset,
    PartitionLag,
    Synced,
)
from raftlog.values.v3 import ObjectList

TAG = "groups"
_GROUP = "/groups/{group}"
_OFFSETS = _GROUP + "/offsets"
_GROUPS_V3 = "/v3/clusters/{cluster}/consumer-groups"
_V3 = _GROUPS_V3 + "/{group}"
_PLACE = "{topic}/partitions/{partition}"
_CONSUMER = _V3 + "/consumers/{consumer}"
_TOPIC = in_query("topic", TEXT, "Name of the topic.", is_required=True)


def _of_member(verb: str, summary: str, found: Any, body: Any, text: str) -> Method:
    return Method(f"POST {_GROUP}/{verb}", summary, f"{verb}Group", found, body=body, headers=LEADER, text=text)


ROWS = (
    Method("GET /groups", "Names of all groups.", "groups", GroupNames, text="Sorted."),
    Method(f"GET {_OFFSETS}", "A group's committed offsets.", "committedOffsets", GroupOffsets, headers=LEADER),
    Method(
        f"POST {_OFFSETS}",
        "Commit offsets: of a member as they are, otherwise a watermark that only rises.",
        "commitOffsets",
        GroupOffsets,
        body=CommitBody,
        headers=LEADER,
        text="All that the group has committed now.",
    ),
    Method(
        f"DELETE {_OFFSETS}", "Forget what a group committed in a topic.", "deleteOffsets", None, (_TOPIC, "timeout")
    ),
    Method(
        f"POST {_OFFSETS}/reset",
        "Move what a group without members has committed.",
        "resetOffsets",
        OffsetsReset,
        body=ResetBody,
        text="What became of each partition, or would.",
    ),
    _of_member("join", "Become or stay a member.", Joined, JoinBody, "A generation has begun."),
    _of_member("sync", "What a member is assigned; the leader says it for all.", Synced, SyncBody, "It is assigned."),
    _of_member("heartbeat", "Stay a member; hear of a rebalance.", HeartbeatTaken, HeartbeatBody, "Nothing is to do."),
    _of_member("leave", "Members leave.", MembersLeft, LeaveBody, "What became of each."),
    Method(f"GET {_GROUPS_V3}", "The groups.", "consumerGroups", ObjectList[GroupDescription]),
    Method(f"GET {_V3}", "A group.", "consumerGroup", GroupDescription),
    Method(f"DELETE {_V3}", "Delete a group without members, and what it committed.", "deleteConsumerGroup"),
    Method(f"GET {_V3}/consumers", "Its members.", "consumers", ObjectList[ConsumerDescription]),
    Method(f"GET {_CONSUMER}", "One of them.", "consumer", ConsumerDescription),
    Method(f"GET {_CONSUMER}/assignments", "Its partitions.", "consumerAssignments", ObjectList[ConsumerAssignment]),
    Method(f"GET {_CONSUMER}/assignments/{_PLACE}", "One of them.", "consumerAssignment", ConsumerAssignment),
    Method(f"GET {_V3}/lag-summary", "How far it is behind.", "lagSummary", GroupLagSummary),
    Method(f"GET {_V3}/lags", "How far, by partition.", "lags", ObjectList[PartitionLag]),
    Method(f"GET {_V3}/lags/{_PLACE}", "How far in one.", "lag", PartitionLag),
)
