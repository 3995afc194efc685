"""Stored records as JSON: `[{"topic","key","value","partition","offset","timestamp","headers"}]`.

In the JSON format a stored key or value that is JSON text goes out as that text, digit for digit. One that is not goes
out as a string, and `"encoding": {"value": "text"}` says that the string is the text itself, `"base64"` that it is
base64 of bytes that are no UTF-8; without an entry there it is JSON. In the binary format everything is base64.
"""

import binascii
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing

import orjson

from raftlog.api.http.answer_memory import AnswerMemory
from raftlog.api.http.media import Format
from raftlog.errors import MemoryBudgetExceeded, UndecodableBatch
from raftlog.records import Record, read_header, read_records
from raftlog.records.json_slices import check_json
from raftlog.runtime.slices import in_slices
from raftlog.types import Buffer, TopicPartition

_RECORDS_PER_SLICE = 1_000
"""After so many records others run."""
_SLICE_BYTES = 64 * 1024
_CHARGED_BYTES = 256 * 1024
"""Memory for encoded records is taken in steps of about so many bytes."""
_PARSED_BYTES_MAX = 64 * 1024
"""Whether longer keys and values are JSON is found out in slices."""
_NULL = b"null"


class JsonRecords:
    """Encodes fetches of one partition. Opened batches, and answers that `encode` returns, are charged to `memory`."""

    def __init__(
        self, topic: str, partition: int, format_: Format, opened_bytes_max: int, memory: AnswerMemory
    ) -> None:
        self._memory = memory
        self._opened_bytes = 0
        """Charged for the batch that is being read."""
        name = orjson.dumps(topic).replace(b"%", b"%%")
        self._template = (
            b'{"topic":'
            + name
            + b',"key":%b,"value":%b,"partition":'
            + str(partition).encode()
            + b',"offset":%d,"timestamp":%d,"headers":%b}'
        )
        self._is_json = format_ is Format.JSON
        self._opened_bytes_max = opened_bytes_max
        self._place = TopicPartition(topic, partition)
        self._broken: UndecodableBatch | None = None
        """Why the records after those encoded so far cannot be read."""
        self.next_offset = 0
        """Behind all that was encoded, or had no records any more."""

    async def encode(self, batches: Sequence[Buffer], offset: int, max_bytes: int) -> list[bytes]:
        """The records from `offset` on, an object each with commas between them, in parts of a JSON array; fewer when
        memory is short.

        Raises `UndecodableBatch` when the first cannot be decoded, and `MemoryBudgetExceeded` when not even the first
        slice fits.
        """
        parts: list[bytes] = []
        size = 0
        self.next_offset = offset
        for batch in batches:
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

    async def _encode_batch(self, batch: Buffer, offset: int, room: int, parts: list[bytes]) -> int:
        """Append to `parts` until there is no room. Returns the bytes."""
        size = 0
        records = read_records(batch, self._opened_bytes_max, self._note_opened)
        try:
            while size < room and not self._broken:
                before = self.next_offset
                slice_ = await in_slices(self._slice(records, offset, min(room - size, _CHARGED_BYTES)))
                if not slice_:
                    break
                part = b",".join(slice_)
                try:
                    self._memory.add(len(part))
                except MemoryBudgetExceeded:
                    self.next_offset = before
                    raise
                parts.append(part)
                size += len(part)
        finally:
            self._close()
        return size

    def _note_opened(self, size: int) -> None:
        self._memory.add(size)
        self._opened_bytes = size

    def _close(self) -> None:
        self._memory.remove(self._opened_bytes)
        self._opened_bytes = 0

    async def lines(self, batch: Buffer, offset: int, end: int | None) -> AsyncGenerator[bytes]:
        """The records of one batch as `slices` has them, a line each."""
        async with aclosing(self.slices(batch, offset, end)) as slices:
            async for slice_ in slices:
                yield b"\n".join(slice_) + b"\n"

    async def slices(self, batch: Buffer, offset: int, end: int | None) -> AsyncGenerator[list[bytes]]:
        """The records of one batch from `offset` on and below `end`, an object each, in slices of about `_SLICE_BYTES`.

        Raises `UndecodableBatch` behind those that can be decoded, unless that is at `end` or later, and
        `MemoryBudgetExceeded` when there is no memory for the opened batch. Close it, which gives that back.
        """
        records = read_records(batch, self._opened_bytes_max, self._note_opened)
        if end is not None:
            records = (record for record in records if record.offset < end)
        try:
            while slice_ := await in_slices(self._slice(records, offset, _SLICE_BYTES)):
                yield slice_
                if self._broken:
                    break
        finally:
            self._close()
        if self._broken and (end is None or self._broken.offset < end):
            raise self._broken

    def _slice(self, records: Iterator[Record], offset: int, room: int) -> Generator[None, None, list[bytes]]:
        """The next records, as many as a slice may have; none at the end of the batch."""
        parts: list[bytes] = []
        last: Record | None = None
        pause = room - _SLICE_BYTES
        try:
            for record in records:
                if record.offset < offset:
                    continue
                if self._is_json:
                    part = yield from self._encode_json(record)
                else:
                    part = self._encode_binary(record)
                last = record
                parts.append(part)
                room -= len(part)
                if room < pause:
                    pause = room - _SLICE_BYTES
                    yield
                if room <= 0 or len(parts) >= _RECORDS_PER_SLICE:
                    break
        except UndecodableBatch as error:
            self._broken = error.at(self._place)
        if last is not None:
            self.next_offset = last.offset + 1
        return parts

    def _encode_json(self, record: Record) -> Generator[None, None, bytes]:
        key, value, headers = record.key, record.value, record.headers
        value_encoding = key_encoding = None
        if value is None:
            value = _NULL
        else:
            try:
                if len(value) > _PARSED_BYTES_MAX:
                    yield from check_json(value)
                else:
                    orjson.loads(value)
            except ValueError:
                value, value_encoding = _as_string(value)
        if key is None:
            key = _NULL
        else:
            try:
                if len(key) > _PARSED_BYTES_MAX:
                    yield from check_json(key)
                else:
                    orjson.loads(key)
            except ValueError:
                key, key_encoding = _as_string(key)
        head = self._template % (key, value, record.offset, record.timestamp, _headers(headers) if headers else b"[]")
        if value_encoding is None and key_encoding is None:
            return head
        encodings = {name: kind for name, kind in (("key", key_encoding), ("value", value_encoding)) if kind}
        return head[:-1] + b',"encoding":' + orjson.dumps(encodings) + b"}"

    def _encode_binary(self, record: Record) -> bytes:
        headers = record.headers
        return self._template % (
            _base64(record.key),
            _base64(record.value),
            record.offset,
            record.timestamp,
            _headers(headers) if headers else b"[]",
        )


def _as_string(raw: bytes) -> tuple[bytes, str]:
    """A JSON string for bytes that are not JSON, and how it stands for them."""
    try:
        return orjson.dumps(raw.decode()), "text"
    except UnicodeDecodeError:
        return _base64(raw), "base64"


def _base64(raw: bytes | None) -> bytes:
    return _NULL if raw is None else b'"' + binascii.b2a_base64(raw, newline=False) + b'"'


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    return orjson.dumps(
        [
            {"name": name, "value": None if value is None else binascii.b2a_base64(value, newline=False).decode()}
            for name, value in headers
        ]
    )
