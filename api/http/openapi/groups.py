"""Paths and schemas of consumer groups, as simple users and members see them; producers' ids; deleting records."""

from raftlog.api.http.openapi.bounds import (
    CLIENT_ID,
    GROUP_TEXT,
    NAME,
    OFFSET_METADATA,
    REBALANCE_TIMEOUT,
    SESSION_TIMEOUT,
    SUBSCRIPTION,
    TEXT,
    protocols,
    rows,
)
from raftlog.api.http.openapi.derived import of
from raftlog.api.http.openapi.parts import (
    BOOLEAN,
    INT64_MAX,
    NODE,
    OFFSET,
    PARTITION,
    TIMEOUT,
    TOPIC,
    Json,
    answer,
    errors,
    in_path,
    in_query,
    integer,
    nullable,
    obj,
    operation,
    ref,
    string,
)
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.values.groups import GroupNames, GroupOffsets, HeartbeatTaken, Joined, MembersLeft, OffsetsReset, Synced
from raftlog.values.value import Value

_TAG = "groups"
GROUP = in_path("group", NAME, "Name of the group: no slash, no control characters.")
_LEADER = {"X-Raftlog-Leader": string("HOST:PORT of the coordinator, where it is another broker.")}
_READ = errors(400, 404, 503, 504)
_CHANGED = errors(400, 404, 408, 409, 413, 415, 422, 429, 503, 504, 507)
_INT32 = integer(0, (1 << 31) - 1)
_BASE64 = SUBSCRIPTION
_PLACE = {"topic": TEXT, "partition": NODE}


def _body(name: str) -> Json:
    return {JSON_TYPE: {"schema": ref(name)}}


def _of_member(summary: str, name: str, text: str, done: type[Value], wanted: str) -> Json:
    answers = {"200": answer(text, of(done), headers=_LEADER), **_CHANGED}
    return {"post": operation(summary, _TAG, name, answers, [GROUP, TIMEOUT], _body(wanted))}


_OFFSETS = "/groups/{group}/offsets"
PATHS: Json = {
    "/groups": {
        "get": operation(
            "Names of all groups.",
            _TAG,
            "groups",
            {"200": answer("Sorted.", of(GroupNames)), **_READ},
            [TIMEOUT],
        )
    },
    _OFFSETS: {
        "get": operation(
            "A group's committed offsets.",
            _TAG,
            "committedOffsets",
            {"200": answer("All of them.", of(GroupOffsets), headers=_LEADER), **_READ},
            [GROUP, TIMEOUT],
        ),
        "post": operation(
            "Commit offsets: of a member as they are, otherwise a watermark that only rises.",
            _TAG,
            "commitOffsets",
            {"200": answer("All that the group has committed now.", of(GroupOffsets), headers=_LEADER), **_CHANGED},
            [GROUP, TIMEOUT],
            _body("NewGroupOffsets"),
        ),
        "delete": operation(
            "Forget what a group committed in a topic.",
            _TAG,
            "deleteOffsets",
            {"204": answer("It is forgotten.", None), **errors(400, 404, 409, 429, 503, 504, 507)},
            [GROUP, in_query("topic", TEXT, "Name of the topic.", is_required=True), TIMEOUT],
        ),
    },
    _OFFSETS + "/reset": {
        "post": operation(
            "Move what a group without members has committed.",
            _TAG,
            "resetOffsets",
            {"200": answer("What became of each partition, or would.", of(OffsetsReset)), **_CHANGED},
            [GROUP, TIMEOUT],
            _body("NewOffsetsReset"),
        )
    },
    "/groups/{group}/join": _of_member(
        "Become or stay a member.", "joinGroup", "A generation has begun.", Joined, "Join"
    ),
    "/groups/{group}/sync": _of_member(
        "What a member is assigned; the leader says it for all.", "syncGroup", "It is assigned.", Synced, "Sync"
    ),
    "/groups/{group}/heartbeat": _of_member(
        "Stay a member; hear of a rebalance.", "heartbeatGroup", "There is nothing to do.", HeartbeatTaken, "Heartbeat"
    ),
    "/groups/{group}/leave": _of_member("Members leave.", "leaveGroup", "What became of each.", MembersLeft, "Leave"),
    "/producers": {
        "post": operation(
            "An id for an idempotent producer.",
            "records",
            "newProducer",
            {"200": answer("One that nobody had before.", ref("Producer")), **errors(400, 429, 503, 504, 507)},
            [
                in_query("fresh", BOOLEAN, "Greater than every id given out before: for a producer that expired."),
                TIMEOUT,
            ],
        )
    },
    "/topics/{topic}/partitions/{partition}/records": {
        "delete": operation(
            "Delete the records below an offset.",
            "records",
            "deleteRecords",
            {
                "200": answer("Where the log begins now.", obj({"log_start_offset": OFFSET})),
                **errors(404, 429, 503, 504, 507),
                **errors(400, schema="FetchError"),
            },
            [
                TOPIC,
                PARTITION,
                in_query("before", OFFSET, "The first offset that is kept, at most the end offset.", is_required=True),
                TIMEOUT,
            ],
        )
    },
}

_MEMBERSHIP: Json = {"member_id": TEXT, "generation": _INT32, "instance_id": nullable(TEXT)}
_PROTOCOL = obj({"name": GROUP_TEXT, "metadata": _BASE64})
_LEAVING = {"member_id": nullable(TEXT), "instance_id": nullable(TEXT)}

SCHEMAS: Json = {
    "NewGroupOffsets": obj(
        {
            "offsets": rows(
                obj(
                    {
                        **_PLACE,
                        "offset": OFFSET,
                        "metadata": OFFSET_METADATA,
                        "leader_epoch": nullable(_INT32),
                    },
                    optional=["metadata", "leader_epoch"],
                ),
                1,
            ),
            **_MEMBERSHIP,
        },
        optional=["member_id", "generation", "instance_id"],
        text="`member_id` and `generation` of a member that commits; both or neither.",
    ),
    "NewOffsetsReset": obj(
        {
            "to": {
                "anyOf": [
                    string(enum=["earliest", "latest"]),
                    obj({"timestamp": integer(text="Milliseconds since 1970.")}),
                    obj({"shift": integer(-INT64_MAX)}),
                    obj({"offset": OFFSET}),
                ]
            },
            "topics": nullable(rows(TEXT)),
            "partitions": nullable(rows(obj(_PLACE))),
            "dry_run": nullable(BOOLEAN) | {"default": False},
        },
        optional=["topics", "partitions", "dry_run"],
        text="Without topics and partitions: wherever the group has committed.",
    ),
    "Join": obj(
        {
            "member_id": nullable(TEXT | {"description": "Empty for a new member."}),
            "instance_id": nullable(GROUP_TEXT | {"description": "Of a static member."}),
            "client_id": nullable(CLIENT_ID),
            "session_timeout_ms": nullable(SESSION_TIMEOUT) | {"default": 10_000},
            "rebalance_timeout_ms": nullable(REBALANCE_TIMEOUT) | {"default": 60_000},
            "protocol_type": nullable(GROUP_TEXT) | {"default": "consumer"},
            "protocols": protocols(_PROTOCOL),
            "assigned_by": {"type": ["string", "null"], "enum": ["leader", "broker", None], "default": "leader"},
        },
        optional=[
            "member_id",
            "instance_id",
            "client_id",
            "session_timeout_ms",
            "rebalance_timeout_ms",
            "protocol_type",
            "assigned_by",
        ],
    ),
    "Sync": obj(
        {
            **_MEMBERSHIP,
            "assignments": nullable(rows(obj({"member_id": TEXT, "assignment": _BASE64}))),
        },
        optional=["instance_id", "assignments"],
    ),
    "Heartbeat": obj(
        {**_MEMBERSHIP, "wait_ms": nullable(integer(0, 30_000)) | {"default": 0}},
        optional=["instance_id", "wait_ms"],
    ),
    "Leave": obj({"members": rows(obj(_LEAVING, optional=["member_id", "instance_id"]), 1)}),
    "Producer": obj({"producer_id": integer(), "producer_epoch": integer(0, (1 << 15) - 1)}),
}
