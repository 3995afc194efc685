"""Fetch sessions (KIP-227): answers with news only, changes of partitions, epochs, ends, and the cost of a fetch."""

import asyncio
import random
from collections.abc import Callable

import pytest
from kafka.protocol.consumer import FetchRequest

from raftlog.api.kafka.api import ApiKey, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.leader.fetch import PartitionFetch
from raftlog.partitions.leader.session_fetch import SessionFetch
from raftlog.runtime.memory_budget import MemoryBudget
from tests.kafka.data.requests import CALLER, MIB, Handlers, decode_values, fetch_fields, make_batch
from tests.kafka.data.session_client import Key, SessionClient
from tests.kafka.data.test_request_cost import Calls
from tests.waiting import until

LONG_MS = 20_000
SOON_S = 5.0
P0, P1 = ("t", 0), ("t", 1)
IDLE_CALLS_MAX = 60
"""Python calls of a fetch without news from a session of any number of partitions."""


class FakeConnection:
    """Connection that the test loses."""

    def __init__(self) -> None:
        self.lost_callbacks: list[Callable[[], None]] = []

    def lose(self) -> None:
        for callback in self.lost_callbacks:
            callback()


def sessions_of(handlers: Handlers):
    return handlers.apis[ApiKey.FETCH].handle.__self__.sessions


def registrations(handlers: Handlers, topic: str = "t") -> list[int]:
    return [each.replica.waiting_count for each in handlers.broker.parts.topics.find(topic).partitions]


async def create_topic(handlers: Handlers, name: str, partitions: int) -> None:
    """Create a topic, and wait until this broker leads all of its partitions."""
    await handlers.broker.create_topic(name, partitions, deadline=deadline_in(60_000))
    for partition in handlers.broker.parts.topics.find(name).partitions:
        await until(
            lambda partition=partition: (
                partition.replica is not None and partition.replica.group.core.has_own_term_commit
            )
        )


async def wait_until_waiting(handlers: Handlers, client: SessionClient) -> None:
    """Wait until a request of the session waits for records."""
    session = sessions_of(handlers).find(client.id, CALLER.principal)
    await until(lambda: session.fetch._woken is not None and not session.fetch._woken.done())


# answers


@pytest.mark.parametrize("version", range(7, 13))
async def test_only_partitions_with_news_are_answered(lone, version):
    client = SessionClient(lone, {P0: 0, P1: 0}, version=version)
    rows = await client.fetch()
    assert (set(rows), client.epoch) == ({P0, P1}, 1)
    assert client.id > 0
    assert await client.fetch() == {}
    await lone.produce(make_batch(b"a"), 1)
    rows = await client.fetch()
    assert [(key, decode_values(row.records), row.high_watermark) for key, row in rows.items()] == [(P1, [b"a"], 1)]
    client.advance(rows)
    assert await client.fetch() == {}


@pytest.mark.parametrize("version", [4, 6])
async def test_versions_without_sessions_return_all_partitions(lone, version):
    for _ in range(2):
        assert set(await lone.fetch({P0: 0, P1: 0}, version=version)) == {P0, P1}
    assert len(sessions_of(lone)) == 0


async def test_records_are_returned_again_until_the_client_moves_on(lone):
    await lone.produce(make_batch(b"a"))
    client = SessionClient(lone, {P0: 0, P1: 0})
    await client.fetch()
    for _ in range(2):
        rows = await client.fetch(max_wait_ms=LONG_MS)
        assert [decode_values(row.records) for row in rows.values()] == [[b"a"]]
    client.advance(rows)
    assert await client.fetch() == {}
    client.wanted[P0] = 0
    assert decode_values((await client.fetch())[P0].records) == [b"a"], "moved back"


async def test_a_new_log_start_is_news(lone):
    await lone.produce(make_batch(b"a"))
    client = SessionClient(lone, {P0: 1})
    await client.fetch()
    await lone.delete_records(1)
    rows = await client.fetch()
    assert (rows[P0].log_start_offset, decode_values(rows[P0].records)) == (1, [])
    assert await client.fetch() == {}


async def test_an_error_is_repeated_until_it_ends(lone):
    client = SessionClient(lone, {P0: 7, ("later", 0): 0})
    for _ in range(3):
        rows = await client.fetch(max_wait_ms=LONG_MS)
        assert {key: row.error_code for key, row in rows.items()} == {
            P0: ErrorCode.OFFSET_OUT_OF_RANGE,
            ("later", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    client.wanted[P0] = 0
    await create_topic(lone, "later", 1)
    rows = await client.fetch()
    assert {key: (row.error_code, row.high_watermark) for key, row in rows.items()} == {
        P0: (0, 0),
        ("later", 0): (0, 0),
    }
    assert await client.fetch() == {}


async def test_a_session_follows_a_topic_that_is_created_again(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    await lone.broker.delete_topic("t", deadline=deadline_in(10_000))
    assert (await client.fetch(max_wait_ms=LONG_MS))[P0].error_code != 0
    await create_topic(lone, "t", 1)
    assert (await client.fetch())[P0].error_code == 0
    polling = asyncio.create_task(client.fetch(max_wait_ms=LONG_MS))
    await wait_until_waiting(lone, client)
    await lone.produce(make_batch(b"a"))
    assert decode_values((await asyncio.wait_for(polling, SOON_S))[P0].records) == [b"a"]


async def test_leader_epochs_of_a_session_are_checked(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    answer = await client.send({P0: 0}, [], epoch=99)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# changes of partitions


async def test_added_and_forgotten_partitions(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    assert registrations(lone) == [1, 0]
    client.wanted[P1] = 0
    assert set(await client.fetch()) == {P1}, "a new partition is news"
    del client.wanted[P0]
    await lone.produce(make_batch(b"a"), 0)
    assert await client.fetch() == {}, "a forgotten one is not answered"
    assert registrations(lone) == [0, 1]
    client.wanted[P0] = 0
    assert decode_values((await client.fetch())[P0].records) == [b"a"]
    assert registrations(lone) == [1, 1]
    assert sessions_of(lone).partition_count == 2


async def test_unknown_forgotten_partitions_are_ignored(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    answer = await client.send({}, [P1, ("none", 3)])
    assert (answer.error_code, answer.session_id) == (0, client.id)


async def test_a_session_without_partitions_ends(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    async with asyncio.timeout(SOON_S):
        answer = await client.send({}, [P0], max_wait_ms=LONG_MS)
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
    assert len(sessions_of(lone)) == 0
    assert registrations(lone) == [0, 0]


async def test_a_request_without_partitions_is_answered_at_once(lone):
    async with asyncio.timeout(SOON_S):
        assert await lone.fetch({}, max_wait_ms=LONG_MS) == {}


# ids and epochs


@pytest.mark.parametrize(
    ("difference", "epoch", "code"),
    [
        (1, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, -2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
async def test_wrong_ids_and_epochs_are_refused(lone, difference, epoch, code):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    answer = await client.send({}, [], session_id=client.id + difference, session_epoch=epoch)
    assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, [])
    assert await client.fetch() == {}, "the session goes on"


async def test_a_repeated_request_is_refused(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    assert (await client.send({}, [])).error_code == 0
    assert (await client.send({}, [])).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def test_the_epoch_after_the_largest_is_one(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    sessions_of(lone).find(client.id, CALLER.principal).epoch = (1 << 31) - 1
    assert (await client.send({}, [], session_epoch=(1 << 31) - 1)).error_code == 0
    assert (await client.send({}, [], session_epoch=1)).error_code == 0


async def test_a_session_belongs_to_its_principal(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    lone.caller = CALLER._replace(principal="User:mallory")
    assert (await client.send({}, [])).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (await client.send({P0: 0}, [], session_epoch=-1)).error_code == 0
    lone.caller = CALLER
    assert (await client.send({}, [])).error_code == 0, "others cannot close it"


# ends


@pytest.mark.parametrize(("epoch", "is_open"), [(-1, False), (0, True)])
async def test_a_full_request_closes_the_session_that_it_names(lone, epoch, is_open):
    client = SessionClient(lone, {P0: 0, P1: 0})
    await client.fetch()
    before = client.id
    answer = await client.send({P0: 0}, [], session_epoch=epoch)
    assert (answer.session_id != 0) == is_open
    assert registrations(lone) == [int(is_open), 0]
    client.epoch = 1
    assert (await client.send({}, [], session_id=before)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_ends_with_the_connection_that_used_it_last(lone):
    first, second = FakeConnection(), FakeConnection()
    lone.connection = first
    client, other = SessionClient(lone, {P0: 0}), SessionClient(lone, {P1: 0})
    await client.fetch()
    await other.fetch()
    lone.connection = second
    await client.fetch()
    first.lose()
    assert registrations(lone) == [1, 0]
    assert await client.fetch() == {}
    second.lose()
    assert (registrations(lone), len(sessions_of(lone))) == ([0, 0], 0)
    assert sessions_of(lone).partition_count == 0


async def test_a_cancelled_fetch_ends_its_session(lone):
    client = SessionClient(lone, {P0: 0, P1: 0})
    await client.fetch()
    polling = asyncio.create_task(client.fetch(max_wait_ms=LONG_MS))
    await wait_until_waiting(lone, client)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    assert (registrations(lone), len(sessions_of(lone))) == ([0, 0], 0)


async def test_a_closed_session_answers_the_request_that_waits(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    polling = asyncio.create_task(client.fetch(max_wait_ms=LONG_MS))
    await wait_until_waiting(lone, client)
    assert (await client.send({}, [], session_epoch=2)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH, "busy"
    await client.send({}, [], session_epoch=-1)
    assert await asyncio.wait_for(polling, SOON_S) == {}
    assert registrations(lone) == [0, 0]


async def test_a_fetch_that_is_closed_between_two_slices_leaves_no_registration(lone):
    fetch = lone.broker.leader.fetches.begin_session()
    await fill(lone, fetch, 600)
    running = asyncio.create_task(fetch.fetch(max_bytes=MIB, min_bytes=1, deadline=deadline_in(LONG_MS)))
    await asyncio.sleep(0)
    fetch.close()
    assert len(await asyncio.wait_for(running, SOON_S)) == 600
    assert sum(registrations(lone, "wide")) == 0


async def test_polls_of_sessions_end_when_the_broker_stops(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    polling = asyncio.create_task(client.fetch(max_wait_ms=LONG_MS))
    await wait_until_waiting(lone, client)
    lone.broker.wake_fetches()
    async with asyncio.timeout(SOON_S):
        assert await polling == {}
        assert await client.fetch(max_wait_ms=LONG_MS) == {}


# long polls and limits


async def test_a_poll_counts_the_bytes_of_all_partitions(lone):
    size = len(make_batch(b"a"))
    client = SessionClient(lone, {P0: 0, P1: 0})
    await client.fetch()
    polling = asyncio.create_task(client.fetch(max_wait_ms=LONG_MS, min_bytes=3 * size))
    await wait_until_waiting(lone, client)
    await lone.produce(make_batch(b"a"), 0)
    await lone.produce(make_batch(b"a"), 1)
    await asyncio.sleep(0)
    assert not polling.done()
    await lone.produce(make_batch(b"a"), 0)
    rows = await asyncio.wait_for(polling, SOON_S)
    assert {key: len(decode_values(row.records)) for key, row in rows.items()} == {P0: 2, P1: 1}


async def test_a_poll_returns_at_its_timeout(lone):
    client = SessionClient(lone, {P0: 0})
    await client.fetch()
    await lone.produce(make_batch(b"a"))
    rows = await client.fetch(max_wait_ms=30, min_bytes=MIB)
    assert decode_values(rows[P0].records) == [b"a"]


async def test_records_between_two_requests_are_not_missed(lone):
    client = SessionClient(lone, {P0: 0, P1: 0})
    await client.fetch()
    await lone.produce(make_batch(b"a"), 1)
    rows = await asyncio.wait_for(client.fetch(max_wait_ms=LONG_MS), SOON_S)
    assert decode_values(rows[P1].records) == [b"a"]


async def test_no_partition_starves_behind_one_with_much_to_read(lone):
    size = len(make_batch(bytes(1_000)))
    for _ in range(4):
        await lone.produce(make_batch(bytes(1_000)), 0)
    client = SessionClient(lone, {P0: 0, P1: 0})
    client.advance(await client.fetch(max_bytes=size))
    await lone.produce(make_batch(b"b"), 1)
    seen = []
    for _ in range(4):
        rows = await client.fetch(max_bytes=size, max_wait_ms=LONG_MS)
        client.advance(rows)
        seen += [key for key, row in rows.items() if row.records]
    assert P1 in seen[:2]
    assert seen.count(P0) == 3


async def test_unread_records_stay_ready_without_memory(lone):
    answers = MemoryBudget(100)
    handlers = Handlers(lone.broker, answers=answers)
    client = SessionClient(handlers, {P0: 0})
    await client.fetch()
    await lone.produce(make_batch(b"a"))
    answers.take_anyway("a slow reader", 100)
    rows = await client.fetch(max_wait_ms=10)
    assert (decode_values(rows[P0].records), rows[P0].high_watermark) == ([], 1)
    answers.release("a slow reader")
    assert decode_values((await client.fetch(max_wait_ms=LONG_MS))[P0].records) == [b"a"]


# cost


async def fill(lone: Handlers, fetch: SessionFetch, count: int) -> None:
    """Add the partitions of a new topic to a session."""
    await create_topic(lone, "wide", count)
    for number in range(count):
        fetch.put(PartitionFetch("wide", number, -1, 0, MIB))


async def test_a_fetch_costs_the_same_with_many_partitions(lone):
    await create_topic(lone, "wide", 300)
    client = SessionClient(lone, {("wide", number): 0 for number in range(300)})
    await client.fetch()
    api = lone.apis[ApiKey.FETCH]
    request = decode_request(lone, client.id, 1)
    calls = Calls()
    with calls:
        answer = await api.handle(request)
        pieces = api.encode(answer, 12)
    assert answer.error_code == 0
    assert sum(map(len, pieces)) < 20
    assert calls.count <= IDLE_CALLS_MAX


def decode_request(lone: Handlers, number: int, epoch: int):
    """Return a decoded request of a session without changes."""
    fields = fetch_fields({}, session_id=number, session_epoch=epoch)
    body = memoryview(bytearray(FetchRequest(version=12, **fields).encode(version=12)))
    return KafkaRequest(ApiKey.FETCH, 12, lone.apis[ApiKey.FETCH].decode(body, 12), CALLER)


# against a model


async def test_partitions_of_many_changes_match_a_model(lone):
    """Answers have exactly the partitions with records, other bounds or errors, whatever the client did before."""
    draw = random.Random(7)
    keys: list[Key] = [P0, P1, ("u", 0), ("u", 1), ("u", 2), ("none", 0)]
    await create_topic(lone, "u", 3)
    ends, starts = dict.fromkeys(keys, 0), dict.fromkeys(keys, 0)
    client = SessionClient(lone, {P0: 0})
    reported: dict[Key, tuple[int, int] | None] = {}
    for _ in range(400):
        for _ in range(draw.randrange(3)):
            key = draw.choice(keys)
            match draw.randrange(6):
                case 0 | 1 if key[0] != "none":
                    await lone.produce(make_batch(b"x"), key[1], topic=key[0])
                    ends[key] += 1
                case 2 if starts[key] < ends[key]:
                    starts[key] = draw.randint(starts[key] + 1, ends[key])
                    await lone.delete_records(starts[key], key[1], topic=key[0])
                case 3:
                    client.wanted[key] = draw.randint(0, ends[key] + draw.randrange(2))
                case 4 if len(client.wanted) > 1:
                    client.wanted.pop(key, None)
                case 5 if draw.random() < 0.1:
                    client.reset()
        if not client.epoch:
            reported = {}
        reported = {key: reported.get(key) for key in client.wanted}
        rows = await client.fetch()
        expected = set()
        for key, offset in client.wanted.items():
            if key[0] == "none" or not starts[key] <= offset <= ends[key]:
                reported[key] = None
                expected.add(key)
                assert rows[key].error_code
                continue
            bounds = (ends[key], starts[key])
            if offset < ends[key] or reported[key] != bounds:
                expected.add(key)
                assert (rows[key].high_watermark, rows[key].log_start_offset) == bounds
                assert len(decode_values(rows[key].records)) == ends[key] - offset
            reported[key] = bounds
        assert set(rows) == expected
        if draw.random() < 0.5:
            client.advance(rows)
