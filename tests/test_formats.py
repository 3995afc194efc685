"""docs/FORMATS.md compared with the code: its tables decode real files, and its example is the code's output.

The table of error codes in docs/ERRORS.md is held to the code as well.
"""

import json
import re
import struct
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from raftlog.api import codes
from raftlog.partitions.broker import Broker
from raftlog.partitions.groups.service import OFFSETS_CONFIG, OFFSETS_TOPIC
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import (
    HEADER_SIZE,
    ControlKind,
    NewRecord,
    build_batch,
    build_control_batch,
    read_control,
    read_header,
    split_batches,
)
from raftlog.runtime.rpc.frames.bulk_codec import NAMES
from raftlog.storage.checkpoint import SLOT_SIZE, CheckpointFile
from raftlog.storage.directory import FEATURE_LEVEL, FORMAT_VERSION, internal_path, make_directory, write_meta
from raftlog.storage.gap import GAP, GAP_VERSION, REASON_COMPACTED, REASON_LOST
from raftlog.storage.lone_log import LoneLog
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.roll import Roll, RollMember, decode_roll, encode_roll
from raftlog.storage.rows import ROW_SIZE, unpack_rows
from raftlog.storage.time_index import ENTRY_SIZE, SPACING_BYTES
from raftlog.topic_config import LogConfig
from raftlog.types import Offset
from raftlog.values.error_codes import STATUS_AND_CODE
from tests.layouts import DOCS, DOCUMENT, LAYOUTS, items_after, read_layout, struct_code, table_after
from tests.small_journal import SMALL_JOURNAL

GROUP_ID = "6f1c2b3a-0d4e-4f50-8a61-7b2c3d4e5f60"
CREATED_MS = 1_700_000_000_000
STEM = "0" * 20


EXAMPLE = (DOCS.parent / "tests" / "golden" / "lone_log.txt").read_text(encoding="utf-8")


def block_after(mark: str) -> str:
    return EXAMPLE.split(f"<!-- {mark} -->\n```\n")[1].split("\n```")[0]


def listed_bytes(block: str, line: re.Pattern[str]) -> bytes:
    """Return the bytes of a listing; check that each line has its stated position."""
    data = b""
    for text in filter(None, block.splitlines()):
        match = line.match(text)
        assert match, text
        assert int(match[1], 16) == len(data), text
        data += bytes.fromhex(match[2])
    return data


FIELD_LINE = re.compile(r"([0-9a-f]{4})  ((?:[0-9a-f]{2})+)\s+\S")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the log of the document's example: a fixed group id and a fixed clock."""
    path = str(tmp_path_factory.mktemp("example") / "log")
    jobs: deque[Callable[[], None]] = deque()
    disk = RealDisk(jobs.append)
    make_directory(disk, internal_path(path))
    write_meta(disk, path, "log", {"group_id": GROUP_ID})
    log = LoneLog.open(disk, path, LogConfig(), clock=lambda: CREATED_MS)
    records = [
        NewRecord(b"hello", b"k", CREATED_MS + 100, [("h", b"1")]),
        NewRecord(b"world", None, CREATED_MS + 101),
    ]
    log.append([build_batch(records)])
    log.flush()
    while jobs:
        jobs.popleft()()
    log.close()
    return Path(path)


def stored(example: Path, name: str) -> bytes:
    return (example / name).read_bytes()


# the document by itself


@pytest.mark.parametrize("name", LAYOUTS)
def test_positions_of_a_layout_follow_from_its_types(name: str) -> None:
    position = 0
    for field in read_layout(name).fields:
        assert field.position == position, field
        position += struct.calcsize(">" + struct_code(field.kind))


def test_every_layout_has_its_own_name() -> None:
    assert len(set(LAYOUTS)) == len(LAYOUTS)


def test_bytes_are_specified_in_one_document_only() -> None:
    assert [path.name for path in sorted(DOCS.glob("*.md")) if "<!-- layout:" in path.read_text()] == ["FORMATS.md"]


def test_the_crc_is_as_documented() -> None:
    assert "`0xE3069283`" in DOCUMENT
    assert crc32c(b"123456789") == 0xE3069283


def test_control_types_match_the_code() -> None:
    documented = {int(cells[0], 16): cells[1] for cells in table_after("control types")}
    assert documented == {kind.value: kind.name.lower() for kind in ControlKind}


def test_versions_and_sizes_match_the_code() -> None:
    assert f"| `format` | {FORMAT_VERSION} |" in DOCUMENT
    assert f"| `feature_level` | {FEATURE_LEVEL} |" in DOCUMENT
    assert read_layout("record batch header").size == HEADER_SIZE
    assert read_layout("index row").size == ROW_SIZE
    assert read_layout("time index entry").size == ENTRY_SIZE
    assert read_layout("gap").size == GAP.size
    assert f"two slots of {SLOT_SIZE}." in DOCUMENT
    assert f"at least {SPACING_BYTES} bytes" in DOCUMENT
    assert f"{REASON_COMPACTED}: compacted; {REASON_LOST}: damaged" in DOCUMENT


# the example


def test_the_example_has_no_other_files(example: Path) -> None:
    names = {str(path.relative_to(example)) for path in example.rglob("*") if path.is_file()}
    segment = {f"{STEM}.log", f"{STEM}.index", f"{STEM}.timeindex"}
    assert names == segment | {".raftlog/lock", ".raftlog/meta", ".raftlog/checkpoint"}
    assert stored(example, ".raftlog/lock") == b""


@pytest.mark.parametrize("name", [f"{STEM}.log", f"{STEM}.index", f"{STEM}.timeindex"])
def test_the_documented_fields_match_the_file(example: Path, name: str) -> None:
    assert listed_bytes(block_after(f"fields: {name}"), FIELD_LINE) == stored(example, name)


def test_the_documented_checkpoint_matches_the_file(example: Path) -> None:
    data = stored(example, ".raftlog/checkpoint")
    shown = listed_bytes(block_after("fields: .raftlog/checkpoint"), FIELD_LINE)
    assert len(data) == 2 * SLOT_SIZE
    assert data[:SLOT_SIZE] == shown.ljust(SLOT_SIZE, b"\0")


def test_the_documented_meta_file_matches_the_file(example: Path) -> None:
    assert block_after("text: .raftlog/meta") + "\n" == stored(example, ".raftlog/meta").decode()


# the tables as decoders


def test_the_header_table_decodes_batches(example: Path) -> None:
    table = read_layout("record batch header")
    position = 0
    data = stored(example, f"{STEM}.log")
    for header, batch in split_batches(data):
        read = table.decode(data, position)
        assert list(read.values()) == list(header)
        assert read["crc"] == crc32c(bytes(batch[21:]))
        assert len(batch) == 12 + read["batchLength"]
        position += len(batch)
    assert position == len(data)


def test_the_row_table_decodes_the_index(example: Path) -> None:
    table, log, index = read_layout("index row"), stored(example, f"{STEM}.log"), stored(example, f"{STEM}.index")
    rows = [table.decode(index, at) for at in range(0, len(index), ROW_SIZE)]
    assert [list(row.values()) for row in rows] == [list(row) for row in unpack_rows(index)]
    assert [row["index"] for row in rows] == [1, 2]
    for number, row in enumerate(rows):
        header = log[row["position"] : row["position"] + HEADER_SIZE]
        checked = index[number * ROW_SIZE : number * ROW_SIZE + 40]
        assert row["checksum"] == crc32c(checked + header)
        assert (row["crc"], row["offset"]) == (read_header(header).crc, read_header(header).base_offset)


def test_the_time_table_decodes_the_time_index(example: Path) -> None:
    data = stored(example, f"{STEM}.timeindex")
    assert read_layout("time index entry").decode(data) == {
        "timestamp": CREATED_MS,
        "row": 0,
        "checksum": crc32c(data[:16]),
    }


def test_the_checkpoint_table_decodes_both_slots(example: Path) -> None:
    table, data = read_layout("checkpoint slot"), stored(example, ".raftlog/checkpoint")
    slots = [table.decode(data, at) for at in (0, SLOT_SIZE)]
    assert [slot["sequence"] for slot in slots] == [2, 1]
    for slot, at in zip(slots, (0, SLOT_SIZE), strict=True):
        assert (slot["magic"], slot["version"]) == (b"RLCK", 1)
        assert slot["checksum"] == crc32c(data[at : at + 64])
    newest = CheckpointFile(RealDisk(lambda _: None), str(example / ".raftlog/checkpoint")).newest
    assert newest is not None
    assert newest._asdict().items() <= slots[0].items()


def test_the_meta_checksum_is_as_documented(example: Path) -> None:
    body = json.loads(stored(example, ".raftlog/meta"))
    stated = body.pop("crc32c")
    assert (body["format"], body["feature_level"], body["kind"]) == (FORMAT_VERSION, FEATURE_LEVEL, "log")
    text = ", ".join(f"{json.dumps(name)}: {json.dumps(body[name])}" for name in sorted(body))
    assert stated == crc32c(f"{{{text}}}".encode())


def test_the_roll_tables_decode_a_roll_with_all_fields() -> None:
    voters = (RollMember(1, uuid.UUID(int=11)), RollMember(2, uuid.UUID(int=12)))
    roll = Roll(uuid.UUID(GROUP_ID), 7, 3, 40, -1, CREATED_MS, 5, voters, (), voters[:1], (("b", "2"), ("a", "é")))
    payload = encode_roll(roll)
    fixed, member = read_layout("roll"), read_layout("member")
    read = fixed.decode(payload)
    assert read.pop("version") == 1
    assert read.items() <= roll._asdict().items()
    position = fixed.size
    for members in (roll.voters, roll.learners, roll.outgoing_voters):
        assert int.from_bytes(payload[position : position + 2]) == len(members)
        position += 2
        for expected in members:
            assert tuple(member.decode(payload, position).values()) == expected
            position += member.size
    assert payload[position:] == b"\0\2" + b"\0\1a" + b"\0\2\xc3\xa9" + b"\0\1b" + b"\0\0012"
    assert decode_roll(payload) == roll._replace(settings=tuple(sorted(roll.settings)))


def test_the_gap_table_decodes_a_gap_in_its_control_batch() -> None:
    payload = GAP.pack(GAP_VERSION, 8, 8, 100, 103, 2, REASON_LOST)
    batch = build_control_batch(ControlKind.GAP, payload, 0, next_offset=Offset(100), offsets_spanned=3)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset_delta, header.next_offset) == (100, 2, 103)
    kind, value = read_control(batch)
    assert kind is ControlKind.GAP
    assert list(read_layout("gap").decode(value).values()) == [GAP_VERSION, 8, 8, 100, 103, 2, REASON_LOST]


def test_a_control_batch_takes_no_offset_and_its_key_is_as_documented() -> None:
    batch = build_control_batch(ControlKind.NO_OP, b"\1", CREATED_MS, next_offset=Offset(9))
    header = read_header(batch)
    assert (header.attributes, header.last_offset_delta, header.next_offset) == (0x20, -1, 9)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    key_at = HEADER_SIZE + 5  # record length, attributes, two deltas and key length, a byte each
    assert read_layout("control key").decode(batch, key_at) == {"version": 0, "type": ControlKind.NO_OP}


def test_settings_of_the_offsets_topic_match_the_code() -> None:
    section = DOCUMENT.split("## 11. ")[1].split("## 12. ")[0]
    assert f"`{OFFSETS_TOPIC}`" in section
    assert all(f"`{name}`" in section for name in OFFSETS_CONFIG)
    assert f"`segment.bytes` {OFFSETS_CONFIG['segment.bytes']}." in section


# other documents with names and numbers that programs rely on


async def test_requests_between_brokers_match_the_code(tmp_path: Path) -> None:
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), driver=SMALL_JOURNAL))
    served = set(broker.node._requests._handlers)
    await broker.close()
    items = items_after("requests", (DOCS / "REPLICATION.md").read_text(encoding="utf-8"))
    described = [name for head, _ in items for name in re.findall(r"`([^`]+)`", head)]
    assert len(described) == len(set(described))
    assert set(described) == served | {*NAMES}


def test_the_error_codes_of_http_match_the_code() -> None:
    items = items_after("error codes", (DOCS / "ERRORS.md").read_text(encoding="utf-8"))
    listed = {tuple(map(int, head.partition(" (")[0].split(" / "))) for head, _ in items}
    named = {value for name, value in vars(codes).items() if name.isupper() and isinstance(value, tuple)}
    assert listed == named | set(STATUS_AND_CODE.values())
