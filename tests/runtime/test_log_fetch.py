"""A follower that lags far fetches entries: it resumes after each interruption, within bounded memory."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from raftlog.raft import EntryId, RaftSettings
from raftlog.runtime.transfer.bulk import FetchResult, LogFetchRequest, LogsDiverge
from raftlog.types import Index, Term
from tests.runtime.drivers import GROUP, SMALL, SimulatedWire, World

FAR = replace(SMALL, transfer_window_bytes=8192, raft=RaftSettings(fetch_bytes_min=8192))
RECORDS = 250
SIZE = 500
BATCH = 575
"""Bytes of a record as a batch, at most."""
LACKS = RECORDS * BATCH
AHEAD = FAR.transfer_window_bytes + 3 * FAR.transfer_chunk_bytes
"""Bytes that may be fetched twice after an interrupted transfer."""


def restart_lagging_follower(world: World) -> tuple[int, int]:
    """Restart a follower that was down and lags far; return leader and follower."""
    leader = world.leader()
    follower = next(number for number in (1, 2, 3) if number != leader)
    world.commit(leader, b"first")
    world.crash(follower)
    world.fill(leader, RECORDS, SIZE)
    world.start(follower)
    return leader, follower


def bytes_fetched(world: World, number: int) -> int:
    return world.drivers[number].catch_up.bytes_fetched


def wait_for_fetch(world: World, follower: int, some: int = LACKS // 3) -> None:
    world.run_until(lambda: bytes_fetched(world, follower) >= some)


def require_equal_replicas(world: World) -> None:
    world.converge()
    assert world.files(1) == world.files(2) == world.files(3)
    assert len(world.values(1)) == RECORDS + 1
    assert not world.failures


def test_missing_entries_are_fetched() -> None:
    with World(config=FAR) as world:
        leader, follower = restart_lagging_follower(world)
        require_equal_replicas(world)
        assert bytes_fetched(world, follower) > RECORDS * SIZE - FAR.raft.fetch_bytes_min
        assert world.drivers[leader].supplier.bytes_supplied >= bytes_fetched(world, follower)


def test_later_entries_arrive_only_by_raft() -> None:
    with World(config=FAR) as world:
        leader, follower = restart_lagging_follower(world)
        wait_for_fetch(world, follower)
        for _ in range(1000):
            world.propose(leader, b"meanwhile")  # ten in a round trip, so the leader's log never ends
        assert not world.drivers[follower].catch_up.is_fetching
        world.converge()
        assert world.files(1) == world.files(2) == world.files(3)


def test_few_missing_entries_arrive_by_raft() -> None:
    with World(config=replace(FAR, raft=RaftSettings())) as world:
        _, follower = restart_lagging_follower(world)
        require_equal_replicas(world)
        assert bytes_fetched(world, follower) == 0


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_the_next_leader_continues_the_transfer(is_power_lost: bool) -> None:
    with World(config=FAR) as world:
        leader, follower = restart_lagging_follower(world)
        wait_for_fetch(world, follower)
        world.crash(leader, power=is_power_lost)
        world.run_until(lambda: world.leader() != leader)
        world.start(leader)
        require_equal_replicas(world)
        assert RECORDS * SIZE - FAR.raft.fetch_bytes_min < bytes_fetched(world, follower) < LACKS + AHEAD


def test_a_restarted_follower_continues_the_transfer() -> None:
    with World(config=FAR) as world:
        leader, follower = restart_lagging_follower(world)
        for _ in range(3):
            wait_for_fetch(world, follower, LACKS // 8)
            world.crash(follower, power=True)
            world.start(follower)
        require_equal_replicas(world)
        assert world.drivers[leader].supplier.bytes_supplied < LACKS + 3 * AHEAD


def test_a_trim_moves_the_transfer_to_the_new_start() -> None:
    with World(config=FAR) as world:
        leader, follower = restart_lagging_follower(world)
        wait_for_fetch(world, follower, LACKS // 6)
        offset = world.group(leader).high_watermark - 10
        future = world.run_at(leader, lambda: world.group(leader).propose_trim(offset))[0]
        world.run_until(future.done)  # type: ignore[attr-defined]  # it is one
        world.converge()
        world.run_until(lambda: world.files(1) == world.files(2) == world.files(3))
        assert world.group(follower).log.boundary.index > RECORDS // 2
        assert world.group(follower).log_start_offset == offset
        assert not world.failures


def test_unsynced_bytes_of_a_transfer_are_bounded() -> None:
    """A stalled disk stops the transfer; no bytes accumulate at follower or leader."""
    with World(config=FAR) as world:
        _, follower = restart_lagging_follower(world)
        wait_for_fetch(world, follower, 1)
        world.disks[follower - 1].submit_sync = lambda *_: None  # type: ignore[method-assign,assignment]
        world.run(1)
        log = world.group(follower).log
        durable = world.group(follower).core.durable_index
        unsynced = sum(entry.size_bytes for entry in log.entries(Index(durable + 1), RECORDS, 1 << 30))
        assert 0 < unsynced <= FAR.transfer_window_bytes + 2 * FAR.transfer_chunk_bytes


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[object], object]], None]:
    """Return a function that starts to change answers on the bulk connection."""
    request = SimulatedWire.request

    def begin(change: Callable[[object], object]) -> None:
        async def changed(wire: SimulatedWire, node: int, asked: object) -> object:
            return change(await request(wire, node, asked))  # type: ignore[arg-type]

        monkeypatch.setattr(SimulatedWire, "request", changed)

    return begin


def test_data_spoiled_by_the_network_is_refused(spoil: Callable[[Callable[[object], object]], None]) -> None:
    spoiled = []

    def flip(answer: object) -> object:
        if isinstance(answer, FetchResult) and answer.entries and len(spoiled) < 3:
            batch = bytearray(answer.entries[-1].payload)
            batch[-1] ^= 1
            spoiled.append(batch)
            return answer._replace(entries=(*answer.entries[:-1], answer.entries[-1]._replace(payload=bytes(batch))))
        return answer

    spoil(flip)
    with World(config=FAR) as world:
        restart_lagging_follower(world)
        require_equal_replicas(world)
        assert len(spoiled) == 3


def test_appends_resume_after_the_commit_where_the_logs_diverge(
    spoil: Callable[[Callable[[object], object]], None],
) -> None:
    """The leader lacks our last entry: the next request asks for entries after the last committed one."""
    parted = []

    def part(answer: object) -> object:
        if isinstance(answer, FetchResult) and not parted:
            parted.append(answer)
            return LogsDiverge()
        return answer

    spoil(part)
    with World(config=FAR) as world:
        restart_lagging_follower(world)
        require_equal_replicas(world)
        assert parted


def test_a_leader_supplies_requested_entries() -> None:
    with World(config=FAR) as world:
        leader = world.leader()
        world.fill(leader, 20)
        driver, core = world.drivers[leader], world.group(leader).core
        last = core.last_id

        def ask(term: int, index: int, entry_term: int) -> object:
            asked = LogFetchRequest(GROUP.bytes, Term(term), 1, EntryId(Index(index), Term(entry_term)), 1200)
            return driver.supplier.serve(1, asked)  # type: ignore[arg-type]

        some = ask(core.term, 5, core.term)
        assert isinstance(some, FetchResult)
        assert [entry.index for entry in some.entries] == [6, 7]
        assert ask(core.term, last.index, last.term) == FetchResult(core.committed_index, last.index, ())
        assert ask(core.term, last.index + 1, last.term) == LogsDiverge()
        assert ask(core.term, 5, core.term + 1) == LogsDiverge()
        for term in (core.term - 1, core.term + 1):
            with pytest.raises(Exception, match="does not lead in that term"):
                ask(term, 5, core.term)
