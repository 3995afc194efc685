"""Paths and schemas of consumer instances, as REST Proxy's v2 has them."""

from raftlog.api.http.consumers.consumers import PLACES_MAX
from raftlog.api.http.openapi.bounds import (
    DATE_TIME,
    NAME,
    NEW_TOPIC_NAME,
    OFFSET_METADATA,
    TEXT,
    TIMESTAMP_MS,
    TOPIC_PATTERN,
    digits,
    places,
    rows,
)
from raftlog.api.http.openapi.groups import GROUP
from raftlog.api.http.openapi.parts import (
    ANY,
    BOOLEAN,
    INT64_MAX,
    NODE,
    OFFSET,
    TIMEOUT,
    Json,
    answer,
    array,
    errors,
    in_header,
    in_path,
    in_query,
    integer,
    nullable,
    obj,
    operation,
    ref,
    string,
)
from raftlog.api.http.server.media import JSON_TYPE, Format
from raftlog.partitions.consumers.settings import FETCH_MIN_BYTES_MAX, FORMATS, REQUEST_TIMEOUT_MS_MAX, RESETS

_TAG = "consumers"
_INSTANCE = in_path("instance", NAME, "Name of the instance: no slash, no control characters.")
_PATH = "/consumers/{group}/instances/{instance}"
_LEADER = {"X-Raftlog-Leader": string("HOST:PORT of the broker where the instance lives, where it is another one.")}
_READ = errors(400, 404, 503, 504)
_CHANGED = errors(400, 404, 408, 409, 413, 415, 422, 429, 503, 504, 507)
_PLACE = {"topic": TEXT, "partition": NODE}
_AT = [GROUP, _INSTANCE, TIMEOUT]
_MAYBE_TEXT = nullable(string())


def _body(name: str, *, is_required: bool = True) -> Json:
    return {"required": is_required, "content": {JSON_TYPE: {"schema": ref(name)}}}


def _post(summary: str, name: str, wanted: str, done: Json, *more: Json, is_required: bool = True) -> Json:
    found = operation(summary, _TAG, name, {**done, **_CHANGED}, [*_AT, *more])
    return {"post": found | {"requestBody": _body(wanted, is_required=is_required)}}


def _get(summary: str, name: str, schema: Json, *more: Json) -> Json:
    answers = {"200": answer("What there is.", schema, headers=_LEADER), **_READ}
    return {"get": operation(summary, _TAG, name, answers, [*_AT, *more])}


_DONE: Json = {"204": answer("It is done, durably.", None, headers=_LEADER)}
_DELETED: Json = {**_DONE, **errors(400, 404, 429, 503, 504, 507)}

PATHS: Json = {
    "/consumers/{group}": {
        "post": operation(
            "Make a consumer instance.",
            _TAG,
            "createConsumer",
            {"200": answer("Where it is.", ref("ConsumerInstance"), headers=_LEADER), **_CHANGED},
            [GROUP, TIMEOUT],
        )
        | {"requestBody": _body("NewConsumer", is_required=False)}
    },
    _PATH: {"delete": operation("Delete an instance.", _TAG, "deleteConsumer", _DELETED, _AT)},
    _PATH + "/subscription": {
        **_post("Subscribe by names or by a pattern.", "subscribe", "NewSubscription", _DONE),
        **_get("What it is subscribed to.", "subscription", ref("Subscription")),
        "delete": operation("Let go of subscription and assignment.", _TAG, "unsubscribe", _DELETED, _AT),
    },
    _PATH + "/assignments": {
        **_post("Assign partitions by hand.", "assignPartitions", "ConsumerPartitions", _DONE),
        **_get("What it reads.", "assignedPartitions", ref("ConsumerPartitions")),
    },
    _PATH + "/positions": _post("Choose where to go on.", "seek", "Positions", _DONE),
    _PATH + "/positions/beginning": _post("Go on at the beginning.", "seekToBeginning", "ConsumerPartitions", _DONE),
    _PATH + "/positions/end": _post("Go on at the end.", "seekToEnd", "ConsumerPartitions", _DONE),
    _PATH + "/records": {
        "get": operation(
            "Records from its positions on.",
            _TAG,
            "poll",
            {
                "200": answer(
                    "The positions stand behind these.",
                    ref("Fetched"),
                    (JSON_TYPE, Format.JSON.value, Format.BINARY.value),
                    _LEADER | {"X-Raftlog-Offset-Reset": string("Where `auto.offset.reset` moved a position.")},
                ),
                **errors(400, 404, 406, 409, 422, 429, 503, 504),
            },
            [
                GROUP,
                _INSTANCE,
                in_header("Accept", string(), "The media type of the instance's format, or a general one."),
                in_query("timeout", integer(0, INT64_MAX), "Milliseconds to wait, within the instance's own timeout."),
                in_query(
                    "max_bytes", integer(1, INT64_MAX) | {"default": 1 << 20}, "Of keys and values, at most 64 MiB."
                ),
            ],
        )
    },
    _PATH + "/offsets": {
        **_post(
            "Commit what was consumed.",
            "commitConsumed",
            "ConsumedOffsets",
            {"200": answer("What became of it.", ref("ConsumedOutcomes"), headers=_LEADER)},
            in_query("async", BOOLEAN | {"default": False}, "Answer before it is committed."),
            is_required=False,
        ),
        **_get(
            "What the group has committed; the partitions can be in a body, too.",
            "consumerOffsets",
            obj({"offsets": array(ref("CommittedByGroup"))}),
            in_query("topic", TEXT, "With `partition`: only that one."),
            in_query("partition", NODE, "With `topic`."),
        ),
    },
}


SCHEMAS: Json = {
    "NewConsumer": obj(
        {
            "name": nullable(NAME),
            "format": {"enum": [*FORMATS, None]},
            "auto.offset.reset": {"enum": [*RESETS, None]},
            "auto.commit.enable": {"enum": [True, False, "true", "false", None]},
            "fetch.min.bytes": digits(FETCH_MIN_BYTES_MAX),
            "consumer.request.timeout.ms": digits(REQUEST_TIMEOUT_MS_MAX),
            "partition.assignment.strategy": {"enum": ["range", "roundrobin", "sticky", None]},
        },
        optional=(
            "name",
            "format",
            "auto.offset.reset",
            "auto.commit.enable",
            "fetch.min.bytes",
            "consumer.request.timeout.ms",
            "partition.assignment.strategy",
        ),
    ),
    "ConsumerInstance": obj({"instance_id": string(), "base_uri": string(format="uri")}),
    "NewSubscription": {
        "oneOf": [obj({"topics": places(NEW_TOPIC_NAME, 1)}), obj({"topic_pattern": TOPIC_PATTERN})],
        "description": "Topics need not exist. A pattern is RE2's, and matches whole names.",
    },
    "Subscription": obj({"topics": array(string()), "topic_pattern": _MAYBE_TEXT}),
    "ConsumerPartitions": obj({"partitions": places(obj(_PLACE))}),
    "Positions": obj(
        {
            "offsets": nullable(
                rows(
                    obj({**_PLACE, "offset": OFFSET, "metadata": ANY}, optional=["metadata"]),
                    0,
                    PLACES_MAX // 2,
                )
            ),
            "timestamps": nullable(
                rows(
                    obj(
                        {
                            **_PLACE,
                            "timestamp": {"anyOf": [TIMESTAMP_MS, DATE_TIME]},
                            "metadata": ANY,
                        },
                        optional=["metadata"],
                    ),
                    0,
                    PLACES_MAX // 2,
                )
            ),
        },
        optional=["offsets", "timestamps"],
        text="One partition at least, none of them twice. `metadata` is not looked at.",
    ),
    "ConsumedOffsets": obj(
        {
            "offsets": nullable(
                places(
                    obj(
                        {**_PLACE, "offset": integer(0, INT64_MAX - 1), "metadata": OFFSET_METADATA},
                        optional=["metadata"],
                    ),
                    1,
                )
            )
        },
        optional=["offsets"],
        text="The offset of the last record that was consumed of each; without, of all that were delivered.",
    ),
    "ConsumedOutcomes": array(
        obj(
            {
                **_PLACE,
                "consumed": integer(-1),
                "committed": nullable(OFFSET),
                "error_code": integer(),
                "error": string(),
                "outcome": string(enum=["failed"]),
            },
            optional=["error_code", "error", "outcome"],
        )
    ),
    "CommittedByGroup": obj({**_PLACE, "offset": OFFSET, "metadata": string()}),
}
