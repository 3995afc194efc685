"""Parsing of JSON bodies by their declarations: errors have a code and name the field, its place and valid values."""

import pytest

from raftlog.api.http.json_body import read
from raftlog.api.http.requests import (
    CommitBody,
    JoinBody,
    RecoveryBody,
    ReplicasBody,
    ResetBody,
    SubscribeBody,
    SyncBody,
)
from raftlog.api.http.server.problems import HttpProblem

PLACE = {"topic": "t", "partition": 0}
MEMBER = {"member_id": "m", "generation": 1}
PROTOCOLS = {"protocols": [{"name": "range", "metadata": ""}]}


@pytest.mark.parametrize(
    ("kind", "body", "code", "message"),
    [
        (CommitBody, {}, 42203, "'offsets' of the body is missing; it must be a list of objects"),
        (CommitBody, {"offsets": None}, 42203, "'offsets' of the body is None; it must be a list of objects"),
        (CommitBody, {"offsets": []}, 42208, "the list 'offsets' of the body is empty"),
        (CommitBody, {"offsets": [PLACE]}, 42203, "'offset' of 'offsets'[0] is missing; it must be a whole number"),
        (
            CommitBody,
            {"offsets": [{**PLACE, "offset": 1}, {**PLACE, "offset": -1}]},
            40002,
            "'offset' of 'offsets'[1] is -1; it can be 0 … 9223372036854775807",
        ),
        (
            CommitBody,
            {"offsets": [{**PLACE, "offset": True}]},
            42203,
            "'offset' of 'offsets'[0] is True; it must be a whole number",
        ),
        (
            CommitBody,
            {"offsets": [{**PLACE, "ofset": 1}]},
            40002,
            "'offsets'[0]: unknown field 'ofset' (did you mean 'offset'?); it can have topic, partition, offset, "
            "metadata, leader_epoch",
        ),
        (CommitBody, [], 42203, "the body is []; it must be an object"),
        (
            SubscribeBody,
            {"topics": ["x"] * 10_001},
            40002,
            "'topics' of the body has 10,001 entries; it can have 10,000",
        ),
        (SubscribeBody, {"topics": "t"}, 42203, "'topics' of the body is 't'; it must be a list of strings"),
        (
            SubscribeBody,
            {"topic_pattern": "x" * 32_768},
            40002,
            "'topic_pattern' of the body has 32,768 characters; it can have 32,767",
        ),
        (
            JoinBody,
            PROTOCOLS | {"assigned_by": "chance"},
            40002,
            "'assigned_by' of the body is 'chance'; it can be broker, leader",
        ),
        (
            SyncBody,
            MEMBER | {"assignments": [{"member_id": "m", "assignment": "*"}]},
            42203,
            "'assignment' of 'assignments'[0] is '*'; it must be base64",
        ),
        (ResetBody, {"to": {"offset": -1}}, 40002, "'offset' of 'to' is -1; it can be 0 … 9223372036854775807"),
        (
            ResetBody,
            {"to": {"ofset": 1}},
            40002,
            "'to' of the body: unknown field 'ofset' (did you mean 'offset'?); it can have timestamp, shift, offset",
        ),
        (
            ReplicasBody,
            [{"core": 1}],
            42203,
            "'node_id' of row 0 of the body is missing; it must be a whole number",
        ),
        (ReplicasBody, {}, 42203, "the body is {}; it must be a list of objects"),
    ],
)
def test_an_error_names_the_field_and_its_valid_values(kind, body, code, message):
    with pytest.raises(HttpProblem) as found:
        read(body, kind)
    assert (found.value.code, str(found.value)) == (code, message)


def test_an_operation_can_use_other_error_codes():
    with pytest.raises(HttpProblem) as found:
        read({"accept_loss": 1}, RecoveryBody, mistyped=(400, 40002))
    assert (found.value.status, str(found.value)) == (
        400,
        "'accept_loss' of the body is 1; it must be true or false",
    )


def test_null_equals_a_missing_field():
    found = read(PROTOCOLS | {"session_timeout_ms": None, "member_id": None}, JoinBody)
    assert (found.session_timeout_ms, found.member_id, found.instance_id) == (None, None, None)
