"""Idempotent producers at a replica: what follows is appended once, what repeats is answered with the original."""

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
from tests.replica.producing import Producing, batch_of
from tests.replica.worlds import all_values, ask, base_offsets, others, result


def test_a_retry_is_answered_with_the_first_offset_and_not_appended() -> None:
    with Producing() as world:
        leader = world.lead()
        world.appended(leader, b"somebody else's")
        first = world.sent(leader, 0, b"a", b"b")
        assert (first.base_offset, first.next_offset, first.is_duplicate) == (1, 3, False)
        second = world.sent(leader, 2, b"c")
        again = world.sent(leader, 0, b"a", b"b")
        assert (again.base_offset, again.next_offset, again.is_duplicate) == (1, 3, True)
        assert again.high_watermark == second.next_offset == 4
        assert all_values(world, leader) == [b"somebody else's", b"a", b"b", b"c"]
        assert world.same_everywhere()


def test_offsets_outside_of_the_window_have_an_error_of_their_own() -> None:
    with Producing() as world:
        leader = world.lead()
        assert world.refused(leader, 3) is UnknownProducer
        for sequence in range(6):
            world.sent(leader, sequence, b"%d" % sequence)
        assert world.refused(leader, 7) is OutOfOrderSequence
        assert world.refused(leader, 0) is DuplicateSequence
        assert world.sent(leader, 1, b"1").base_offset == 1
        assert world.refused(leader, 1, epoch=1) is OutOfOrderSequence
        assert world.sent(leader, 0, b"new epoch", epoch=1).base_offset == 6
        assert world.refused(leader, 6, epoch=0) is ProducerFenced
        assert world.sent(leader, 1, b"goes on", epoch=1).base_offset == 7
        assert world.sent(leader, 0, b"another", producer=8).base_offset == 8
        assert len(all_values(world, leader)) == 9
        assert world.same_everywhere()


def test_sequences_begin_again_after_the_greatest_one() -> None:
    with Producing() as world:
        leader = world.lead()
        world.sent(leader, 0, b"a")
        state = world.replica(leader)._producers
        state.table._states[7] = state.table.get(7)._replace(batches=((0, (1 << 31) - 2, 0),)).pack()  # type: ignore[union-attr,arg-type]
        assert world.sent(leader, (1 << 31) - 1, b"b", b"c").base_offset == 1
        assert world.sent(leader, 1, b"d").base_offset == 3
        again = world.sent(leader, (1 << 31) - 1, b"b", b"c")
        assert (again.base_offset, again.is_duplicate) == (1, True)
        assert world.refused(leader, 3) is OutOfOrderSequence


def test_a_duplicate_waits_for_its_original() -> None:
    with Producing() as world:
        leader = world.lead()
        world.sent(leader, 0, b"before")
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


def test_records_lost_with_a_leadership_never_existed() -> None:
    """F46: the sequence is free again, and its duplicates fail as it does."""
    with Producing() as world:
        old = world.lead()
        world.sent(old, 0, b"before")
        world.isolate(old)
        lost, again = world.send(old, 1, b"lost"), world.send(old, 1, b"lost")
        new = world.new_leader(old)
        assert world.sent(new, 1, b"instead").base_offset == 1
        world.appended(new, b"more")
        world.network.heal()
        world.run_until(lost.done)
        assert isinstance(lost.exception(), NotLeader | OutcomeUnknown)
        assert type(again.exception()) is type(lost.exception())
        assert world.sent(new, 1, b"instead").is_duplicate
        assert all_values(world, new) == [b"before", b"instead", b"more"]
        assert world.same_everywhere()


def test_an_append_whose_answer_was_lost_with_its_leader_is_found_by_the_next_one() -> None:
    """F27, F41: one copy, and the offset of that copy."""
    with Producing() as world:
        old = world.lead()
        world.sent(old, 0, b"a")
        world.sent(old, 1, b"b", b"c")
        world.isolate(old)
        new = world.new_leader(old)
        world.appended(new, b"another's")
        again = world.send(new, 1, b"b", b"c")
        world.run_until(again.done)
        assert (again.result()[:2], again.result().is_duplicate) == ((1, 3), True)
        assert world.sent(new, 3, b"d").base_offset == 4


def test_five_in_flight_and_the_third_is_lost() -> None:
    with Producing() as world:
        leader = world.lead()
        world.sent(leader, 0, b"0")
        sent = [world.send(leader, number, b"%d" % number) for number in (1, 2, 4, 5)]
        world.run_until(lambda: all(future.done() for future in sent))
        assert [type(future.exception()) for future in sent[2:]] == [OutOfOrderSequence] * 2
        retried = [world.send(leader, number, b"%d" % number) for number in (1, 2, 3, 4, 5)]
        world.run_until(lambda: all(future.done() for future in retried))
        assert [future.result().base_offset for future in retried] == [1, 2, 3, 4, 5]
        assert [future.result().is_duplicate for future in retried] == [True, True, False, False, False]
        assert all_values(world, leader) == [b"%d" % number for number in range(6)]


def test_several_batches_in_one_call_all_or_nothing() -> None:
    with Producing() as world:
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


def test_all_copies_are_waited_for_by_duplicates_too() -> None:
    with Producing(topic=TopicConfig(min_insync_replicas=3)) as world:
        leader = world.lead()
        slow = others(leader)[0]
        world.sent(leader, 0, b"first")
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
    with Producing() as world:
        leader = world.lead()
        assert world.refused(others(leader)[0], 0) is NotLeader


def test_a_deposed_leader_does_not_refuse_for_lack_of_state() -> None:
    with Producing() as world:
        old = world.lead()
        world.sent(old, 0, b"a")
        world.converge()
        world.isolate(old)
        late = world.send(old, 2, b"c")
        new = world.new_leader(old)
        world.sent(new, 1, b"b")
        world.run_until(late.done)
        assert isinstance(late.exception(), NotLeader)
        assert world.sent(new, 2, b"c").base_offset == 2


# what lasts


def test_the_producer_table_survives_restarts_of_all() -> None:
    with Producing() as world:
        leader = world.lead()
        for sequence in range(7):
            world.sent(leader, sequence, b"%d" % sequence)
        before = world.known(leader)
        for number in (1, 2, 3):
            world.crash(number, power=True)
        for number in (1, 2, 3):
            world.start(number)
        leader = world.lead()
        assert world.sent(leader, 5, b"5").base_offset == 5
        assert world.known(leader) == before
        assert world.refused(leader, 0) is DuplicateSequence
        assert world.sent(leader, 7, b"7").base_offset == 7
        assert world.same_everywhere()


def test_entries_removed_by_a_cut_are_not_waited_for() -> None:
    with Producing() as world:
        old = world.lead()
        world.sent(old, 0, b"a")
        world.converge()
        world.isolate(old)
        for _ in range(10):
            world.append(old, b"lost")
        world.run(0.1)
        new = world.new_leader(old)
        world.crash(old)
        world.start(old)
        world.replica(old)
        world.appended(new, b"instead")
        world.network.heal()
        world.converge()
        world.do(new, lambda: world.group(new).transfer_leadership(world.ids[old - 1]))
        world.run_until(lambda: world.leader() == old)
        assert world.sent(old, 1, b"b").base_offset == 2
        assert world.same_everywhere()


def snapshots(world: Producing, number: int) -> list[int]:
    """Return the base offsets of the segments that have pieces of a snapshot."""
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


def test_the_producer_table_is_stored_behind_every_roll_and_outlives_trims_leaders_and_restarts() -> None:
    """F45: the retry is answered with its offset though the batch itself was trimmed."""
    with Producing() as world:
        leader = world.lead()
        world.appended(leader, b"no producer yet")
        world.roll_at(leader)
        assert snapshots(world, leader) == []
        world.sent(leader, 0, b"a", producer=3)
        world.sent(leader, 0, b"b", b"c")
        world.roll_at(leader)
        world.appended(leader, b"x")
        world.roll_at(leader)
        assert snapshots(world, leader) == [4, 5]
        world.appended(leader, b"y")
        result(world, leader, lambda group: group.propose_trim(5))
        world.converge()
        world.run(0.5)
        assert base_offsets(world, leader) == [5]
        for number in (1, 2, 3):
            world.crash(number)
        for number in (1, 2, 3):
            world.start(number)
        leader = world.lead()
        world.isolate(leader)
        new = world.new_leader(leader)
        again = world.sent(new, 0, b"b", b"c")
        assert (again[:2], again.is_duplicate) == ((2, 4), True)
        assert world.sent(new, 2, b"d").base_offset == 6
        assert world.sent(new, 0, b"a", producer=3).base_offset == 1
        world.network.heal()
        assert world.same_everywhere()


def test_nothing_rolls_before_what_is_known_stands_behind_the_last_roll() -> None:
    with Producing() as world:
        leader = world.lead()
        for producer in range(2_500):
            batch = batch_of(0, b"", producer=producer)
            world.do(leader, partial(world.replica(leader).append, [batch], 1))
        world.run(1)
        state = world.replica(leader)._producers
        state.maybe_write_run = lambda: None  # type: ignore[method-assign]
        world.roll_at(leader)
        for _ in range(3):
            world.appended(leader, bytes(200_000))
        assert not state.is_covered
        assert isinstance(ask(world, leader, lambda group: group.roll_now()).exception(), Unavailable)
        del state.maybe_write_run
        world.run_maintenance()
        assert state.is_covered
        assert snapshots(world, leader).count(2_500) == 3
        world.roll_at(leader)
        world.appended(leader, b"little")
        assert isinstance(ask(world, leader, lambda group: group.roll_now()).exception(), Unavailable)
        world.appended(leader, bytes(200_000))  # the segment is more than what is known of producers
        world.roll_at(leader)
        assert world.same_everywhere()


def test_a_leader_that_crashes_before_its_announcement_leaves_it_to_the_next() -> None:
    with Producing() as world:
        old = world.lead()
        world.sent(old, 0, b"a")
        world.converge()
        for number in (1, 2, 3):
            state = world.replica(number)._producers
            state.maybe_write_run = lambda: None  # type: ignore[method-assign]
        [rolled] = world.do(old, lambda: world.group(old).roll_now())
        world.run_until(rolled.done)  # type: ignore[attr-defined]
        world.converge()
        assert snapshots(world, old) == []
        for number in others(old):
            del world.replica(number)._producers.maybe_write_run
        world.isolate(old)
        new = world.new_leader(old)
        world.run(1)
        assert snapshots(world, new) == [1]
        assert world.sent(new, 0, b"a").is_duplicate


def test_a_replica_that_gets_the_log_by_installation_has_the_same_state() -> None:
    with Producing() as world:
        leader = world.lead()
        away = others(leader)[0]
        world.sent(leader, 0, b"a")
        world.converge()
        world.crash(away)
        for sequence in range(1, 4):
            world.sent(leader, sequence, b"b")
        world.roll_at(leader)
        world.appended(leader, b"x")
        result(world, leader, lambda group: group.propose_trim(4))
        world.run(0.5)
        world.start(away)
        world.replica(away)
        assert world.same_everywhere()
        assert world.group(away).log.boundary.index > 1
        assert 7 in world.known(away)


# what ends


def test_silent_producers_are_forgotten_by_a_mark_on_every_replica() -> None:
    with Producing(topic=TopicConfig(producer_id_expiration_ms=60_000)) as world:
        leader = world.lead()
        world.sent(leader, 0, b"silent", producer=1)
        world.sent(leader, 0, b"lively", producer=2)
        world.run_maintenance()
        world.run(40)
        assert world.sent(leader, 0, b"lively", producer=2).is_duplicate  # a retry is a sign of life as well
        world.run_maintenance()
        world.run(30)
        world.run_maintenance()
        assert world.same_everywhere()
        assert list(world.known(leader)) == [2]
        assert world.refused(leader, 1, producer=1) is UnknownProducer
        assert world.sent(leader, 1, b"goes on", producer=2).base_offset == 2


def test_a_new_leader_counts_from_its_first_look_and_followers_keep_all() -> None:
    with Producing(topic=TopicConfig(producer_id_expiration_ms=60_000)) as world:
        old = world.lead()
        world.sent(old, 0, b"a")
        world.run_maintenance()
        world.run(50)
        world.isolate(old)
        new = world.new_leader(old)
        world.run(50)
        world.run_maintenance()
        assert world.sent(new, 0, b"a").is_duplicate
        world.run(61)
        world.run_maintenance()
        world.run(61)
        world.run_maintenance()
        assert world.known(new) == {}
        assert list(world.known(old)) == [7]
        world.network.heal()
        assert world.same_everywhere()
