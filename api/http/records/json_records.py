"""Stored records as JSON: `[{"topic","key","value","partition","offset","timestamp","headers"}]`.

In the JSON format a stored key or value that is JSON text is returned as that text, digit for digit. Any other
is returned as a string, with `"encoding": {"value": "text"}` when the string is the text itself, or `"base64"`
when it is base64 of bytes that are not UTF-8; without an entry there it is JSON. In the binary format everything
is base64."""

import binascii
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing
from itertools import chain, takewhile
from typing import TypeAlias

import orjson

from raftlog.api.http.records.large_values import append_base64, append_json
from raftlog.api.http.server.answer_memory import AnswerMemory
from raftlog.api.http.server.media import Format
from raftlog.errors import MemoryBudgetExceeded, UndecodableBatch
from raftlog.records import Record, read_header, read_records
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.runtime.slices import Slices, run_in_slices
from raftlog.types import Buffer, TopicPartition

_RECORDS_PER_SLICE = 1_000
"""Records after which other tasks run."""
_SLICE_BYTES = 64 * 1024
_CHARGED_BYTES = 256 * 1024
"""Bytes by which the memory charged for encoded records grows at a time."""
_PARSED_BYTES_MAX = 64 * 1024
"""Longer keys and values are encoded in steps; the object with such a value is alone in its slice."""
_NULL = b"null"

Encoded: TypeAlias = bytes | bytearray


class JsonRecords:
    """Encoder of the records of one partition as JSON.

    Decompressed batches, and answers that `encode` returns, are charged to `memory`."""

    def __init__(self, topic: str, partition: int, format_: Format, opener: BatchOpener, memory: AnswerMemory) -> None:
        """Prepare the encoder of one partition's records; `memory` is charged for decompressed batches."""
        self._memory = memory
        self._held_bytes = 0
        """Bytes charged for the decompressed batch that is being read, and for a large object that is being encoded."""
        self._held_back: Record | None = None
        """Large record that was read, and begins the next slice; None: none."""
        self._begin = b'{"topic":' + orjson.dumps(topic) + b',"key":'
        self._suffix = b',"partition":' + str(partition).encode() + b',"offset":%d,"timestamp":%d,"headers":%b'
        self._template = self._begin.replace(b"%", b"%%") + b'%b,"value":%b' + self._suffix + b"}"
        self._is_json = format_ is Format.JSON
        self._opener = opener
        self._place = TopicPartition(topic, partition)
        self._broken: UndecodableBatch | None = None
        """Error at the record after the last encoded one; None: none so far."""
        self.next_offset = 0
        """Offset after the last encoded record, or after a batch without further records."""

    async def encode(self, batches: Sequence[Buffer], offset: int, max_bytes: int) -> list[Encoded]:
        """Return the records from `offset` on as parts of a JSON array, about `max_bytes`; less if memory is short.

        A part has objects with commas between them, one object for each record. Raises `UndecodableBatch` if the first
        record cannot be decoded, and `MemoryBudgetExceeded` if there is no memory for the first slice."""
        parts: list[Encoded] = []
        size = 0
        self.next_offset = offset
        slices = Slices()
        for batch in batches:
            await slices.pause_if_over()
            try:
                size += await self._encode_batch(batch, offset, max_bytes - size, parts)
            except MemoryBudgetExceeded:
                if not parts:
                    raise
                break
            if self._broken and not parts:
                raise self._broken
            if size >= max_bytes or self._broken:
                break
            self.next_offset = read_header(batch).next_offset
        return parts

    async def _encode_batch(self, batch: Buffer, offset: int, room: int, parts: list[Encoded]) -> int:
        """Append the records of a batch to `parts`, up to `room` bytes. Returns the number of appended bytes."""
        size = 0
        before = self.next_offset
        try:
            records = await self._open(batch)
            while size < room and not self._broken:
                held, before = self._held_bytes, self.next_offset
                slice_ = await run_in_slices(self._slice(records, offset, min(room - size, _CHARGED_BYTES)))
                if not slice_:
                    break
                part = join_objects(slice_, b",")
                self._release(held)
                self._memory.add(len(part))
                parts.append(part)
                size += len(part)
        except MemoryBudgetExceeded:
            self.next_offset = before
            raise
        finally:
            self._release(0)
        return size

    async def _open(self, batch: Buffer) -> Iterator[Record]:
        """Return the records of a batch, none if it is undecodable; charge memory if it had to be decompressed."""
        self._held_back = None
        try:
            opened = await self._opener.open(batch)
        except UndecodableBatch as error:
            self._broken = error.located_at(self._place)
            return iter(())
        if opened is not batch:
            self._charge(len(opened))
        return read_records(opened)

    def _charge(self, size: int) -> None:
        """Take memory for `size` more bytes, to be released by `_release`. Raises `MemoryBudgetExceeded`."""
        self._memory.add(size)
        self._held_bytes += size

    def _release(self, kept_bytes: int) -> None:
        """Release the charged memory except `kept_bytes`."""
        self._memory.release_part(self._held_bytes - kept_bytes)
        self._held_bytes = kept_bytes

    async def lines(self, batch: Buffer, offset: int, end: int | None) -> AsyncGenerator[Encoded]:
        """Yield the records of one batch as lines, in slices as those of `slices`."""
        async with aclosing(self.slices(batch, offset, end)) as slices:
            async for slice_ in slices:
                lines = join_objects(slice_, b"\n")
                lines += b"\n"
                yield lines

    async def slices(self, batch: Buffer, offset: int, end: int | None) -> AsyncGenerator[list[Encoded]]:
        """Yield the records of one batch from `offset` on and below `end`, in slices of about `_SLICE_BYTES`.

        A record becomes a JSON object; a large object is alone in its slice. Raises `UndecodableBatch` after the
        records that can be decoded, unless these reach `end`, and `MemoryBudgetExceeded` if there is no memory for
        the decompressed batch. Close the generator to release the memory."""
        try:
            records = await self._open(batch)
            if end is not None:
                records = takewhile(lambda record: record.offset < end, records)
            held = self._held_bytes
            while slice_ := await run_in_slices(self._slice(records, offset, _SLICE_BYTES)):
                yield slice_
                self._release(held)
                if self._broken:
                    break
        finally:
            self._release(0)
        if self._broken and (end is None or self._broken.offset < end):
            raise self._broken

    def _slice(self, records: Iterator[Record], offset: int, room: int) -> Generator[None, None, list[Encoded]]:
        """Return the next records encoded, about `room` bytes or one large record; empty at the end of the batch."""
        parts: list[Encoded] = []
        last: Record | None = None
        pause = room - _SLICE_BYTES
        passed_over = 0
        if self._held_back is not None:
            records, self._held_back = chain((self._held_back,), records), None
        try:
            for record in records:
                if record.offset < offset:
                    passed_over += 1
                    if passed_over % _RECORDS_PER_SLICE == 0:
                        yield
                    continue
                key, value = record.key, record.value
                if (value and len(value) > _PARSED_BYTES_MAX) or (key and len(key) > _PARSED_BYTES_MAX):
                    if parts:
                        self._held_back = record
                        break
                    yield
                    parts.append((yield from self._encode_large(record)))
                    last = record
                    break
                part = self._encode_json(record) if self._is_json else self._encode_binary(record)
                last = record
                parts.append(part)
                room -= len(part)
                if room < pause:
                    pause = room - _SLICE_BYTES
                    yield
                if room <= 0 or len(parts) >= _RECORDS_PER_SLICE:
                    break
        except UndecodableBatch as error:
            self._broken = error.located_at(self._place)
        if last is not None:
            self.next_offset = last.offset + 1
        return parts

    def _encode_large(self, record: Record) -> Generator[None, None, bytearray]:
        """Encode a large record in steps; raises `MemoryBudgetExceeded` when it grows beyond the free memory."""
        out = bytearray(self._begin)
        key_encoding = yield from self._append_value(out, record.key)
        out += b',"value":'
        value_encoding = yield from self._append_value(out, record.value)
        headers = record.headers
        out += self._suffix % (record.offset, record.timestamp, _headers(headers) if headers else b"[]")
        out += _encoding_member(key_encoding, value_encoding) + b"}"
        return out

    def _append_value(self, out: bytearray, raw: bytes | None) -> Generator[None, None, str | None]:
        """Append a key or value to `out`, and return the name of its encoding, None for JSON."""
        if raw is None:
            out += _NULL
            return None
        charged = len(out)
        steps = append_json(out, raw) if self._is_json else append_base64(out, raw)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                encoding: str | None = end.value
                return encoding
            if len(out) >= charged + _CHARGED_BYTES:
                self._charge(len(out) - charged)
                charged = len(out)
            yield

    def _encode_json(self, record: Record) -> bytes:
        """Return a record as a JSON object; a key or value that is not JSON becomes a string."""
        key, value, headers = record.key, record.value, record.headers
        value_encoding = key_encoding = None
        if value is None:
            value = _NULL
        else:
            try:
                orjson.loads(value)
            except ValueError:
                value, value_encoding = _as_string(value)
        if key is None:
            key = _NULL
        else:
            try:
                orjson.loads(key)
            except ValueError:
                key, key_encoding = _as_string(key)
        head = self._template % (key, value, record.offset, record.timestamp, _headers(headers) if headers else b"[]")
        if value_encoding is None and key_encoding is None:
            return head
        return head[:-1] + _encoding_member(key_encoding, value_encoding) + b"}"

    def _encode_binary(self, record: Record) -> bytes:
        """Return the JSON of a record with key and value in base64."""
        headers = record.headers
        return self._template % (
            _base64(record.key),
            _base64(record.value),
            record.offset,
            record.timestamp,
            _headers(headers) if headers else b"[]",
        )


def join_objects(objects: Sequence[Encoded], separator: bytes) -> Encoded:
    """Join encoded objects with `separator`; a single object is returned as it is, without a copy."""
    return objects[0] if len(objects) == 1 else separator.join(objects)


def _encoding_member(key: str | None, value: str | None) -> bytes:
    """Return the JSON member `encoding` for a key and value that became strings; empty if both are JSON."""
    named = {name: kind for name, kind in (("key", key), ("value", value)) if kind}
    return b',"encoding":' + orjson.dumps(named) if named else b""


def _as_string(raw: bytes) -> tuple[bytes, str]:
    """Return bytes that are not JSON as a JSON string, with the name of its encoding."""
    try:
        return orjson.dumps(raw.decode()), "text"
    except UnicodeDecodeError:
        return _base64(raw), "base64"


def _base64(raw: bytes | None) -> bytes:
    """Return bytes as a JSON string in base64; null for None."""
    return _NULL if raw is None else b'"' + binascii.b2a_base64(raw, newline=False) + b'"'


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Return record headers as a JSON list, with values in base64."""
    return orjson.dumps(
        [
            {"name": name, "value": None if value is None else binascii.b2a_base64(value, newline=False).decode()}
            for name, value in headers
        ]
    )
