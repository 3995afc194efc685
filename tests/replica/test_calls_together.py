"""Calls of idempotent producers checked and proposed together, compared with the same calls one by one."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import NotLeader, OutcomeUnknown, OutOfOrderSequence, Overloaded
from raftlog.partitions.replica import ReplicaAppended
from raftlog.partitions.results import ALL, Acks
from raftlog.topic_config import TopicConfig
from tests.replica.producing import ProducerWorld, batch_of
from tests.replica.worlds import all_values

Calls = list[list[bytearray]]
PLAIN = -1
BATCH = st.tuples(
    st.integers(0, 6), st.integers(0, 1), st.integers(-4, 1), st.integers(1, 3)
)  # producer, epoch, sequence relative to what follows, records
TURN = st.lists(st.lists(BATCH, min_size=1, max_size=2), min_size=1, max_size=9)


class CombinedCallsWorld(ProducerWorld):
    """World in which calls of one turn reach the replica together."""

    def wait_for_leader(self) -> int:
        """Return a leader that checks calls at once; offset 0 is taken."""
        leader = self.lead()
        self.send_and_wait(leader, 0, b"first", producer=9)
        return leader

    def send_calls(self, number: int, calls: Calls, *, any_first: bool = False, acks: Acks = ALL) -> list[Any]:
        """Send calls in one turn; return the futures, also where an overload splits the turn."""

        def send() -> "list[asyncio.Future[ReplicaAppended]]":
            futures: list[asyncio.Future[ReplicaAppended]] = []
            while len(futures) < len(calls):
                rest = calls[len(futures) :]
                futures += self.replica(number).append_calls(rest, acks, any_first_sequence=any_first)
            return futures

        [futures] = self.run_at(number, send)
        return list(futures)  # type: ignore[call-overload]

    def send_each(self, number: int, calls: Calls, *, any_first: bool) -> list[Any]:
        """Send calls in one turn, each alone."""
        replica = self.replica(number)
        [futures] = self.run_at(
            number, lambda: [replica.append(each, ALL, any_first_sequence=any_first) for each in calls]
        )
        return list(futures)  # type: ignore[call-overload]

    def outcomes(self, calls: Calls, futures: list[Any]) -> list[Any]:
        """Return error, or offsets and whether it is a duplicate, of each call."""
        self.run_until(lambda: all(future.done() for future in futures))
        found: list[Any] = []
        shared: dict[Any, int] = {}
        for call, future in zip(calls, futures, strict=True):
            if future.exception() is not None:
                found.append(type(future.exception()))
                continue
            base, end, *_, is_duplicate = future.result()
            if futures.count(future) > 1:
                base = shared.get(future, base)
                end = shared[future] = base + sum(int.from_bytes(batch[57:61], "big") for batch in call)
            found.append((base, end, is_duplicate))
        for future, end in shared.items():
            assert end == future.result().next_offset, "the records of a shared future are not those of its calls"
        return found


def calls_of(turn: Any, follows: dict[int, int]) -> Calls:
    """Return the batches of a turn; `follows` has the next sequence of each producer as if all were accepted."""
    calls: Calls = []
    for call in turn:
        batches = []
        for producer, epoch, relative, count in call:
            if producer == 0:
                batches.append(batch_of(-1, *[b"plain"] * count, producer=PLAIN, epoch=-1))
                continue
            base = max(0, follows.get(producer, 0) + relative)
            follows[producer] = max(base + count, follows.get(producer, 0))
            value = b"%d/%d/%d" % (producer, epoch, base)
            batches.append(batch_of(base, *[value] * count, producer=producer, epoch=epoch))
        calls.append(batches)
    return calls


@settings(max_examples=20)
@given(turns=st.lists(TURN, min_size=1, max_size=5), any_first=st.booleans())
def test_calls_together_have_the_outcomes_of_calls_one_after_the_other(turns: list[Any], any_first: bool) -> None:
    with CombinedCallsWorld(1, producers_max=4) as one, CombinedCallsWorld(1, producers_max=4) as other:
        worlds = (one, other)
        leaders = [world.wait_for_leader() for world in worlds]
        follows: tuple[dict[int, int], dict[int, int]] = {}, {}
        for turn in turns:
            calls = [calls_of(turn, each) for each in follows]
            together = one.send_calls(leaders[0], calls[0], any_first=any_first)
            alone = other.send_each(leaders[1], calls[1], any_first=any_first)
            assert one.outcomes(calls[0], together) == other.outcomes(calls[1], alone)
            one.run(0.1)
            other.run(0.1)
            assert one.producers_of(leaders[0]) == other.producers_of(leaders[1])
        assert all_values(one, leaders[0]) == all_values(other, leaders[1])


def test_new_batches_are_one_proposal_and_others_have_their_own_outcomes() -> None:
    with CombinedCallsWorld() as world:
        leader = world.wait_for_leader()
        calls = [
            [batch_of(0, b"a", b"b", producer=1)],
            [batch_of(0, b"c", producer=2)],
            [batch_of(2, b"d", producer=1)],
            [batch_of(0, b"c", producer=2)],  # again, in the same turn
            [batch_of(9, b"?", producer=1)],
            [batch_of(1, b"e", producer=2)],
        ]
        futures = world.send_calls(leader, calls)
        assert [futures.index(each) for each in futures] == [0, 0, 0, 3, 4, 5]
        expected = [(1, 3, False), (3, 4, False), (4, 5, False), (3, 4, True), OutOfOrderSequence, (5, 6, False)]
        assert world.outcomes(calls, futures) == expected
        assert all_values(world, leader) == [b"first", b"a", b"b", b"c", b"d", b"e"]
        assert world.has_equal_tables()


def test_an_overload_does_not_affect_later_calls() -> None:
    """Otherwise a later batch of the same producer would be refused as out of order without a fault of its client."""
    with CombinedCallsWorld() as world:
        leader = world.wait_for_leader()
        group = world.group(leader)
        append = group.append

        def refuse(batches: Any) -> Any:
            group.append = append  # type: ignore[method-assign]
            raise Overloaded("no room")

        group.append = refuse  # type: ignore[method-assign]
        calls = [[batch_of(0, b"a")], [batch_of(1, b"b")], [batch_of(1, b"b")], [batch_of(2, b"c")]]
        replica = world.replica(leader)
        [futures] = world.run_at(leader, lambda: replica.append_calls(calls, ALL))
        assert [type(each.exception()) for each in futures] == [Overloaded] * 2  # type: ignore[attr-defined]
        again = world.send_calls(leader, calls)
        assert world.outcomes(calls, again) == [(1, 2, False), (2, 3, False), (2, 3, True), (3, 4, False)]


def test_calls_lost_with_the_leadership_have_no_effect() -> None:
    with CombinedCallsWorld() as world:
        old = world.lead()
        world.send_and_wait(old, 0, b"before")
        world.isolate(old)
        calls = [[batch_of(1, b"x")], [batch_of(2, b"y")], [batch_of(0, b"z", producer=8)]]
        lost = world.send_calls(old, calls)
        new = world.wait_for_new_leader(old)
        assert world.send_and_wait(new, 1, b"instead").base_offset == 1
        world.network.heal()
        world.run_until(lambda: all(future.done() for future in lost))
        assert lost[0] is lost[1] is lost[2]
        assert isinstance(lost[0].exception(), NotLeader | OutcomeUnknown)
        assert world.send_and_wait(new, 2, b"y").base_offset == 2
        assert world.send_and_wait(new, 0, b"z", producer=8).base_offset == 3
        assert all_values(world, new) == [b"before", b"instead", b"y", b"z"]
        assert world.has_equal_tables()


def test_calls_to_a_replica_that_does_not_lead_are_refused() -> None:
    with CombinedCallsWorld() as world:
        leader = world.wait_for_leader()
        follower = next(number for number in (1, 2, 3) if number != leader)
        calls = [[batch_of(0, b"a")], [batch_of(1, b"b")]]
        assert world.outcomes(calls, world.send_calls(follower, calls)) == [NotLeader] * 2


def test_combined_calls_support_every_acks_setting() -> None:
    with CombinedCallsWorld(topic=TopicConfig(min_insync_replicas=3)) as world:
        leader = world.wait_for_leader()
        for number, acks in enumerate((0, 1, ALL)):
            calls = [[batch_of(2 * number, b"a")], [batch_of(2 * number + 1, b"b")]]
            futures = world.send_calls(leader, calls, acks=acks)  # type: ignore[arg-type]
            assert futures[0] is futures[1]
            base = 2 * number + 1
            assert world.outcomes(calls, futures) == [(base, base + 1, False), (base + 1, base + 2, False)]
