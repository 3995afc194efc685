"""Section 13 of docs/FORMATS.md compared with the code: its tables decode a real journal."""

import re
import uuid
from random import Random
from typing import Any

from crc32c import crc32c

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.runtime.journal.blocks import (
    BLOCK_HEADER_SIZE,
    BLOCK_MAGIC,
    BLOCK_SIZE,
    BLOCK_VERSION,
    PAYLOAD_SIZE,
    WRITE_BLOCKS_MAX,
)
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import (
    FRAME_HEAD_SIZE,
    GROUP_STATE,
    OPERATION_HEAD_SIZE,
    VOTE,
    Append,
    AppendIds,
    CommitHint,
    Created,
    Cut,
    GroupState,
    Install,
    JournaledHardState,
    Mark,
    OperationKind,
    Removed,
    Trim,
    VotingPosition,
)
from raftlog.storage.roll import RollMember
from raftlog.storage.rows import ROW_SIZE
from raftlog.types import Index, Offset, Term
from tests.layouts import DOCUMENT, read_layout, table_after
from tests.runtime.journal_twin import DISK, GROUPS, PATH, SMALL, end_of, row_of

SIZES = {
    "block header": BLOCK_HEADER_SIZE,
    "frame head": FRAME_HEAD_SIZE,
    "operation head": OPERATION_HEAD_SIZE,
    "vote": VOTE.size,
    "group state": GROUP_STATE.size,
}


def decode(name: str, data: bytes, position: int = 0) -> dict[str, Any]:
    return read_layout(name).decode(data, position)


def test_sizes_of_tables_match_the_code() -> None:
    section = DOCUMENT.split("## 13. ")[1].split("## 14. ")[0]
    assert re.findall(r"<!-- layout: (.+) -->", section) == list(SIZES)
    for name, size in SIZES.items():
        assert read_layout(name).size == size


def test_numbers_in_the_text_match_the_code() -> None:
    assert (
        f"blocks of {BLOCK_SIZE} bytes: a header of {BLOCK_HEADER_SIZE}, a payload of up to {PAYLOAD_SIZE}," in DOCUMENT
    )
    assert f"1 to {WRITE_BLOCKS_MAX} blocks" in DOCUMENT
    assert f" version: {BLOCK_VERSION};" in DOCUMENT
    assert f"`{BLOCK_MAGIC.decode()}`" in DOCUMENT
    assert f"s · {PAYLOAD_SIZE}" in DOCUMENT
    assert f"of these entries, {ROW_SIZE} bytes each" in DOCUMENT
    assert [f"{mark.value}: {mark.name.lower()}" in DOCUMENT for mark in Mark] == [True] * 3


def test_operations_match_the_code() -> None:
    documented = {int(cells[0]): cells[1] for cells in table_after("operations")}
    assert documented == {kind.value: kind.name.lower() for kind in OperationKind}


def write_journal() -> bytes:
    """Return the first file of a journal with one operation of each kind."""
    disk = SimulatedDisk(Random(1))
    journal, _ = Journal.open(disk, PATH, DISK, SMALL, create=True)
    group, vote, end = GROUPS[1], RollMember(7, GROUP_UUID), end_of({3: b""})
    assert end is not None
    journal.hint_commit(CommitHint(group, Index(2)))
    journal.append(
        [
            JournaledHardState(group, Term(5), vote),
            Created(group, Offset(0), end),
            Append(group, Index(4), Index(4), [bytes(5000)]),
            AppendIds(group, Index(5), row_of(5, 1)),
            Cut(group, Index(5)),
            Trim(group, Offset(2)),
            Install(group, Offset(1), end),
            Removed(group),
            VotingPosition(group, Index(3), Term(4)),
        ]
    )
    journal.flush()
    disk.complete_all()
    lost = (Index(3), Term(4))
    journal.checkpoint([GroupState(group, Mark.REMOVED, Term(5), vote, Offset(1), end, Index(2), Index(1), lost)])
    disk.complete_all()
    return disk.snapshot()[f"{PATH}/00000000.journal"]


GROUP_UUID = uuid.UUID(int=99)


def test_the_tables_decode_a_journal() -> None:
    data = write_journal()
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
    kinds = [OperationKind(head["kind"]) for head, _ in seen]
    assert set(kinds) == set(OperationKind)
    by_kind = {OperationKind(head["kind"]): (head, body) for head, body in seen}
    head, body = by_kind[OperationKind.HARD_STATE]
    assert (head["a"], decode("vote", body)) == (5, {"node_id": 7, "disk_uuid": GROUP_UUID})
    head, body = by_kind[OperationKind.APPEND]
    assert (head["group"], head["a"], head["b"], body) == (uuid.UUID(bytes=GROUPS[1]), 4, 4, bytes(5000))
    head, body = by_kind[OperationKind.INSTALL]
    assert (head["a"], head["b"], body) == (1, 0, row_of(3, 0))
    head, body = by_kind[OperationKind.VOTING_POSITION]
    assert (head["a"], head["b"], body) == (3, 4, b"")
    head, body = by_kind[OperationKind.GROUP_STATE]
    state = decode("group state", body)
    assert (head["a"], head["b"], state["mark"], state["commit_hint"]) == (5, 1, 2, 2)
    assert (state["has_vote"], state["has_end"], state["row"]) == (1, 1, row_of(3, 0))
    assert (state["configuration_index"], state["voting_index"], state["voting_term"]) == (1, 3, 4)


def operations_of(frame: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """Return head and body of each operation in a frame."""
    count = decode("frame head", frame)["operations"]
    at = FRAME_HEAD_SIZE + count * OPERATION_HEAD_SIZE
    found = []
    for number in range(count):
        head = decode("operation head", frame, FRAME_HEAD_SIZE + number * OPERATION_HEAD_SIZE)
        found.append((head, frame[at : at + head["length"]]))
        at += head["length"]
    assert at == len(frame)
    return found
