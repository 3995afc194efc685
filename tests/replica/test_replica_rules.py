"""Rules of a replica in rare states: in-sync copies, deletions, answers to readers."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from raftlog.errors import LogClosed, NotLeader, OutcomeUnknown, Unavailable
from raftlog.partitions.counters import Counters
from raftlog.partitions.replica.compaction_marks import CompactionMarks, _newest_ms
from raftlog.partitions.replica.pending_appends import PendingAppends, _durable_indexes
from raftlog.partitions.replica.record_deletion import RecordDeletion
from raftlog.partitions.replica.replica import Replica
from raftlog.partitions.replica.retention import Retention
from raftlog.raft import Accepted, ReplicaId, Role
from raftlog.topic_config import TopicConfig
from raftlog.types import Index, NodeId, Offset, Term
from tests.replica.worlds import ReplicaWorld, other_numbers

ME, OTHER, LEARNER = (ReplicaId(NodeId(number), UUID(int=number)) for number in (1, 2, 3))
OLD_MS = 1_000_000_000


def status(*, match: dict[ReplicaId, int]) -> Any:
    """Return the status of a leader with one other voter and a learner, all active."""
    voters = (ME, OTHER)
    return SimpleNamespace(
        me=ME,
        durable_index=7,
        is_quiesced=False,
        configuration=SimpleNamespace(voters=voters, has_voter=voters.__contains__),
        followers=[
            SimpleNamespace(member=member, match_index=index, is_active=True) for member, index in match.items()
        ],
    )


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


# copies


def test_a_learner_does_not_count_as_a_copy() -> None:
    assert _durable_indexes(status(match={OTHER: 5, LEARNER: 9})) == [7, 5]


def test_a_learner_does_not_replace_an_unreachable_voter() -> None:
    core = SimpleNamespace(status=lambda: status(match={LEARNER: 9}))
    appending = PendingAppends("t/0", SimpleNamespace(core=core))  # type: ignore[arg-type]
    assert appending.too_few_error(1) is None
    assert isinstance(appending.too_few_error(2), Unavailable)


def test_an_accepted_unwritten_append_is_unknown_when_the_replica_closes(
    loop: asyncio.AbstractEventLoop,
) -> None:
    accepted = Accepted(Term(2), Index(4), Index(4))
    group = SimpleNamespace(
        append=lambda batches: accepted,
        log=SimpleNamespace(last_index=3),
        core=SimpleNamespace(role=Role.LEADER, term=2),
        on_turn=None,
    )
    appending = PendingAppends("t/0", group)  # type: ignore[arg-type]
    future: asyncio.Future[Any] = loop.create_future()
    appending.take([bytearray()], future)
    assert not future.done()
    appending.end(LogClosed("it stops"))
    assert isinstance(future.exception(), OutcomeUnknown)


# who answers


def test_a_follower_redirects_readers_to_its_leader() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        world.appended(leader, b"x")
        follower = other_numbers(leader)[0]
        world.run_until(lambda: world.group(follower).high_watermark == 1)
        task = world.fetch(follower, 0)
        world.run_until(task.done)
        assert isinstance(task.exception(), NotLeader)


def test_a_leader_knows_the_high_watermark_after_applying_an_entry_of_its_term() -> None:
    core = SimpleNamespace(has_own_term_commit=True, term=3)
    log = SimpleNamespace(term_at={4: 2, 5: 3}.__getitem__)
    group = SimpleNamespace(core=core, log=log, applied_index=4)
    replica: Any = SimpleNamespace(group=group)
    assert not Replica._has_own_term(replica)
    group.applied_index = 5
    assert Replica._has_own_term(replica)


def test_only_a_damaged_sole_replica_serves_its_durable_records() -> None:
    replica: Any = SimpleNamespace(group=SimpleNamespace(damage="a flipped bit"), is_alone=False)
    assert not Replica._is_alone_and_damaged(replica)
    replica.is_alone = True
    assert Replica._is_alone_and_damaged(replica)


# what goes


def segment(base_offset: int, base_index: int, *, created_ms: int = 0, newest_ms: int = 0) -> Any:
    return SimpleNamespace(
        base_offset=base_offset,
        base_index=base_index,
        next_offset=base_offset + 10,
        end_position=1000,
        created_ms=created_ms,
        times=SimpleNamespace(max_timestamp=newest_ms),
    )


def group_of(*segments: Any, applied: int, term: int = 1) -> Any:
    """Return a leader's Raft group that records proposals and never completes them."""
    loop = asyncio.new_event_loop()
    loop.close()
    proposed: list[Any] = []

    def note(*what: Any) -> "asyncio.Future[Any]":
        proposed.append(what)
        return asyncio.Future(loop=loop)

    return SimpleNamespace(
        log=SimpleNamespace(
            segments=SimpleNamespace(segments=segments, active=segments[-1]),
            mark=SimpleNamespace(compacted_to=-1, tombstones_to=-1),
        ),
        core=SimpleNamespace(term=term),
        applied_index=applied,
        log_start_offset=0,
        propose_trim=note,
        propose_control=note,
        proposed=proposed,
    )


def make_producers(*, is_covered: bool = True) -> Any:
    return SimpleNamespace(is_covered=is_covered, snapshot_index=Index(0), stable_end=Offset(1 << 40))


THREE = (segment(0, 1), segment(10, 12), segment(20, 23))


@pytest.mark.parametrize(
    ("applied", "is_covered", "trims"),
    [(30, True, [20]), (22, True, [10]), (11, True, []), (30, False, [10])],
    ids=["all committed", "last roll is not", "no roll is", "producers stand below the last roll"],
)
def test_retention_is_bounded_by_committed_rolls_and_the_producer_snapshot(
    applied: int, is_covered: bool, trims: list[int]
) -> None:
    group = group_of(*THREE, applied=applied)
    retention = Retention("t/0", group, make_producers(is_covered=is_covered), Counters())
    retention.propose_if_due(TopicConfig(retention_ms=1), OLD_MS)
    assert [offset for offset, _ in group.proposed] == trims


def test_compacted_topics_without_deletion_have_no_retention() -> None:
    group = group_of(*THREE, applied=30)
    Retention("t/0", group, make_producers(), Counters()).propose_if_due(
        TopicConfig(retention_ms=1, cleanup_policy="compact"), OLD_MS
    )
    assert group.proposed == []


@pytest.mark.parametrize(("offset", "is_covered", "may"), [(19, False, True), (20, False, False), (20, True, True)])
def test_a_deletion_keeps_the_producer_snapshot(offset: int, is_covered: bool, may: bool) -> None:
    deleting = RecordDeletion("t/0", group_of(*THREE, applied=30), make_producers(is_covered=is_covered))
    assert deleting._may_trim(Offset(offset)) is may


@pytest.mark.parametrize(
    ("applied", "is_covered", "dirty"), [(30, True, [0, 10]), (22, True, [0]), (11, True, []), (30, False, [0])]
)
def test_compaction_is_bounded_by_committed_rolls_and_the_producer_snapshot(
    applied: int, is_covered: bool, dirty: list[int]
) -> None:
    cleaning = CompactionMarks("t/0", group_of(*THREE, applied=applied), make_producers(is_covered=is_covered))
    assert [each.base_offset for each in cleaning._dirty_segments(0, OLD_MS)] == dirty


def test_the_age_of_a_segment_counts_from_the_next_roll_at_the_latest() -> None:
    """A client's late clock must not let records be compacted early."""
    assert _newest_ms(segment(0, 1, newest_ms=5), segment(10, 12, created_ms=9)) == 9
    assert _newest_ms(segment(0, 1, newest_ms=9), segment(10, 12, created_ms=5)) == 9


def test_a_new_leader_counts_the_age_of_marks_from_its_first_check() -> None:
    group = group_of(*THREE, applied=30)
    cleaning = CompactionMarks("t/0", group, make_producers())
    cleaning._record_mark(Offset(10), 1000, 0)
    group.core.term = 2
    cleaning._record_mark(Offset(10), 1000, 999)
    cleaning._record_mark(Offset(10), 1000, 1998)
    assert cleaning._old == 0
    cleaning._record_mark(Offset(10), 1000, 1999)
    assert cleaning._old == 10
