"""Operations of consumer instances, as REST Proxy's v2 has them."""

from collections.abc import Sequence
from typing import Any

from raftlog.api.http.bounds import TEXT
from raftlog.api.http.openapi.operation import LEADER, Method, in_query, parameter
from raftlog.api.http.openapi.parts import BOOLEAN, NODE, Json, integer, ref, string
from raftlog.api.http.requests import AssignBody, ConsumedBody, PartitionsBody, SeekBody, SubscribeBody
from raftlog.api.http.server.media import JSON_TYPE, Format
from raftlog.values.consumers import (
    ConsumedCommitted,
    ConsumerInstance,
    InstanceOffsets,
    InstancePartitions,
    InstanceSubscription,
)
from raftlog.values.records import RecordAsJson

TAG = "consumers"
_AT = "/consumers/{group}/instances/{instance}"
_DONE = "Done and durable."
_RESET = {"X-Raftlog-Offset-Reset": string("Positions that `auto.offset.reset` changed.")}
_ACCEPT = parameter("header", "Accept", string(), "The media type of the instance's format, or a general one.")
_WAIT = in_query("timeout", integer(), "Milliseconds to wait, within the instance's own timeout.")
_MAX_BYTES = in_query("max_bytes", integer(1) | {"default": 1 << 20}, "Of keys and values, at most 64 MiB.")
_ASYNC = in_query("async", BOOLEAN | {"default": False}, "Answer before it is committed.")
_TOPIC = in_query("topic", TEXT, "With `partition`: this partition only.")
_PARTITION = in_query("partition", NODE, "With `topic`.")


def _order(route: str, summary: str, name: str, body: Any = None) -> Method:
    return Method(route, summary, name, body=body, headers=LEADER, text=_DONE)


def _read(route: str, summary: str, name: str, found: Any, query: Sequence[str | Json] = ("timeout",)) -> Method:
    return Method(route, summary, name, found, query, headers=LEADER)


ROWS = (
    Method(
        "POST /consumers/{group}",
        "Create a consumer instance.",
        "createConsumer",
        ConsumerInstance,
        body={"required": False, "content": {JSON_TYPE: {"schema": ref("NewConsumer")}}},
        headers=LEADER,
        text="Where it is.",
    ),
    _order(f"DELETE {_AT}", "Delete an instance.", "deleteConsumer"),
    _order(f"POST {_AT}/subscription", "Subscribe by names or by a pattern.", "subscribe", SubscribeBody),
    _read(f"GET {_AT}/subscription", "Return the subscription.", "subscription", InstanceSubscription),
    _order(f"DELETE {_AT}/subscription", "Remove subscription and assignment.", "unsubscribe"),
    _order(f"POST {_AT}/assignments", "Assign partitions by hand.", "assignPartitions", AssignBody),
    _read(f"GET {_AT}/assignments", "Return the assigned partitions.", "assignedPartitions", InstancePartitions),
    _order(f"POST {_AT}/positions", "Set positions.", "seek", SeekBody),
    _order(f"POST {_AT}/positions/beginning", "Set positions to the log start.", "seekToBeginning", PartitionsBody),
    _order(f"POST {_AT}/positions/end", "Set positions to the end.", "seekToEnd", PartitionsBody),
    Method(
        f"GET {_AT}/records",
        "Return records from the positions on.",
        "poll",
        list[RecordAsJson],
        (_ACCEPT, _WAIT, _MAX_BYTES),
        headers=LEADER | _RESET,
        text="Records; the positions are the offsets after them.",
        content_types=(JSON_TYPE, Format.JSON.value, Format.BINARY.value),
        fails=(400, 404, 406, 409, 422, 429, 503, 504),
    ),
    Method(
        f"POST {_AT}/offsets",
        "Commit consumed offsets.",
        "commitConsumed",
        list[ConsumedCommitted],
        (_ASYNC, "timeout"),
        ConsumedBody | None,
        LEADER,
        "Result of the commit.",
    ),
    _read(
        f"GET {_AT}/offsets",
        "Return committed offsets of the group; the partitions can be in a body, too.",
        "consumerOffsets",
        InstanceOffsets,
        (_TOPIC, _PARTITION, "timeout"),
    ),
)
