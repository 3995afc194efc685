"""Requests about consumer groups: content, answers, and the broker for the next request."""

import base64
from typing import Any

import orjson
import pytest
from aiohttp import web

from raftlog.client import BrokerClient, CommittedOffset, GroupMember, Membership, OffsetReset, ProducerIdentity, calls
from raftlog.errors import InvalidArgument, OutcomeUnknown, StaleGeneration, UnstableOffsets
from raftlog.types import Offset, TopicPartition

ME = Membership("m-1", 7, None)
PLACE = TopicPartition("t", 0)


class ScriptedAnswers:
    """Answers by method and path; records the requests with query and body."""

    def __init__(self, **headers: str) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.headers = headers

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        named = f"{request.method} {request.path}"
        self.asked.append((named, dict(request.query), orjson.loads(body) if body else None))
        status, fields = self.answers[named]
        return web.Response(
            body=orjson.dumps(fields), status=status, content_type="application/json", headers=self.headers
        )


@pytest.fixture
def scripts() -> ScriptedAnswers:
    return ScriptedAnswers()


async def test_a_group_leader_gets_the_members_and_assigns(scripted: Any, scripts: ScriptedAnswers) -> None:
    member = {"member_id": "m-1", "instance_id": None, "metadata": base64.b64encode(b"topics").decode()}
    scripts.answers["POST /groups/g/join"] = (
        200,
        {"member_id": "m-1", "generation": 7, "protocol": "range", "leader": "m-1", "members": [member]},
    )
    scripts.answers["POST /groups/g/sync"] = (
        200,
        {"assignment": base64.b64encode(b"mine").decode(), "generation": 7, "protocol": "range"},
    )
    async with BrokerClient([await scripted(scripts)]) as client:
        joined = await client.groups.join("g", {"range": b"topics"}, rebalance_timeout_ms=5_000)
        assert (joined.is_leader, joined.members) == (True, [GroupMember("m-1", None, b"topics")])
        synced = await client.groups.sync("g", Membership("m-1", joined.generation), {"m-1": b"mine"})
        assert synced.assignment == b"mine"
    (_, query, join), (_, _, sync) = scripts.asked
    assert query == {"timeout": "15000"}, "longer than the others may take"
    assert join["protocols"] == [{"name": "range", "metadata": base64.b64encode(b"topics").decode()}]
    assert (join["member_id"], join["assigned_by"], join["session_timeout_ms"]) == ("", "leader", 10_000)
    assert sync["assignments"] == [{"member_id": "m-1", "assignment": base64.b64encode(b"mine").decode()}]


async def test_a_first_join_without_an_answer_is_not_repeated(silent: Any) -> None:
    asked = []

    def hang_up(writer: Any) -> None:
        asked.append(1)
        writer.close()

    async with BrokerClient([await silent(hang_up), await silent(hang_up)]) as client:
        with pytest.raises(OutcomeUnknown):
            await client.groups.join("g", {"range": b""})
        assert len(asked) == 1
        with pytest.raises(OutcomeUnknown):
            await client.groups.commit("g", {PLACE: 1}, ME)
        assert len(asked) == 2, "a commit of a member that was late could undo a later one"


async def test_commits_name_the_committing_member(scripted: Any, scripts: ScriptedAnswers) -> None:
    scripts.answers["POST /groups/g/offsets"] = (200, {"offsets": []})
    async with BrokerClient([await scripted(scripts)]) as client:
        await client.groups.commit("g", {PLACE: 5})
        await client.groups.commit("g", {PLACE: CommittedOffset(Offset(4), "note", 3)}, Membership("m-1", 7, "i"))
    simple, of_member = (body for _, _, body in scripts.asked)
    row = {"topic": "t", "partition": 0, "offset": 5}
    assert simple == {"offsets": [row]}
    assert of_member == {
        "offsets": [row | {"offset": 4, "metadata": "note", "leader_epoch": 3}],
        "member_id": "m-1",
        "generation": 7,
        "instance_id": "i",
    }


async def test_a_fenced_commit_raises_stale_generation(scripted: Any, scripts: ScriptedAnswers) -> None:
    body = {"error_code": 40905, "message": "generation 6 is over", "outcome": "failed"}
    scripts.answers["POST /groups/g/offsets"] = (409, body)
    async with BrokerClient([await scripted(scripts)]) as client:
        with pytest.raises(StaleGeneration, match="generation 6"):
            await client.groups.commit("g", {PLACE: 5}, ME)


async def test_offsets_of_an_older_broker_have_no_metadata(scripted: Any, scripts: ScriptedAnswers) -> None:
    scripts.answers["GET /groups/g/offsets"] = (200, {"offsets": [{"topic": "t", "partition": 0, "offset": 3}]})
    async with BrokerClient([await scripted(scripts)]) as client:
        assert await client.groups.committed("g") == {PLACE: CommittedOffset(Offset(3))}


async def test_offsets_that_a_transaction_may_change_are_not_returned_as_stable(
    scripted: Any, scripts: ScriptedAnswers
) -> None:
    found = {
        "offsets": [{"topic": "t", "partition": 0, "offset": 3}],
        "unstable": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}],
    }
    scripts.answers["GET /groups/g/offsets"] = (200, found)
    async with BrokerClient([await scripted(scripts)]) as client:
        committed = {PLACE: CommittedOffset(Offset(3))}
        assert await client.groups.committed("g") == committed
        assert await client.groups.committed("g", stable=[TopicPartition("t", 2)]) == committed
        with pytest.raises(UnstableOffsets, match="t/1"):
            await client.groups.committed("g", stable=[TopicPartition("t", 1)])


async def test_the_next_request_goes_to_the_coordinator(scripted: Any) -> None:
    coordinator = ScriptedAnswers()
    coordinator.answers["POST /groups/g/heartbeat"] = (200, {})
    address = await scripted(coordinator)
    first = ScriptedAnswers(**{"X-Raftlog-Leader": address})
    first.answers["POST /groups/g/heartbeat"] = first.answers["POST /groups/h/heartbeat"] = (200, {})
    async with BrokerClient([await scripted(first)]) as client:
        await client.groups.heartbeat("g", ME)
        await client.groups.heartbeat("g", ME, wait_ms=50)
        await client.groups.heartbeat("h", ME)
    assert [name for name, _, _ in first.asked] == ["POST /groups/g/heartbeat", "POST /groups/h/heartbeat"]
    ((_, query, body),) = coordinator.asked
    assert (query["timeout"], body["wait_ms"]) == ("10000", 50), "the deadline counts from the end of the wait"


async def test_a_long_poll_may_take_its_whole_timeout(
    scripted: Any, scripts: ScriptedAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "GRACE_MS", 0)
    scripts.answers["POST /groups/g/heartbeat"] = (200, {})
    async with BrokerClient([await scripted(scripts)]) as client:
        await client.groups.heartbeat("g", ME, wait_ms=30_000, timeout_ms=0)
    ((_, query, body),) = scripts.asked
    assert (query["timeout"], body["wait_ms"]) == ("0", 30_000)


async def test_a_reset_is_sent_with_its_arguments(scripted: Any, scripts: ScriptedAnswers) -> None:
    row = {"topic": "t", "partition": 0, "before": None, "after": 4, "clamped": True}
    scripts.answers["POST /groups/g/offsets/reset"] = (200, {"offsets": [row], "dry_run": True})
    async with BrokerClient([await scripted(scripts)]) as client:
        done = await client.groups.reset("g", {"shift": -3}, topics=["t"], partitions=[PLACE], dry_run=True)
    assert done == [OffsetReset("t", 0, None, Offset(4), True)]
    assert scripts.asked[0][2] == {
        "to": {"shift": -3},
        "dry_run": True,
        "topics": ["t"],
        "partitions": [{"topic": "t", "partition": 0}],
    }


async def test_numbers_beyond_64_bits_are_refused_before_sending(scripted: Any, scripts: ScriptedAnswers) -> None:
    async with BrokerClient([await scripted(scripts)]) as client:
        with pytest.raises(InvalidArgument, match="64-bit"):
            await client.groups.reset("g", {"offset": 10**30})
    assert not scripts.asked


async def test_unknown_fields_of_a_lag_are_none(scripted: Any, scripts: ScriptedAnswers) -> None:
    row = {"topic_name": "t", "partition_id": 0, "current_offset": -1, "log_end_offset": 9, "lag": 9}
    member = {"consumer_id": "", "instance_id": None, "client_id": ""}
    scripts.answers["GET /v3/clusters/-/consumer-groups/a%20b/lags"] = scripts.answers[
        "GET /v3/clusters/-/consumer-groups/a b/lags"
    ] = (200, {"data": [row | member]})
    async with BrokerClient([await scripted(scripts)]) as client:
        (lag,) = await client.groups.lag("a b")
    assert (lag.place, lag.current_offset, lag.log_end_offset, lag.lag) == (PLACE, None, 9, 9)


async def test_a_producer_id_is_allocated_and_records_are_deleted(scripted: Any, scripts: ScriptedAnswers) -> None:
    scripts.answers["POST /producers"] = (200, {"producer_id": 4_000, "producer_epoch": 0})
    scripts.answers["DELETE /topics/t/partitions/0/records"] = (200, {"log_start_offset": 12})
    async with BrokerClient([await scripted(scripts)]) as client:
        assert await client.new_producer() == ProducerIdentity(4_000, 0)
        assert await client.delete_records("t", 0, 12) == 12
    assert scripts.asked[1][1] == {"timeout": "10000", "before": "12"}
