"""Every file of a data directory with every kind of damage: each cell of the tables in docs/DAMAGE.md is tested.

`make test` has one damage for each outcome of a file, `make test-long` the others. No outcome is a Python error, a log
that is silently empty, or a vote by a replica that was emptied.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

from raftlog.errors import FormatError, LogDamaged, RaftlogError
from raftlog.partitions.deadline import deadline_in
from raftlog.records import NewRecord
from raftlog.runtime.node_identity import NodeIdentity, read_identity
from tests.brokers.damaged_files import (
    DAMAGES,
    DISK,
    FILES,
    TOPIC,
    Directories,
    check_healed,
    hold_ports,
    is_sound,
    make_template,
    make_values,
    read_all,
)
from tests.layouts import DOCS, table_after
from tests.waiting import WITHIN_S

DOCUMENT: Final = (DOCS / "DAMAGE.md").read_text(encoding="utf-8")
IN_A_CLUSTER, ALONE = "one of three brokers", "a broker that is alone"
HEALED, NEW_DISK, REFUSED, SERVES_REST, NONE = "healed", "new disk", "refused", "serves the rest", "–"
TO_DO: Final = re.compile(r"[Rr]estore |use the release that wrote it|start .*in an empty directory")


def cells_of(table: str) -> list[tuple[str, str, str]]:
    """Return file, damage and documented outcome; the table of a single broker lists only the differences."""
    rows = {row[0]: row[1:] for name in (IN_A_CLUSTER, table) for row in table_after(f"damage: {name}", DOCUMENT)}
    cells = [(file, damage, cell) for file, row in rows.items() for damage, cell in zip(DAMAGES, row, strict=True)]
    return [cell for cell in cells if cell[2] != NONE]


def cases_of(table: str) -> Iterator[Any]:
    """Yield the cells as parameters; of those of a file that start a broker, one for each outcome is not slow.

    It is another damage for each file in turn."""
    cells = groupby(sorted(cells_of(table), key=itemgetter(0, 2)), key=itemgetter(0, 2))
    for number, ((_, outcome), same) in enumerate(cells):
        found = list(same)
        for at, cell in enumerate(found):
            is_quick = outcome == REFUSED or at == number % len(found)
            yield pytest.param(*cell, marks=[] if is_quick else [pytest.mark.slow])


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directories]:
    yield from make_stopped_brokers(tmp_path_factory.mktemp("three") / "kept", 3)


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directories]:
    yield from make_stopped_brokers(tmp_path_factory.mktemp("lone") / "kept", 1)


def make_stopped_brokers(root: Path, count: int) -> Iterator[Directories]:
    with ExitStack() as stack:
        directories = Directories(root, hold_ports(stack, count))
        asyncio.run(make_template(directories))
        yield directories


@pytest.fixture
async def damaged_three(three: Directories, tmp_path: Path) -> AsyncIterator[Directories]:
    directories = three.copy_to(tmp_path / "copy")
    yield directories
    await directories.close()


@pytest.fixture
async def damaged_lone(lone: Directories, tmp_path: Path) -> AsyncIterator[Directories]:
    directories = lone.copy_to(tmp_path / "copy")
    yield directories
    await directories.close()


@pytest.mark.parametrize("table", [IN_A_CLUSTER, ALONE])
def test_the_tables_have_every_file_and_damage(table: str) -> None:
    rows = table_after(f"damage: {table}", DOCUMENT)
    files = [row[0] for row in rows]
    assert files == [file for file in FILES if table == IN_A_CLUSTER or file in files]
    head = DOCUMENT.split(f"<!-- damage: {table} -->\n")[1].splitlines()[0]
    assert [cell.strip() for cell in head.strip("|").split("|")] == ["file", *DAMAGES]
    outcomes = (HEALED, NEW_DISK, REFUSED, NONE) if table == IN_A_CLUSTER else (HEALED, REFUSED, SERVES_REST)
    assert {cell for _, _, cell in cells_of(table)} | {cell for row in rows for cell in row[1:]} == set(outcomes)


def test_every_kind_of_file_in_a_directory_is_in_the_table(three: Directories) -> None:
    data_dir = three[3]
    there = {path.relative_to(data_dir) for path in data_dir.rglob("*") if path.is_file()}
    tried = {find(data_dir).relative_to(data_dir) for find in FILES.values()}
    assert tried <= there
    assert {(path.parent, path.suffix) for path in there} == {(path.parent, path.suffix) for path in tried} | {
        (Path(".raftlog/controller"), ".timeindex")  # made again as any other time index
    }


@pytest.mark.parametrize(("file", "damage", "outcome"), [*cases_of(IN_A_CLUSTER)])
async def test_one_of_three_brokers_has_the_documented_outcome(
    damaged_three: Directories, caplog: pytest.LogCaptureFixture, file: str, damage: str, outcome: str
) -> None:
    directories = damaged_three
    path = FILES[file](directories[3])
    disk = load_identity(directories, 3).disk_uuid
    DAMAGES[damage](path)
    if outcome == REFUSED:
        await check_refused(directories, 3, path)
    else:
        await start(directories, 1, 2, 3)
        await check_healed(directories, 3)
        identity = load_identity(directories, 3)
        assert identity.former_disks == ((disk,) if outcome == NEW_DISK else ())
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize(("file", "damage", "outcome"), [*cases_of(ALONE)])
async def test_a_single_broker_has_the_documented_outcome(
    damaged_lone: Directories, caplog: pytest.LogCaptureFixture, file: str, damage: str, outcome: str
) -> None:
    directories = damaged_lone
    path = FILES[file](directories[1])
    DAMAGES[damage](path)
    if outcome == REFUSED:
        await check_refused(directories, 1, path)
    else:
        await start(directories, 1)
        broker = directories.running[1]
        assert is_sound(broker) is (outcome == HEALED)
        found, error = await read_all(broker, 100 if outcome == HEALED else 1)
        assert found == make_values()[: len(found)]
        assert error is None or outcome == SERVES_REST
        assert outcome == SERVES_REST or found == make_values()
        [result] = await broker.produce_records(TOPIC, 0, [NewRecord(b"more")], deadline=deadline_in(2_000))
        if outcome == HEALED:
            assert result.offset == len(make_values())
        else:
            assert isinstance(result.error, LogDamaged), result
            assert f"`raftlog partition recover {TOPIC}/0`" in str(result.error)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


async def start(directories: Directories, *numbers: int) -> None:
    brokers = [await directories.open(number) for number in numbers]
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(broker.start(f"127.0.0.1:{number}") for number, broker in enumerate(brokers, 1)))


async def check_refused(directories: Directories, number: int, path: Path) -> None:
    """Check that the start fails with an error that names the file or its directory, and the next step."""
    with pytest.raises(RaftlogError) as refused:
        await start(directories, number)
    said = str(refused.value)
    assert isinstance(refused.value, FormatError) or str(directories[number]) in said
    assert str(path) in said or f"{directories[number]} belongs to cluster" in said
    assert TO_DO.search(said), said


def load_identity(directories: Directories, number: int) -> NodeIdentity:
    identity = read_identity(DISK, str(directories[number]))
    assert identity is not None
    return identity
