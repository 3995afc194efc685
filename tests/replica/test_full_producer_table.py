"""A full table of producers: the least recently used expire by a committed entry, and cannot append any more."""

from raftlog.errors import NotLeader, OutcomeUnknown, Overloaded, UnknownProducer
from raftlog.records import ControlKind
from raftlog.topic_config import TopicConfig
from tests.replica.producing import ProducerWorld, batch_of
from tests.replica.worlds import all_values, other_numbers, wait_for_result


class SmallTableWorld(ProducerWorld):
    """World of replicas with a table of four producers."""

    def __init__(self, topic: TopicConfig | None = None) -> None:
        super().__init__(topic=topic, producers_max=4)

    def fill(self, leader: int) -> None:
        """Append as producers 1 to 4, then again as producer 1."""
        for producer in (1, 2, 3, 4):
            self.send_and_wait(leader, 0, b"%d" % producer, producer=producer)
        self.send_and_wait(leader, 1, b"1 again", producer=1)

    def expired_ids(self, number: int) -> list[int]:
        forgotten = self.replica(number)._producers.table.forgotten
        return [each for each in range(20) if each in forgotten]


FILLED = [b"1", b"2", b"3", b"4", b"1 again"]


def test_the_least_recently_used_producer_expires_on_every_replica() -> None:
    with SmallTableWorld() as world:
        leader = world.lead()
        world.fill(leader)
        assert world.send_and_wait(leader, 0, b"5", producer=5).base_offset == 5
        assert world.has_equal_tables()
        assert [list(world.producers_of(number)) for number in (1, 2, 3)] == [[1, 3, 4, 5]] * 3
        assert [world.expired_ids(number) for number in (1, 2, 3)] == [[2]] * 3
        for sequence, epoch in ((1, 0), (0, 0), (0, 1), (7, 1)):  # what follows, its first batch again, a new epoch
            assert world.refusal_of(leader, sequence, producer=2, epoch=epoch) is UnknownProducer
        assert world.send_and_wait(leader, 2, b"1 goes on", producer=1).base_offset == 6
        assert all_values(world, leader) == [*FILLED, b"5", b"1 goes on"]


def test_expired_silent_producers_cannot_append() -> None:
    with SmallTableWorld(TopicConfig(producer_id_expiration_ms=60_000)) as world:
        leader = world.lead()
        world.send_and_wait(leader, 0, b"a", producer=1)
        world.run_maintenance()
        world.run(61)
        world.run_maintenance()
        assert world.has_equal_tables()
        assert world.producers_of(leader) == {}
        assert world.refusal_of(leader, 0, producer=1) is UnknownProducer
        assert world.send_and_wait(leader, 0, b"b", producer=2).base_offset == 1


def test_a_producer_with_a_batch_in_flight_does_not_expire() -> None:
    with SmallTableWorld() as world:
        leader = world.lead()
        world.fill(leader)
        world.isolate(leader)
        busy = [world.send(leader, 1, b"busy", producer=producer) for producer in (2, 3, 4)]
        fifth = world.send(leader, 0, b"5", producer=5)  # in the place of 1, the only one that has nothing in flight
        sixth = world.send(leader, 0, b"6", producer=6)
        late = world.send(leader, 2, b"too late", producer=1)
        world.run(0.1)
        assert isinstance(sixth.exception(), Overloaded)
        assert not fifth.done()
        assert not late.done()
        world.network.heal()
        world.run_until(lambda: all(future.done() for future in (*busy, fifth, late)))
        assert [future.result().base_offset for future in (*busy, fifth)] == [5, 6, 7, 8]
        assert isinstance(late.exception(), UnknownProducer)
        assert world.has_equal_tables()
        assert sorted(world.producers_of(leader)) == [2, 3, 4, 5]
        assert all_values(world, leader) == [*FILLED, b"busy", b"busy", b"busy", b"5"]


def test_an_expiry_lost_with_the_leadership_has_no_effect() -> None:
    with SmallTableWorld() as world:
        old = world.lead()
        world.fill(old)
        world.converge()
        world.isolate(old)
        lost, evicted = world.send(old, 0, b"5", producer=5), world.send(old, 1, b"2 again", producer=2)
        new = world.wait_for_new_leader(old)
        again = world.send_and_wait(new, 0, b"2", producer=2)
        assert (again.base_offset, again.is_duplicate) == (1, True)
        assert world.send_and_wait(new, 1, b"2 again", producer=2).base_offset == 5
        world.network.heal()
        world.run_until(lambda: lost.done() and evicted.done())
        assert isinstance(lost.exception(), NotLeader | OutcomeUnknown)
        assert isinstance(evicted.exception(), NotLeader)  # no majority confirms what the old leader refused
        assert world.has_equal_tables()
        assert world.expired_ids(old) == []


def test_an_expiry_committed_by_the_next_leader_counts() -> None:
    with SmallTableWorld() as world:
        old = world.lead()
        world.fill(old)
        world.converge()
        successor, away = other_numbers(old)
        world.cut(old, away)
        world.cut(successor, old)
        fifth = world.send(old, 0, b"5", producer=5)
        world.run(0.1)
        assert not fifth.done()
        world.crash(old)
        new = world.leader()
        world.replica(new)
        assert world.refusal_of(new, 0, producer=2) is UnknownProducer
        assert world.send_and_wait(new, 0, b"5", producer=5).is_duplicate
        world.network.heal()
        world.start(old)
        world.replica(old)
        assert world.has_equal_tables()
        assert world.expired_ids(old) == [2]


def test_expired_ids_survive_rolls_trims_restarts_and_installations() -> None:
    with SmallTableWorld() as world:
        leader = world.lead()
        away = other_numbers(leader)[0]
        world.fill(leader)
        world.send_and_wait(leader, 0, b"5", producer=5)
        world.converge()
        world.crash(away)
        for producer in (6, 7):
            world.send_and_wait(leader, 0, b"x", producer=producer)
            world.roll_segment(leader)
        world.appended(leader, b"y")
        wait_for_result(world, leader, lambda group: group.propose_trim(8))
        world.run(0.5)
        world.start(away)
        world.replica(away)
        assert world.has_equal_tables()
        assert world.group(away).log.boundary.index > 1
        assert world.expired_ids(away) == [2, 3, 4]
        for number in (1, 2, 3):
            world.crash(number, power=True)
        for number in (1, 2, 3):
            world.start(number)
        leader = world.lead()
        for producer in (2, 3, 4):
            assert world.refusal_of(leader, 0, producer=producer) is UnknownProducer
        assert world.send_and_wait(leader, 0, b"x", producer=7).is_duplicate
        assert world.has_equal_tables()
        assert [world.expired_ids(number) for number in (1, 2, 3)] == [[2, 3, 4]] * 3


def test_a_snapshot_of_only_expired_ids_is_written_after_every_roll() -> None:
    with SmallTableWorld(TopicConfig(producer_id_expiration_ms=60_000)) as world:
        leader = world.lead()
        world.send_and_wait(leader, 0, b"a", producer=1)
        world.run_maintenance()
        world.run(61)
        world.run_maintenance()
        for _ in range(3):
            world.appended(leader, bytes(1_000))
            world.roll_segment(leader)
        for number in (1, 2, 3):
            world.crash(number)
        for number in (1, 2, 3):
            world.start(number)
        leader = world.lead()
        assert world.refusal_of(leader, 0, producer=1) is UnknownProducer
        assert all_values(world, leader) == [b"a", *[bytes(1_000)] * 3]


def test_many_new_producers_expire_each_other_and_no_batch_is_lost_or_doubled() -> None:
    with SmallTableWorld() as world:
        leader = world.lead()
        for producer in range(60):
            assert world.send_and_wait(leader, 0, b"%d" % producer, producer=producer).base_offset == producer
        both = world.send_batches(leader, *(batch_of(0, b"%d" % each, producer=each) for each in (60, 61, 62)))
        world.run_until(both.done)
        assert both.result()[:2] == (60, 63)
        assert world.has_equal_tables()
        assert len(world.producers_of(leader)) <= 4
        assert all(world.refusal_of(leader, 0, producer=producer) is UnknownProducer for producer in (0, 30, 57))
        assert all_values(world, leader) == [b"%d" % each for each in range(63)]
        group, index, marks = world.group(leader), 1, 0
        while entries := group.committed_entries(index, 1 << 20):  # type: ignore[arg-type]
            marks += sum(entry.kind is ControlKind.EXPIRE_PRODUCERS for entry in entries)
            index = entries[-1].index + 1
        assert marks == 59
