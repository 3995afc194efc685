"""The client sends to the leader named by an answer, and returns to its first broker when that leader is down."""

from collections import Counter
from typing import Any

import orjson
import pytest
from aiohttp import web

from raftlog.client import BrokerClient
from raftlog.client.leaders import LeaderCache
from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.records import build_batch
from raftlog.types import TopicPartition

BATCH = bytes(build_batch([b"one"], now_ms=1))
PLACE = TopicPartition("t", 0)


class Brokers:
    """Two scripted brokers that count their requests."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.leader = ""
        self.status = 200

    def make_answer(self, name: str) -> Any:
        async def answer(_request: web.BaseRequest) -> web.Response:
            self.asked[name] += 1
            headers = {"X-Raftlog-Leader": self.leader} if self.leader else {}
            if self.status != 200:
                body: dict[str, Any] = {"error_code": 50302, "message": "no leader", "outcome": "failed"}
            else:
                row = {"partition": 0, "offset": 0, "error_code": None}
                body = {"offsets": [row], "next_offset": 1, "beginning_offset": 0, "end_offset": 1}
            return web.Response(
                body=orjson.dumps(body), status=self.status, headers=headers, content_type="application/json"
            )

        return answer


@pytest.fixture
async def brokers() -> Brokers:
    return Brokers()


async def test_the_next_request_for_a_partition_goes_to_its_leader(scripted: Any, brokers: Brokers) -> None:
    first, leader = await scripted(brokers.make_answer("first")), await scripted(brokers.make_answer("leader"))
    async with BrokerClient([first]) as client:
        brokers.leader = leader
        await client.produce_batches(*PLACE, BATCH)
        await client.produce_batches(*PLACE, BATCH)
        await client.offsets(*PLACE)
        assert brokers.asked == {"first": 1, "leader": 2}
        await client.produce_batches("t", 1, BATCH)
        assert brokers.asked == {"first": 2, "leader": 2}


async def test_a_leader_that_fails_is_forgotten(scripted: Any, brokers: Brokers, free_address: str) -> None:
    first = await scripted(brokers.make_answer("first"))
    async with BrokerClient([first]) as client:
        brokers.leader = free_address
        await client.produce_batches(*PLACE, BATCH)
        brokers.leader = ""
        assert (await client.produce_batches(*PLACE, BATCH)).base_offset == 0
        assert len(client._transport.leaders) == 0
        assert brokers.asked == {"first": 2}


async def test_a_leader_that_breaks_the_connection_leaves_the_outcome_unknown(
    scripted: Any, silent: Any, brokers: Brokers
) -> None:
    first = await scripted(brokers.make_answer("first"))
    async with BrokerClient([first]) as client:
        brokers.leader = await silent(lambda writer: writer.close())
        await client.produce_batches(*PLACE, BATCH)
        with pytest.raises(OutcomeUnknown):
            await client.produce_batches(*PLACE, BATCH)
        await client.produce_batches(*PLACE, BATCH)
        assert brokers.asked == {"first": 2}


async def test_a_deposed_leader_is_forgotten(scripted: Any, brokers: Brokers) -> None:
    first, leader = await scripted(brokers.make_answer("first")), await scripted(brokers.make_answer("leader"))
    async with BrokerClient([first]) as client:
        brokers.leader = leader
        await client.produce_batches(*PLACE, BATCH)
        brokers.leader, brokers.status = "", 503
        with pytest.raises(Unavailable):
            await client.produce_batches(*PLACE, BATCH)
        with pytest.raises(Unavailable):
            await client.produce_batches(*PLACE, BATCH)
        assert brokers.asked == {"first": 2, "leader": 1}


async def test_an_invalid_leader_hint_is_ignored(scripted: Any, brokers: Brokers) -> None:
    async with BrokerClient([await scripted(brokers.make_answer("first"))]) as client:
        brokers.leader = "nowhere:99999"
        await client.produce_batches(*PLACE, BATCH)
        await client.produce_batches(*PLACE, BATCH)
    assert brokers.asked == {"first": 2}


def test_the_number_of_remembered_leaders_is_bounded() -> None:
    leaders = LeaderCache(targets_max=2)
    for number in range(3):
        leaders.learn(TopicPartition("t", number), f"h:{number + 1}")
        leaders.address_of(TopicPartition("t", 0))
    assert len(leaders) == 2
    assert leaders.address_of(TopicPartition("t", 0)) == "h:1", "it was used last"
    assert leaders.address_of(TopicPartition("t", 1)) is None
    leaders.forget(TopicPartition("t", 0), "h:9")
    assert leaders.address_of(TopicPartition("t", 0)) == "h:1", "another address was meant"
