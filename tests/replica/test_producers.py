"""Idempotent producers at a replica: new batches are appended once, retries are answered with the first offset."""

from functools import partial

from raftlog.errors import (
    DuplicateSequence,
    InvalidBatch,
    NotLeader,
    OutcomeUnknown,
    OutOfOrderSequence,
    ProducerFenced,
    Unavailable,
    UnknownProducer,
)
from raftlog.records import ControlKind
from raftlog.topic_config import TopicConfig
from tests.replica.producing import ProducerWorld, batch_of
from tests.replica.worlds import all_values, ask, base_offsets, other_numbers, wait_for_result


def test_a_retry_is_answered_with_the_first_offset_and_not_appended() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        world.appended(leader, b"somebody else's")
        first = world.send_and_wait(leader, 0, b"a", b"b")
        assert (first.base_offset, first.next_offset, first.is_duplicate) == (1, 3, False)
        second = world.send_and_wait(leader, 2, b"c")
        again = world.send_and_wait(leader, 0, b"a", b"b")
        assert (again.base_offset, again.next_offset, again.is_duplicate) == (1, 3, True)
        assert again.high_watermark == second.next_offset == 4
        assert all_values(world, leader) == [b"somebody else's", b"a", b"b", b"c"]
        assert world.has_equal_tables()


def test_sequences_outside_of_the_window_have_their_own_error() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        assert world.refusal_of(leader, 3) is UnknownProducer
        for sequence in range(6):
            world.send_and_wait(leader, sequence, b"%d" % sequence)
        assert world.refusal_of(leader, 7) is OutOfOrderSequence
        assert world.refusal_of(leader, 0) is DuplicateSequence
        assert world.send_and_wait(leader, 1, b"1").base_offset == 1
        assert world.refusal_of(leader, 1, epoch=1) is OutOfOrderSequence
        assert world.send_and_wait(leader, 0, b"new epoch", epoch=1).base_offset == 6
        assert world.refusal_of(leader, 6, epoch=0) is ProducerFenced
        assert world.send_and_wait(leader, 1, b"goes on", epoch=1).base_offset == 7
        assert world.send_and_wait(leader, 0, b"another", producer=8).base_offset == 8
        assert len(all_values(world, leader)) == 9
        assert world.has_equal_tables()


def test_sequences_wrap_around_after_the_highest() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        world.send_and_wait(leader, 0, b"a")
        state = world.replica(leader)._producers
        state.table._states[7] = state.table.get(7)._replace(batches=((0, (1 << 31) - 2, 0),)).pack()  # type: ignore[union-attr,arg-type]
        assert world.send_and_wait(leader, (1 << 31) - 1, b"b", b"c").base_offset == 1
        assert world.send_and_wait(leader, 1, b"d").base_offset == 3
        again = world.send_and_wait(leader, (1 << 31) - 1, b"b", b"c")
        assert (again.base_offset, again.is_duplicate) == (1, True)
        assert world.refusal_of(leader, 3) is OutOfOrderSequence


def test_a_duplicate_waits_for_its_original() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        world.send_and_wait(leader, 0, b"before")
        world.isolate(leader)
        original = world.send(leader, 1, b"x")
        again = world.send(leader, 1, b"x")
        after = world.send(leader, 2, b"y")
        quick = world.send(leader, 1, b"x", acks=1)
        world.run(0.1)
        assert not original.done()
        assert not again.done()
        assert quick.result().is_duplicate
        assert quick.result()[:2] == (1, 2)
        world.network.heal()
        world.run_until(after.done)
        assert again.result()[:2] == original.result()[:2] == (1, 2)
        assert again.result().is_duplicate
        assert all_values(world, leader) == [b"before", b"x", b"y"]


def test_sequences_lost_with_the_leadership_are_free_again() -> None:
    """F46: duplicates of a lost batch fail as the batch does."""
    with ProducerWorld() as world:
        old = world.lead()
        world.send_and_wait(old, 0, b"before")
        world.isolate(old)
        lost, again = world.send(old, 1, b"lost"), world.send(old, 1, b"lost")
        new = world.wait_for_new_leader(old)
        assert world.send_and_wait(new, 1, b"instead").base_offset == 1
        world.appended(new, b"more")
        world.network.heal()
        world.run_until(lost.done)
        assert isinstance(lost.exception(), NotLeader | OutcomeUnknown)
        assert type(again.exception()) is type(lost.exception())
        assert world.send_and_wait(new, 1, b"instead").is_duplicate
        assert all_values(world, new) == [b"before", b"instead", b"more"]
        assert world.has_equal_tables()


def test_the_next_leader_recognizes_a_retry_after_a_lost_answer() -> None:
    """F27, F41: one copy, and the offset of that copy."""
    with ProducerWorld() as world:
        old = world.lead()
        world.send_and_wait(old, 0, b"a")
        world.send_and_wait(old, 1, b"b", b"c")
        world.isolate(old)
        new = world.wait_for_new_leader(old)
        world.appended(new, b"another's")
        again = world.send(new, 1, b"b", b"c")
        world.run_until(again.done)
        assert (again.result()[:2], again.result().is_duplicate) == ((1, 3), True)
        assert world.send_and_wait(new, 3, b"d").base_offset == 4


def test_batches_after_a_lost_one_are_out_of_order() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        world.send_and_wait(leader, 0, b"0")
        sent = [world.send(leader, number, b"%d" % number) for number in (1, 2, 4, 5)]
        world.run_until(lambda: all(future.done() for future in sent))
        assert [type(future.exception()) for future in sent[2:]] == [OutOfOrderSequence] * 2
        retried = [world.send(leader, number, b"%d" % number) for number in (1, 2, 3, 4, 5)]
        world.run_until(lambda: all(future.done() for future in retried))
        assert [future.result().base_offset for future in retried] == [1, 2, 3, 4, 5]
        assert [future.result().is_duplicate for future in retried] == [True, True, False, False, False]
        assert all_values(world, leader) == [b"%d" % number for number in range(6)]


def test_several_batches_of_one_call_are_appended_all_or_none() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        both = world.send_batches(leader, batch_of(0, b"a"), batch_of(1, b"b", b"c"))
        world.run_until(both.done)
        assert both.result()[:2] == (0, 3)
        jump = world.send_batches(leader, batch_of(3, b"d"), batch_of(5, b"f"))
        world.run_until(jump.done)
        assert isinstance(jump.exception(), OutOfOrderSequence)
        mixed = world.send_batches(leader, batch_of(1, b"b", b"c"), batch_of(3, b"d"), batch_of(0, b"x", producer=9))
        world.run_until(mixed.done)
        assert (mixed.result()[:2], mixed.result().is_duplicate) == ((1, 5), False)
        twice = world.send_batches(leader, batch_of(4, b"e"), batch_of(4, b"e"))
        world.run_until(twice.done)
        assert isinstance(twice.exception(), InvalidBatch)
        assert all_values(world, leader) == [b"a", b"b", b"c", b"d", b"x"]


def test_a_duplicate_waits_for_min_insync_replicas_too() -> None:
    with ProducerWorld(topic=TopicConfig(min_insync_replicas=3)) as world:
        leader = world.lead()
        slow = other_numbers(leader)[0]
        world.send_and_wait(leader, 0, b"first")
        world.cut(leader, slow)
        original = world.send(leader, 1, b"second")
        world.run(0.1)
        assert world.group(leader).high_watermark == 2
        again = world.send(leader, 1, b"second")
        world.run(0.05)
        assert not original.done()
        assert not again.done()
        world.network.heal()
        world.run_until(again.done)
        assert again.result()[:2] == original.result()[:2] == (1, 2)


def test_a_follower_does_not_validate() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        assert world.refusal_of(other_numbers(leader)[0], 0) is NotLeader


def test_a_deposed_leader_does_not_refuse_an_unknown_producer() -> None:
    with ProducerWorld() as world:
        old = world.lead()
        world.send_and_wait(old, 0, b"a")
        world.converge()
        world.isolate(old)
        late = world.send(old, 2, b"c")
        new = world.wait_for_new_leader(old)
        world.send_and_wait(new, 1, b"b")
        world.run_until(late.done)
        assert isinstance(late.exception(), NotLeader)
        assert world.send_and_wait(new, 2, b"c").base_offset == 2


# what lasts


def test_the_producer_table_survives_restarts_of_all_nodes() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        for sequence in range(7):
            world.send_and_wait(leader, sequence, b"%d" % sequence)
        before = world.producers_of(leader)
        for number in (1, 2, 3):
            world.crash(number, power=True)
        for number in (1, 2, 3):
            world.start(number)
        leader = world.lead()
        assert world.send_and_wait(leader, 5, b"5").base_offset == 5
        assert world.producers_of(leader) == before
        assert world.refusal_of(leader, 0) is DuplicateSequence
        assert world.send_and_wait(leader, 7, b"7").base_offset == 7
        assert world.has_equal_tables()


def test_duplicates_do_not_wait_for_entries_removed_by_a_cut() -> None:
    with ProducerWorld() as world:
        old = world.lead()
        world.send_and_wait(old, 0, b"a")
        world.converge()
        world.isolate(old)
        for _ in range(10):
            world.append(old, b"lost")
        world.run(0.1)
        new = world.wait_for_new_leader(old)
        world.crash(old)
        world.start(old)
        world.replica(old)
        world.appended(new, b"instead")
        world.network.heal()
        world.converge()
        world.run_at(new, lambda: world.group(new).transfer_leadership(world.ids[old - 1]))
        world.run_until(lambda: world.leader() == old)
        assert world.send_and_wait(old, 1, b"b").base_offset == 2
        assert world.has_equal_tables()


def snapshot_segments(world: ProducerWorld, number: int) -> list[int]:
    """Return the base offsets of segments that have pieces of a snapshot."""
    found = []
    group = world.group(number)
    index = group.log.boundary.index + 1
    while more := group.committed_entries(index, 1 << 20):  # type: ignore[arg-type]
        found += [
            group.log.segments.segment_of_index(each.index).base_offset
            for each in more
            if each.kind is ControlKind.SNAPSHOT
        ]
        index = more[-1].index + 1
    return found


def test_the_producer_table_is_stored_after_every_roll() -> None:
    """F45: a retry is answered with its offset although its batch was trimmed; this survives leaders and restarts."""
    with ProducerWorld() as world:
        leader = world.lead()
        world.appended(leader, b"no producer yet")
        world.roll_segment(leader)
        assert snapshot_segments(world, leader) == []
        world.send_and_wait(leader, 0, b"a", producer=3)
        world.send_and_wait(leader, 0, b"b", b"c")
        world.roll_segment(leader)
        world.appended(leader, b"x")
        world.roll_segment(leader)
        assert snapshot_segments(world, leader) == [4, 5]
        world.appended(leader, b"y")
        wait_for_result(world, leader, lambda group: group.propose_trim(5))
        world.converge()
        world.run(0.5)
        assert base_offsets(world, leader) == [5]
        for number in (1, 2, 3):
            world.crash(number)
        for number in (1, 2, 3):
            world.start(number)
        leader = world.lead()
        world.isolate(leader)
        new = world.wait_for_new_leader(leader)
        again = world.send_and_wait(new, 0, b"b", b"c")
        assert (again[:2], again.is_duplicate) == ((2, 4), True)
        assert world.send_and_wait(new, 2, b"d").base_offset == 6
        assert world.send_and_wait(new, 0, b"a", producer=3).base_offset == 1
        world.network.heal()
        assert world.has_equal_tables()


def test_a_roll_waits_until_the_last_snapshot_is_stored() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        for producer in range(2_500):
            batch = batch_of(0, b"", producer=producer)
            world.run_at(leader, partial(world.replica(leader).append, [batch], 1))
        world.run(1)
        state = world.replica(leader)._producers
        state.write_run_if_due = lambda: None  # type: ignore[method-assign]
        world.roll_segment(leader)
        for _ in range(3):
            world.appended(leader, bytes(200_000))
        assert not state.is_covered
        assert isinstance(ask(world, leader, lambda group: group.roll_now()).exception(), Unavailable)
        del state.write_run_if_due
        world.run_maintenance()
        assert state.is_covered
        assert snapshot_segments(world, leader).count(2_500) == 3
        world.roll_segment(leader)
        world.appended(leader, b"little")
        assert isinstance(ask(world, leader, lambda group: group.roll_now()).exception(), Unavailable)
        world.appended(leader, bytes(200_000))  # the segment is more than what is known of producers
        world.roll_segment(leader)
        assert world.has_equal_tables()


def test_the_next_leader_writes_a_missing_snapshot() -> None:
    with ProducerWorld() as world:
        old = world.lead()
        world.send_and_wait(old, 0, b"a")
        world.converge()
        for number in (1, 2, 3):
            state = world.replica(number)._producers
            state.write_run_if_due = lambda: None  # type: ignore[method-assign]
        [rolled] = world.run_at(old, lambda: world.group(old).roll_now())
        world.run_until(rolled.done)  # type: ignore[attr-defined]
        world.converge()
        assert snapshot_segments(world, old) == []
        for number in other_numbers(old):
            del world.replica(number)._producers.write_run_if_due
        world.isolate(old)
        new = world.wait_for_new_leader(old)
        world.run(1)
        assert snapshot_segments(world, new) == [1]
        assert world.send_and_wait(new, 0, b"a").is_duplicate


def test_a_replica_after_an_installation_has_the_same_state() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        away = other_numbers(leader)[0]
        world.send_and_wait(leader, 0, b"a")
        world.converge()
        world.crash(away)
        for sequence in range(1, 4):
            world.send_and_wait(leader, sequence, b"b")
        world.roll_segment(leader)
        world.appended(leader, b"x")
        wait_for_result(world, leader, lambda group: group.propose_trim(4))
        world.run(0.5)
        world.start(away)
        world.replica(away)
        assert world.has_equal_tables()
        assert world.group(away).log.boundary.index > 1
        assert 7 in world.producers_of(away)


# what ends


def test_silent_producers_expire_by_an_entry_on_every_replica() -> None:
    with ProducerWorld(topic=TopicConfig(producer_id_expiration_ms=60_000)) as world:
        leader = world.lead()
        world.send_and_wait(leader, 0, b"silent", producer=1)
        world.send_and_wait(leader, 0, b"lively", producer=2)
        world.run_maintenance()
        world.run(40)
        assert world.send_and_wait(leader, 0, b"lively", producer=2).is_duplicate  # a retry is a sign of life as well
        world.run_maintenance()
        world.run(30)
        world.run_maintenance()
        assert world.has_equal_tables()
        assert list(world.producers_of(leader)) == [2]
        assert world.refusal_of(leader, 1, producer=1) is UnknownProducer
        assert world.send_and_wait(leader, 1, b"goes on", producer=2).base_offset == 2


def test_a_new_leader_counts_silence_from_its_first_check() -> None:
    with ProducerWorld(topic=TopicConfig(producer_id_expiration_ms=60_000)) as world:
        old = world.lead()
        world.send_and_wait(old, 0, b"a")
        world.run_maintenance()
        world.run(50)
        world.isolate(old)
        new = world.wait_for_new_leader(old)
        world.run(50)
        world.run_maintenance()
        assert world.send_and_wait(new, 0, b"a").is_duplicate
        world.run(61)
        world.run_maintenance()
        world.run(61)
        world.run_maintenance()
        assert world.producers_of(new) == {}
        assert list(world.producers_of(old)) == [7]
        world.network.heal()
        assert world.has_equal_tables()
