"""docs/GROUPS.md and section 11 of docs/FORMATS.md compared with the code."""

from uuid import UUID

from raftlog.assignors import ASSIGNORS
from raftlog.errors import RaftlogError
from raftlog.partitions.groups import records
from raftlog.partitions.groups.records import (
    GroupKey,
    GroupProducerKey,
    InstanceKey,
    MemberRecord,
    OffsetKey,
    OffsetRecord,
    PendingOffsetKey,
    encode_key,
    encode_value,
)
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.partitions.groups.states import TRANSITIONS, Event
from raftlog.types import Offset
from tests.layouts import DOCS, DOCUMENT, table_after

GROUPS = (DOCS / "GROUPS.md").read_text(encoding="utf-8")
TOPIC_ID = UUID("6f1c2b3a-0d4e-4f50-8a61-7b2c3d4e5f60")

KEYS = (
    GroupKey("g"),
    OffsetKey("g", TOPIC_ID, 3),
    InstanceKey("g", "i"),
    PendingOffsetKey("g", 9, TOPIC_ID, 3),
    GroupProducerKey("g", 9),
)


def test_the_documented_states_match_the_code() -> None:
    expected = [
        [state.value, *(cells[event].value if event in cells else "-" for event in Event)]
        for state, cells in TRANSITIONS.items()
    ]
    assert table_after("group states", GROUPS) == expected
    head = GROUPS.split("<!-- group states -->\n")[1].splitlines()[0]
    assert [cell.strip() for cell in head.strip("|").split("|")] == ["state", *(event.value for event in Event)]


def test_every_setting_is_documented_with_its_default() -> None:
    told = {cells[0].strip("`"): int(cells[1]) for cells in table_after("group settings", GROUPS)}
    assert told == GroupSettings()._asdict()


def test_the_documented_assignors_match_the_code() -> None:
    assert [cells[0].strip("`") for cells in table_after("assignors", GROUPS)] == list(ASSIGNORS)


def test_documented_refusals_are_error_classes() -> None:
    names = {each.__name__ for kind in RaftlogError.__subclasses__() for each in kind.__subclasses__()}
    rows = GROUPS.split("| refusal | when |")[1].split("\n\n")[0].splitlines()[2:]
    told = [name.strip() for row in rows for name in row.strip("|").split("|")[0].split(",")]
    assert len(told) == 8
    assert set(told) <= names


def test_the_documented_fields_of_a_member_match_the_code() -> None:
    assert [cells[0] for cells in table_after("group member")] == list(MemberRecord._fields)


def test_the_documented_bounds_of_records_match_the_code() -> None:
    bounds = [int(cells[4]) for cells in table_after("group records")]
    offset = records.OFFSET_BYTES_MAX
    assert bounds == [offset, records.GROUP_BYTES_MAX, records.INSTANCE_BYTES_MAX, offset, offset]


def test_the_documented_example_is_encoded_by_the_code() -> None:
    block = DOCUMENT.split("<!-- group keys -->\n```\n")[1].split("\n```")[0]
    written = [
        *map(encode_key, KEYS),
        encode_value(OffsetRecord(Offset(7), 2, "", 1_700_000_000_000)),
    ]
    assert [bytes.fromhex(line) for line in block.splitlines()] == written
    kinds = [int(cells[0]) for cells in table_after("group records")]
    assert kinds == sorted(data[1] for data in written[: len(KEYS)])
