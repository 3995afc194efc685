"""Snapshots of the controller's state: encoded as payloads of a run of `snapshot` control entries, and decoded.

Joined, the pieces after the headers are one MessagePack map (docs/CONTROLLER.md); docs/FORMATS.md section 5 has the
header. Rows are in ascending order, so equal states give equal bytes. The map holds the state's hash, and a state
is only returned when it has that hash.

The payloads describe the state at the time of the call, even if they are iterated later. Pure; called by the host,
which writes and reads the controller's log."""

import struct
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

from raftlog.errors import FormatError
from raftlog.partitions.controller.machine.commands import Bootstrap
from raftlog.partitions.controller.machine.rows import ReplicaAssignment, TopicRow
from raftlog.partitions.controller.machine.schema import NUMBER_MAX, SchemaRecord, pack, unpack
from raftlog.partitions.controller.machine.state import STATE_NUMBERS, ControllerState
from raftlog.partitions.controller.machine.table import Table
from raftlog.types import FEATURE_LEVEL_KNOWN, Index

PAYLOAD_VERSION: Final = 1
SUBJECT_CONTROLLER: Final = 1
MAP_VERSION: Final = 1
PIECE_BYTES: Final = 64 * 1024
ROWS_PER_STEP: Final = 50
HEADER: Final = struct.Struct(">BBBIQ")
"""Header: version, subject, is_last, piece, index of the roll before the snapshot."""
_LIST_HEADER: Final = struct.Struct(">BI")
_LIST_32: Final = 0xDD
_MAP_OF_NONE: Final = 0x80
_SMALL_MAP_MAX: Final = 15
_MAP_HEADER: Final = struct.Struct(">BH")
_MAP_16: Final = 0xDE


def snapshot_payloads(state: ControllerState, roll_index: Index, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Return the payloads of the entries, each a header and at most `piece_bytes`."""
    assert piece_bytes > 0, f"pieces of {piece_bytes} bytes"
    return _split_parts(_encode_parts(_freeze_state(state)), roll_index, piece_bytes)


def _freeze_state(state: ControllerState) -> dict[str, Any]:
    """Return the snapshot as a map of the present rows, which are not encoded yet: only references are copied.

    The state may change before the parts are encoded."""
    rows = {table.name: (list(table), table.order) for table in state.tables() if len(table)}
    return {"version": MAP_VERSION, **state.scalars(), **rows, "state_hash": state.state_hash()}


def _encode_parts(frozen: dict[str, Any]) -> Iterator[bytes]:
    """Yield the parts of the packed map; the rows of a table are sorted by its order."""
    yield _map_header(len(frozen))
    for name, value in frozen.items():
        yield pack(name)
        if not isinstance(value, tuple):
            yield pack(value)
            continue
        rows, order = value
        yield _LIST_HEADER.pack(_LIST_32, len(rows))
        for row in sorted(rows, key=order):
            yield pack(row.pack())


def _map_header(count: int) -> bytes:
    """Return the MessagePack header of a map with this number of pairs."""
    return bytes([_MAP_OF_NONE + count]) if count <= _SMALL_MAP_MAX else _MAP_HEADER.pack(_MAP_16, count)


def _split_parts(parts: Iterator[bytes], roll_index: Index, piece_bytes: int) -> Iterator[bytes]:
    """Yield payloads of joined parts, each a header and at most `piece_bytes`; the last one is marked."""
    piece, waiting = 0, bytearray()
    for part in parts:
        waiting += part
        while len(waiting) > piece_bytes:
            yield HEADER.pack(PAYLOAD_VERSION, SUBJECT_CONTROLLER, False, piece, roll_index) + waiting[:piece_bytes]
            del waiting[:piece_bytes]
            piece += 1
    yield HEADER.pack(PAYLOAD_VERSION, SUBJECT_CONTROLLER, True, piece, roll_index) + waiting


class SnapshotReader:
    """Reader that joins the payloads of a snapshot's consecutive entries. A new snapshot replaces an unfinished one."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._roll_index = -1

    def take(self, payload: bytes) -> "Restoration | None":
        """Add the payload of an entry; return the restoration after the last payload of a snapshot.

        Raises `FormatError`, and drops the payloads so far."""
        try:
            is_last, piece, roll_index = _read_header(payload)
            if piece == 0:
                self._pieces, self._roll_index = [], roll_index
            if piece != len(self._pieces) or roll_index != self._roll_index:
                raise FormatError(
                    f"piece {piece} of the snapshot after roll {roll_index}, where piece {len(self._pieces)} "
                    f"of the one after roll {self._roll_index} has to follow"
                )
            self._pieces.append(payload[HEADER.size :])
            if not is_last:
                return None
            restoration = Restoration(b"".join(self._pieces))
        except FormatError:
            self._reset()
            raise
        self._reset()
        return restoration

    def _reset(self) -> None:
        """Discard the pieces of an incomplete snapshot."""
        self._pieces, self._roll_index = [], -1


def _read_header(payload: bytes) -> tuple[bool, int, int]:
    """Return whether the payload is the last one, its number, and the index of the roll."""
    if len(payload) < HEADER.size:
        raise FormatError(f"a snapshot entry of {len(payload)} bytes has no header")
    version, subject, is_last, piece, roll_index = HEADER.unpack_from(payload)
    if version != PAYLOAD_VERSION:
        raise FormatError(f"a snapshot entry of version {version}; this program reads version {PAYLOAD_VERSION}")
    if subject != SUBJECT_CONTROLLER or is_last not in (0, 1):
        raise FormatError(f"a snapshot entry with subject {subject} and last flag {is_last} in the controller's log")
    return bool(is_last), piece, roll_index


class Restoration:
    """Restoration of a state from the map in steps of some rows, so that a large one does not block the loop."""

    def __init__(self, packed: bytes) -> None:
        """Read the numbers and the bootstrap of a snapshot; its rows follow step by step.

        Raises `FormatError` for another version or unknown fields."""
        fields = unpack(packed, "the controller's snapshot", len(packed))
        if type(fields) is not dict or fields.get("version") != MAP_VERSION:
            raise FormatError(f"the controller's snapshot is not a map of version {MAP_VERSION}")
        self._state = ControllerState()
        _set_numbers(self._state, fields)
        tables = self._state.tables()
        unknown = fields.keys() - {
            "version",
            *STATE_NUMBERS,
            "bootstrap",
            "state_hash",
            *(each.name for each in tables),
        }
        if unknown:
            raise FormatError(
                f"the controller's snapshot has the unknown fields {sorted(map(str, unknown))}: run a newer release"
            )
        self._state_hash = fields.get("state_hash")
        if "bootstrap" in fields:
            self._state.bootstrap = Bootstrap.unpack(fields["bootstrap"])
        self._rows = chain.from_iterable(_add_rows(self._state, table, fields.get(table.name, [])) for table in tables)

    def step(self, rows: int = ROWS_PER_STEP) -> ControllerState | None:
        """Restore this number of rows; return the state after the last row. Raises `FormatError`."""
        taken = sum(1 for _ in islice(self._rows, rows))
        return self._check_hash() if taken < rows else None

    def finish(self) -> ControllerState:
        """Restore all remaining rows; return the state. Raises `FormatError`."""
        while (state := self.step()) is None:
            pass
        return state

    def _check_hash(self) -> ControllerState:
        """Return the restored state. Raises `FormatError` if its hash is not the one in the snapshot."""
        if self._state.state_hash() != self._state_hash:
            raise FormatError(
                f"the controller's snapshot at index {self._state.applied_index} has another hash than it states"
            )
        return self._state


def _set_numbers(state: ControllerState, fields: dict[str, Any]) -> None:
    """Set the numbers of the state. Raises `FormatError` for a feature level above this release."""
    for name in STATE_NUMBERS:
        value = fields.get(name, 0)
        if type(value) is not int or not 0 <= value <= NUMBER_MAX:
            raise FormatError(f"the controller's snapshot has {name} {value!r}")
        setattr(state, name, value)
    if state.feature_level > FEATURE_LEVEL_KNOWN:
        raise FormatError(
            f"the cluster runs at feature level {state.feature_level}; "
            f"this program knows {FEATURE_LEVEL_KNOWN}: run a newer release"
        )


def _add_rows(state: ControllerState, table: Table[Any, Any], raw: Any) -> Iterator[None]:
    """Add the rows of one table to the state, one per iteration step. Raises `FormatError`."""
    if type(raw) is not list:
        raise FormatError(f"the controller's snapshot has no list {table.name}")
    before = None
    for packed in raw:
        row = table.row_type.unpack(packed)
        key = table.order(row)
        if before is not None and not before < key:
            raise FormatError(f"the controller's snapshot has {table.name} that are not in ascending order")
        before = key
        _add_row(state, table, row)
        yield


def _add_row(state: ControllerState, table: Table[Any, Any], row: SchemaRecord) -> None:
    """Add one row to the state or its table. Raises `FormatError` if it contradicts earlier rows."""
    if isinstance(row, TopicRow):
        if state.has_topic(row.name):
            raise FormatError(f"the controller's snapshot has two topics {row.name!r}")
        state.put_topic(row)
    elif isinstance(row, ReplicaAssignment):
        if not state.has_group(row.group):
            raise FormatError(f"the controller's snapshot assigns {row.group}, which is not there")
        state.put_assignment(row)
    else:
        table.put(row)
