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
    Method("GET /groups", "Return the names of all groups.", "groups", GroupNames, text="Sorted."),
    Method(f"GET {_OFFSETS}", "Return a group's committed offsets.", "committedOffsets", GroupOffsets, headers=LEADER),
    Method(
        f"POST {_OFFSETS}",
        "Commit offsets: of a member as they are, otherwise a watermark that only rises.",
        "commitOffsets",
        GroupOffsets,
        body=CommitBody,
        headers=LEADER,
        text="All committed offsets of the group.",
    ),
    Method(
        f"DELETE {_OFFSETS}",
        "Delete a group's committed offsets of a topic.",
        "deleteOffsets",
        None,
        (_TOPIC, "timeout"),
    ),
    Method(
        f"POST {_OFFSETS}/reset",
        "Reset committed offsets of a group without members.",
        "resetOffsets",
        OffsetsReset,
        body=ResetBody,
        text="Result for each partition, or with `dry_run` the result that it would have.",
    ),
    _of_member("join", "Join the group, or rejoin it.", Joined, JoinBody, "The new generation."),
    _of_member(
        "sync",
        "Return the assignment of a member; the group leader sends those of all.",
        Synced,
        SyncBody,
        "The assignment.",
    ),
    _of_member(
        "heartbeat",
        "Keep the membership; the answer reports a rebalance.",
        HeartbeatTaken,
        HeartbeatBody,
        "No rebalance.",
    ),
    _of_member("leave", "Remove members.", MembersLeft, LeaveBody, "Result for each member."),
    Method(f"GET {_GROUPS_V3}", "Return the groups.", "consumerGroups", ObjectList[GroupDescription]),
    Method(f"GET {_V3}", "Return a group.", "consumerGroup", GroupDescription),
    Method(f"DELETE {_V3}", "Delete a group without members, with its committed offsets.", "deleteConsumerGroup"),
    Method(f"GET {_V3}/consumers", "Return the members of a group.", "consumers", ObjectList[ConsumerDescription]),
    Method(f"GET {_CONSUMER}", "Return a member of a group.", "consumer", ConsumerDescription),
    Method(
        f"GET {_CONSUMER}/assignments",
        "Return the partitions of a member.",
        "consumerAssignments",
        ObjectList[ConsumerAssignment],
    ),
    Method(
        f"GET {_CONSUMER}/assignments/{_PLACE}",
        "Return a partition of a member.",
        "consumerAssignment",
        ConsumerAssignment,
    ),
    Method(f"GET {_V3}/lag-summary", "Return a summary of the group's lag.", "lagSummary", GroupLagSummary),
    Method(f"GET {_V3}/lags", "Return the lag by partition.", "lags", ObjectList[PartitionLag]),
    Method(f"GET {_V3}/lags/{_PLACE}", "Return the lag in one partition.", "lag", PartitionLag),
)
