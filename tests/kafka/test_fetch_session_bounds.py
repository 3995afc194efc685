"""Bounds of fetch sessions: eviction as in Kafka, in the model and in the examples; no partition is counted twice."""

import asyncio
import random
from random import Random

import pytest

from raftlog.api.kafka import fetch_sessions
from raftlog.api.kafka.fetch_sessions import EVICTION_S, FetchSession, FetchSessions
from raftlog.partitions.counters import Counters, KafkaCounters
from raftlog.partitions.leader.fetch import PartitionFetch
from raftlog.partitions.leader.session_fetch import SessionFetch

ALICE = "User:alice"


class Clock:
    """Clock of the sessions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(fetch_sessions, "_now_s", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(fetch_sessions, "SESSIONS_MAX", 3)
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 20)
    return Clock(monkeypatch)


def make_sessions(counters: KafkaCounters | None = None) -> FetchSessions:
    return FetchSessions(lambda: SessionFetch({}, Counters(), 1 << 20), Random(3), counters or KafkaCounters())


def begin(sessions: FetchSessions, size: int, first: int = 0) -> FetchSession | None:
    """Begin a session with this number of partitions."""
    session = sessions.create(size, ALICE, None)
    if session is not None:
        for number in range(first, first + size):
            session.fetch.put(PartitionFetch("t", number, -1, 0, 1))
        assert sessions.count(session)
    return session


async def test_a_full_cache_refuses_new_sessions(clock):
    sessions = make_sessions()
    for _ in range(3):
        assert begin(sessions, 1) is not None
    assert begin(sessions, 5) is None
    assert len(sessions) == 3


async def test_a_session_that_was_unused_for_long_is_evicted(clock):
    counters = KafkaCounters()
    sessions = make_sessions(counters)
    held = [begin(sessions, 9), begin(sessions, 1), begin(sessions, 1)]
    clock.now_s += 100
    sessions.use(held[0], None)
    clock.now_s += EVICTION_S - 99
    new = begin(sessions, 1)
    assert new is not None
    assert [sessions.find(each.id, ALICE) is each for each in held] == [True, False, True]
    assert (counters.fetch_sessions_evicted, counters.fetch_sessions, counters.fetch_session_partitions) == (1, 3, 11)
    assert held[1].fetch._is_closed


async def test_a_larger_session_takes_the_place_of_the_smallest_old_one(clock):
    sessions = make_sessions()
    held = [begin(sessions, 4), begin(sessions, 3)]
    clock.now_s += EVICTION_S + 1
    held.append(begin(sessions, 1))
    for each in held:
        sessions.use(each, None)
    assert begin(sessions, 3) is None, "no old session is smaller"
    assert begin(sessions, 4) is not None
    assert [sessions.find(each.id, ALICE) is each for each in held] == [True, False, True], "young ones are kept"


async def test_partitions_of_all_sessions_are_bounded(clock):
    sessions = make_sessions()
    first = begin(sessions, 15)
    assert begin(sessions, 6) is None
    assert begin(sessions, 5) is not None
    first.fetch.put(PartitionFetch("t", 99, -1, 0, 1))
    assert not sessions.count(first), "a session that grows beyond the bound ends"
    assert sessions.find(first.id, ALICE) is None
    assert (len(sessions), sessions.partition_count) == (1, 5)
    assert begin(sessions, 21) is None
    assert len(sessions) == 1


async def test_ids_are_positive_and_unique(clock, monkeypatch):
    monkeypatch.setattr(fetch_sessions, "_ID_MAX", 3)
    sessions = make_sessions()
    assert sorted(begin(sessions, 1).id for _ in range(3)) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(20))
async def test_evictions_match_a_model(clock, seed):
    """Create, use, grow and remove sessions at random; the model applies Kafka's rules to a plain list."""
    draw = random.Random(seed)
    counters = KafkaCounters()
    sessions = make_sessions(counters)
    model: list[list] = []  # [session, created, used, size], least recently used first
    for _ in range(300):
        clock.now_s += draw.choice([0, 1, 30, 100])
        held = draw.choice(model) if model else None
        match draw.randrange(4):
            case 0 | 1:
                size = draw.randrange(1, 9)
                expected = list(model)
                is_admitted = True
                while len(expected) >= 3 or sum(each[3] for each in expected) + size > 20:
                    smaller = [e for e in expected if clock.now_s - e[1] > EVICTION_S and e[3] < size]
                    if clock.now_s - expected[0][2] > EVICTION_S:
                        expected.pop(0)
                    elif smaller:
                        expected.remove(min(smaller, key=lambda each: (each[3], each[0].id)))
                    else:
                        is_admitted = False
                        break
                session = begin(sessions, size)
                assert (session is not None) == is_admitted
                model = expected
                if session is not None:
                    model.append([session, clock.now_s, clock.now_s, size])
            case 2 if held is not None:
                sessions.use(held[0], None)
                held[2] = clock.now_s
                model.remove(held)
                model.append(held)
            case 3 if held is not None and draw.random() < 0.3:
                sessions.remove(held[0])
                sessions.remove(held[0])
                model.remove(held)
        assert len(sessions) == len(model) == counters.fetch_sessions
        assert all(sessions.find(each[0].id, ALICE) is each[0] for each in model)
        assert sessions.partition_count == sum(each[3] for each in model) == counters.fetch_session_partitions
    await asyncio.sleep(0)
