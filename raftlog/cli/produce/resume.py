"""State file of `produce --resume`, which shows after any crash how many records of a file are stored already.

The file is written and synced before the first record is sent, and never changed. It has the identity of the source,
the options that determine keys and partitions, and the end offset of each partition at that time (its base). Routing is
deterministic, and no other producer writes to the topic. So `end offset − base` of a partition is the number of its
stored records, whichever process crashed. As a check, the newest stored records are compared with their lines."""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from raftlog.cli.outcome import CommandFailed
from raftlog.cli.produce.routing import RecordLayout, make_router
from raftlog.client import BrokerClient, Fetched, OffsetRange
from raftlog.client.decode import read_batches, records_at_or_above
from raftlog.client.failures import is_temporary
from raftlog.client.outage import Outage
from raftlog.records import NewRecord, Record
from raftlog.types import IsolationName

VERSION = 1
HEAD_BYTES = 64 * 1024
FETCH_BYTES = 1024 * 1024
COMPARED_MAX = 100
"""Newest stored records of each partition that are compared with the source."""
PAUSE_SECONDS_MAX = 2.0
_ALL: Final[IsolationName] = "read_uncommitted"
"""Isolation level of the reads: open transactions of other producers must not hide the run's records."""
STABLE_SECONDS = 0.2
"""Time between two reads of the end offsets, which must be equal: requests of a killed producer may be in flight."""


class StoredRecords:
    """Reader of stored records that retries each call for up to `give_up_after_s` while no broker answers."""

    def __init__(self, client: BrokerClient, topic: str, give_up_after_s: float) -> None:
        self._client, self.topic = client, topic
        self._outage = Outage(f"topic {topic}", give_up_after_s, PAUSE_SECONDS_MAX, is_temporary)

    async def offsets(self, partition: int) -> OffsetRange:
        """Return the first and end offset of a partition; retry as long as brokers are unavailable."""
        return await self._outage.repeat(lambda: self._client.offsets(self.topic, partition, isolation=_ALL))

    async def fetch(self, partition: int, offset: int) -> Fetched:
        """Return batches of a partition from an offset, with retries."""
        return await self._outage.repeat(
            lambda: self._client.fetch_batches(
                self.topic, partition, offset, timeout_ms=0, max_bytes=FETCH_BYTES, isolation=_ALL
            )
        )


class ResumePoint(NamedTuple):
    """State of an interrupted run: for each partition, the first offset of its records and the number stored."""

    bases: list[int]
    already: list[int]


def source_identity(path: str) -> dict[str, Any]:
    """Return the properties that identify the source file of a run."""
    with open(path, "rb") as file:
        head = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256_of_first_64_kib": head}


async def begin_or_resume(
    state_path: str, reader: StoredRecords, source_path: str, layout: RecordLayout
) -> tuple[ResumePoint, int]:
    """Return the progress, and a file descriptor; the state file is locked until the descriptor is closed.

    Raises `CommandFailed` when the file belongs to another source, topic or set of options, or is in use."""
    wanted = {
        "raftlog_resume": VERSION,
        "topic": reader.topic,
        "source": await asyncio.to_thread(source_identity, source_path),
        "layout": _layout_fields(layout),
    }
    if not await asyncio.to_thread(os.path.exists, state_path):
        ends = await _read_end_offsets(reader, layout.partitions)
        if await asyncio.to_thread(_create_state, state_path, {**wanted, "base_offsets": ends}):
            return ResumePoint(ends, [0] * layout.partitions), _lock_state(state_path)
    lock = _lock_state(state_path)
    state = _read_state(state_path)
    _check_same_source(state_path, state, wanted)
    bases: list[int] = state["base_offsets"]
    ends = await _wait_for_stable_ends(reader, layout.partitions)
    for partition, (base, end) in enumerate(zip(bases, ends, strict=True)):
        if end < base:
            raise CommandFailed(
                f"{reader.topic}/{partition} ends at offset {end}, but ended at {base} when {state_path} was written: "
                "the topic was recreated or truncated; delete the state file to start again"
            )
    return ResumePoint(bases, [end - base for base, end in zip(bases, ends, strict=True)]), lock


async def verify(
    reader: StoredRecords, layout: RecordLayout, progress: ResumePoint, lines: AsyncIterator[list[bytes]]
) -> None:
    """Compare the newest stored records of each partition with the source; raises `CommandFailed` at a difference."""
    expected = await _find_expected_tails(layout, progress, lines)
    for partition, (base, count) in enumerate(zip(progress.bases, progress.already, strict=True)):
        tail = expected[partition]
        if len(tail) != min(count, COMPARED_MAX):
            raise _mismatch_error(reader.topic, partition, "it has more records than the source has lines for it")
        if not tail:
            continue
        first = base + count - len(tail)
        for record, line in zip(await _read_stored(reader, partition, first, len(tail)), tail, strict=True):
            if (record.key, record.value) != (line.key, line.value):
                raise _mismatch_error(
                    reader.topic, partition, f"the record at offset {record.offset} differs from its line"
                )


async def _find_expected_tails(
    layout: RecordLayout, progress: ResumePoint, lines: AsyncIterator[list[bytes]]
) -> list[list[NewRecord]]:
    """Return for each partition the last of the records that should be stored there."""
    router = make_router(layout)
    seen = [0] * layout.partitions
    tails: list[list[NewRecord]] = [[] for _ in seen]
    open_partitions = sum(count > 0 for count in progress.already)
    async for some in lines:
        if not open_partitions:
            break
        for partition, records in router.route(some):
            count, before = progress.already[partition], seen[partition]
            if before >= count:
                continue
            seen[partition] = before + len(records)
            wanted = records[max(0, count - COMPARED_MAX - before) : count - before]
            tails[partition] += [NewRecord(one) if isinstance(one, bytes) else one for one in wanted]
            open_partitions -= seen[partition] >= count
    return tails


async def _read_stored(reader: StoredRecords, partition: int, first: int, count: int) -> list[Record]:
    """Return `count` stored records from the offset `first`. Raises `CommandFailed` if retention deleted some."""
    beginning = (await reader.offsets(partition)).beginning
    if beginning > first:
        raise CommandFailed(
            f"{reader.topic}/{partition} starts at offset {beginning}: retention has deleted records that --resume "
            "must compare; set retention.ms=-1 while a topic is being loaded"
        )
    records: list[Record] = []
    while len(records) < count:
        fetched = await reader.fetch(partition, first + len(records))
        before = len(records)
        for header, batch in read_batches(fetched.body):
            records += records_at_or_above(header, batch, first + len(records))
        if len(records) == before:
            raise _mismatch_error(reader.topic, partition, f"offset {first + before} cannot be read")
    return records[:count]


async def _read_end_offsets(reader: StoredRecords, partitions: int) -> list[int]:
    """Return the end offsets of all partitions."""
    return [int((await reader.offsets(number)).end) for number in range(partitions)]


async def _wait_for_stable_ends(reader: StoredRecords, partitions: int) -> list[int]:
    """Return the end offsets, once they are the same twice: requests of the earlier run may still be in flight."""
    ends = await _read_end_offsets(reader, partitions)
    while True:
        await asyncio.sleep(STABLE_SECONDS)
        again = await _read_end_offsets(reader, partitions)
        if again == ends:
            return ends
        ends = again


def _layout_fields(layout: RecordLayout) -> dict[str, Any]:
    """Return the layout as fields for the state file."""
    separator = layout.key_separator
    return {**layout._asdict(), "key_separator": None if separator is None else separator.hex()}


def _create_state(path: str, state: dict[str, Any]) -> bool:
    """Create the file atomically and durably; return False if another producer created it first.

    The file is written and synced under a temporary name, and linked to its final name; then the directory is synced.
    """
    new = f"{path}.{os.getpid()}.new"
    try:
        with open(new, "wb") as file:
            file.write(orjson.dumps(state, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
            file.flush()
            os.fsync(file.fileno())
        os.link(new, path)
    except FileExistsError:
        return False
    finally:
        if os.path.exists(new):
            os.unlink(new)
    directory = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return True


def _read_state(path: str) -> dict[str, Any]:
    """Return the content of a state file; raises `CommandFailed` for a file of another kind or version."""
    try:
        state = orjson.loads(Path(path).read_bytes())
    except orjson.JSONDecodeError:
        state = None
    if not isinstance(state, dict) or state.get("raftlog_resume") != VERSION:
        raise CommandFailed(
            f"{path} is not a state file of this version of `raftlog produce --resume`; name another STATE_FILE"
        )
    return state


def _lock_state(path: str) -> int:
    """Lock a state file against other runs, and return its descriptor. Raises `CommandFailed` if it is locked."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise CommandFailed(f"{path} is in use by another raftlog produce; wait for it, or stop it") from None
    return descriptor


def _check_same_source(path: str, state: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise `CommandFailed` unless topic, source and layout are those of the state file."""
    for name in ("topic", "source"):
        if state[name] != wanted[name]:
            raise CommandFailed(
                f"{path} was written for another {name} ({_shorten(state[name])}, now {_shorten(wanted[name])}); "
                f"give the same {name}, or another state file"
            )
    for name, now in wanted["layout"].items():
        if state["layout"].get(name) != now:
            raise CommandFailed(
                f"{path} was written with {name.replace('_', '-')} {state['layout'].get(name)}, now it is {now}: "
                "keys or partitions would differ, so nothing was sent; give the same options"
            )


def _shorten(value: object) -> str:
    """Return the value of a mark as text."""
    return ", ".join(f"{key} {text}" for key, text in value.items()) if isinstance(value, dict) else str(value)


def _mismatch_error(topic: str, partition: int, why: str) -> CommandFailed:
    """Return the error for a partition whose records are not those of the source."""
    return CommandFailed(
        f"{topic}/{partition} does not hold the records of this source: {why}; another producer wrote to the topic. "
        "Nothing was sent; load the source into a topic of its own"
    )


def skip_stored(records: Sequence[bytes | NewRecord], skips: list[int], partition: int) -> Sequence[bytes | NewRecord]:
    """Return a partition's next records without the first `skips[partition]`, which are stored already.

    Subtracts the number of skipped records from `skips[partition]`."""
    skip = min(skips[partition], len(records))
    skips[partition] -= skip
    return records[skip:] if skip else records
