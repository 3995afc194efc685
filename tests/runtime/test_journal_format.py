"""docs/JOURNAL.md against the code: its tables decode a real journal."""

import re
import struct
import uuid
from pathlib import Path
from random import Random
from typing import Any

from crc32c import crc32c

from raftlog.runtime.journal import (
    Append,
    AppendIds,
    CommitHint,
    Created,
    Cut,
    GroupState,
    HardState,
    Install,
    Journal,
    Mark,
    Removed,
    Trim,
)
from raftlog.runtime.journal.blocks import (
    BLOCK_HEADER_SIZE,
    BLOCK_MAGIC,
    BLOCK_SIZE,
    BLOCK_VERSION,
    PAYLOAD_SIZE,
    WRITE_BLOCKS_MAX,
)
from raftlog.runtime.journal.operations import FRAME_HEAD_SIZE, GROUP_STATE, OPERATION_HEAD_SIZE, VOTE, Kind
from raftlog.storage.roll import Member
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.simulated_disk import SimulatedDisk
from raftlog.types import Index, Offset, Term
from tests.runtime.journal_twin import DISK, GROUPS, PATH, SMALL, end_of, row_of

DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "JOURNAL.md").read_text(encoding="utf-8")
CODES = {"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "uuid": "16s"}
SIZES = {
    "block header": BLOCK_HEADER_SIZE,
    "frame head": FRAME_HEAD_SIZE,
    "operation head": OPERATION_HEAD_SIZE,
    "vote": VOTE.size,
    "group state": GROUP_STATE.size,
}


def table_after(mark: str) -> list[list[str]]:
    """The cells of the table behind a mark, without its head."""
    lines = DOCUMENT.split(f"<!-- {mark} -->\n")[1].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def code_of(kind: str) -> str:
    return CODES.get(kind) or kind.removeprefix("bytes") + "s"


def decoder(name: str) -> tuple[struct.Struct, list[str]]:
    rows = table_after(f"layout: {name}")
    layout = struct.Struct(">" + "".join(code_of(cells[1]) for cells in rows))
    position = 0
    for cells in rows:
        assert int(cells[0]) == position, cells
        position += struct.calcsize(">" + code_of(cells[1]))
    assert position == layout.size
    return layout, [cells[2] for cells in rows]


def decode(name: str, data: bytes, position: int = 0) -> dict[str, Any]:
    layout, names = decoder(name)
    return dict(zip(names, layout.unpack_from(data, position), strict=True))


def test_every_table_has_the_size_of_the_code() -> None:
    assert re.findall(r"<!-- layout: (.+) -->", DOCUMENT) == list(SIZES)
    for name, size in SIZES.items():
        assert decoder(name)[0].size == size


def test_numbers_in_the_text_are_those_of_the_code() -> None:
    assert (
        f"blocks of {BLOCK_SIZE} bytes: a header of {BLOCK_HEADER_SIZE}, a payload of up to {PAYLOAD_SIZE}," in DOCUMENT
    )
    assert f"1 to {WRITE_BLOCKS_MAX} blocks" in DOCUMENT
    assert f"| version | {BLOCK_VERSION};" in DOCUMENT
    assert f"`{BLOCK_MAGIC.decode()}`" in DOCUMENT
    assert f"s · {PAYLOAD_SIZE}" in DOCUMENT
    assert f"{ROW_SIZE} bytes each" in DOCUMENT
    assert [f"{mark.value}: {mark.name.lower()}" in DOCUMENT for mark in Mark] == [True] * 3


def test_the_operations_are_those_of_the_code() -> None:
    documented = {int(cells[0]): cells[1] for cells in table_after("operations")}
    assert documented == {kind.value: kind.name.lower() for kind in Kind}


def written() -> bytes:
    """The first file of a journal with one operation of each kind."""
    disk = SimulatedDisk(Random(1))
    journal, _ = Journal.open(disk, PATH, DISK, SMALL, create=True)
    group, vote, end = GROUPS[1], Member(7, GROUP_UUID), end_of({3: b""})
    assert end is not None
    journal.hint_commit(CommitHint(group, Index(2)))
    journal.append(
        [
            HardState(group, Term(5), vote),
            Created(group, Offset(0), end),
            Append(group, Index(4), Index(4), [bytes(5000)]),
            AppendIds(group, Index(5), row_of(5, 1)),
            Cut(group, Index(5)),
            Trim(group, Offset(2)),
            Install(group, Offset(1), end),
            Removed(group),
        ]
    )
    journal.flush()
    disk.complete_all()
    journal.checkpoint([GroupState(group, Mark.REMOVED, Term(5), vote, Offset(1), end, Index(2))])
    disk.complete_all()
    return disk.snapshot()[f"{PATH}/00000000.journal"]


GROUP_UUID = uuid.UUID(int=99)


def test_the_tables_read_a_journal() -> None:
    data = written()
    chain, seen, frame = 0, [], b""
    for number in range(len(data) // BLOCK_SIZE):
        block = data[number * BLOCK_SIZE : (number + 1) * BLOCK_SIZE]
        header = decode("block header", block)
        if header["magic"] != b"RLJB":
            assert not any(block)
            continue
        assert header["checksum"] == crc32c(DISK.bytes + block[8:])
        assert (header["chain"], header["use"], header["block"]) == (chain, 1, number)
        assert header["sequence"] == number + 1
        chain = header["checksum"]
        frame += block[BLOCK_HEADER_SIZE : BLOCK_HEADER_SIZE + header["length"]]
        if header["part"] + 1 == header["parts"]:
            seen += operations_of(frame)
            frame = b""
    kinds = [Kind(head["kind"]) for head, _ in seen]
    assert set(kinds) == set(Kind)
    by_kind = {Kind(head["kind"]): (head, body) for head, body in seen}
    head, body = by_kind[Kind.HARD_STATE]
    assert (head["a"], decode("vote", body)) == (5, {"node_id": 7, "disk_uuid": GROUP_UUID.bytes})
    head, body = by_kind[Kind.APPEND]
    assert (head["group"], head["a"], head["b"], body) == (GROUPS[1], 4, 4, bytes(5000))
    head, body = by_kind[Kind.INSTALL]
    assert (head["a"], head["b"], body) == (1, 0, row_of(3, 0))
    head, body = by_kind[Kind.GROUP_STATE]
    state = decode("group state", body)
    assert (head["a"], head["b"], state["mark"], state["commit_hint"]) == (5, 1, 2, 2)
    assert (state["has_vote"], state["has_end"], state["row"]) == (1, 1, row_of(3, 0))


def operations_of(frame: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """Head and body of each operation."""
    count = decode("frame head", frame)["operations"]
    at = FRAME_HEAD_SIZE + count * OPERATION_HEAD_SIZE
    found = []
    for number in range(count):
        head = decode("operation head", frame, FRAME_HEAD_SIZE + number * OPERATION_HEAD_SIZE)
        found.append((head, frame[at : at + head["length"]]))
        at += head["length"]
    assert at == len(frame)
    return found
