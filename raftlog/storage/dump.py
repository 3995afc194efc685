"""Description of a `.log` file, batch by batch, for people and programs."""

import uuid
from collections.abc import Iterator
from typing import Any

from raftlog.errors import FormatError, InvalidBatch
from raftlog.records import Compression, ControlKind, read_control
from raftlog.storage.disk import Disk
from raftlog.storage.gap import GAP_VERSION, decode_gap
from raftlog.storage.roll import RollMember, decode_roll
from raftlog.storage.verify import StoredBatch, open_log_file, walk_segment


def dump_file(disk: Disk, file: str) -> Iterator[tuple[dict[str, Any], memoryview]]:
    """Yield each batch of a segment file as JSON values, with its bytes; `"problem"` is the error of a bad batch.

    Raises `FormatError` if the file's name is not that of a segment, and `OSError`."""
    name = file.rpartition("/")[2]
    if not (name.endswith(".log") and len(name) == 24 and name[:20].isdigit()):
        raise FormatError(f"{file} is not a segment file: its name would be twenty digits and .log")
    segment = open_log_file(disk, file)
    try:
        for stored in walk_segment(segment):
            yield _describe(stored), stored.batch
    finally:
        segment.close()


def _describe(stored: StoredBatch) -> dict[str, Any]:
    """Return index, position, header fields and error of a batch as JSON values."""
    described: dict[str, Any] = {
        "index": stored.index,
        "position": stored.position,
        "size": len(stored.batch),
        "has_index_row": stored.row is not None,
    }
    header = stored.header
    if header:
        described |= {
            "base_offset": header.base_offset,
            "last_offset": header.next_offset - 1,
            "term": header.leader_epoch,
            "records": header.record_count,
            "compression": Compression(header.compression).name.lower()
            if header.compression <= max(Compression)
            else "unknown",
            "max_timestamp": header.max_timestamp,
            "producer_id": header.producer_id,
            "crc": f"{header.crc:08x}",
        }
    if stored.reason:
        described["problem"] = stored.reason
    elif header and header.is_control:
        described["control"] = _describe_control(stored.batch)
    return described


def _describe_control(batch: memoryview) -> dict[str, Any]:
    """Return kind and content of a control batch, or the problem with it."""
    try:
        kind, payload = read_control(batch)
        described: dict[str, Any] = {"kind": kind.name.lower()}
        if kind is ControlKind.ROLL:
            described |= {key: _to_json_value(value) for key, value in decode_roll(payload)._asdict().items()}
        elif kind is ControlKind.GAP:
            described |= {"version": GAP_VERSION, **decode_gap(payload)._asdict()}
        return described
    except (InvalidBatch, FormatError) as error:
        return {"problem": str(error)}


def _to_json_value(value: Any) -> Any:
    """Return a field of a roll as a JSON value: a member is an object, a setting a pair."""
    match value:
        case uuid.UUID():
            return str(value)
        case RollMember():
            return {"node_id": value.node_id, "disk_uuid": str(value.disk_uuid)}
        case tuple():
            return [_to_json_value(each) for each in value]
    return value
