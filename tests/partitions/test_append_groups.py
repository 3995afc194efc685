"""Groups of appends that are proposed together: at once, or while earlier ones are in flight."""

import asyncio
from types import SimpleNamespace

import pytest

from raftlog.partitions.leader.append_groups import BUSY_BYTES, GROUP_BYTES, AppendGroups


class Proposals:
    """Groups that were proposed, and a partition that counts them as in flight."""

    def __init__(self) -> None:
        self.groups = AppendGroups(self.propose)  # type: ignore[arg-type]  # stand-ins of replicas and appends
        self.proposed: list[list[str]] = []
        self.one_more = asyncio.Event()

    def propose(self, replica: str, appends: list[SimpleNamespace]) -> None:
        self.proposed.append([each.name for each in appends])
        self.groups.note_proposed(replica, sum(each.size for each in appends))  # type: ignore[arg-type]
        self.one_more.set()

    def add(self, name: str, size: int, replica: str = "p") -> None:
        self.groups.add(SimpleNamespace(name=name, size=size, replica=replica))  # type: ignore[arg-type]

    def end(self, size: int, replica: str = "p") -> None:
        self.groups.note_ended(replica, size)  # type: ignore[arg-type]


@pytest.fixture
async def proposals() -> Proposals:
    return Proposals()


async def test_appends_of_one_turn_are_one_group_for_each_partition(proposals: Proposals) -> None:
    proposals.add("a", 10)
    proposals.add("b", 10, "q")
    proposals.add("c", 10)
    assert proposals.proposed == []
    await asyncio.sleep(0)
    assert proposals.proposed == [["a", "c"], ["b"]]


async def test_a_partition_with_few_bytes_in_flight_does_not_wait(proposals: Proposals) -> None:
    for number in range(4):
        proposals.add(str(number), BUSY_BYTES // 4)
        await asyncio.sleep(0)
    assert proposals.proposed == [["0"], ["1"], ["2"], ["3"]]


async def test_a_busy_partition_gathers_until_an_append_ends(proposals: Proposals) -> None:
    proposals.add("large", BUSY_BYTES)
    await asyncio.sleep(0)
    for name in ("a", "b", "c"):
        proposals.add(name, 10)
        await asyncio.sleep(0)
    proposals.add("other", 10, "q")
    await asyncio.sleep(0)
    assert proposals.proposed == [["large"], ["other"]], "another partition does not wait"
    proposals.end(BUSY_BYTES)
    await asyncio.sleep(0)
    assert proposals.proposed[2:] == [["a", "b", "c"]]


async def test_a_busy_partition_proposes_a_full_group(proposals: Proposals) -> None:
    proposals.add("large", BUSY_BYTES)
    await asyncio.sleep(0)
    proposals.add("a", GROUP_BYTES - 1)
    await asyncio.sleep(0)
    assert proposals.proposed == [["large"]]
    proposals.add("b", 1)
    await asyncio.sleep(0)
    assert proposals.proposed == [["large"], ["a", "b"]]


async def test_an_append_waits_for_a_bounded_time_if_none_ends(proposals: Proposals) -> None:
    proposals.add("large", BUSY_BYTES)
    await asyncio.sleep(0)
    proposals.one_more.clear()
    proposals.add("a", 10)
    await proposals.one_more.wait()
    assert proposals.proposed == [["large"], ["a"]]


async def test_gathered_appends_are_returned_at_the_end(proposals: Proposals) -> None:
    proposals.add("large", BUSY_BYTES)
    await asyncio.sleep(0)
    proposals.add("a", 10)
    proposals.add("b", 10)
    assert [each.name for each in proposals.groups.close()] == ["a", "b"]
    await asyncio.sleep(0)
    assert proposals.proposed == [["large"]]
