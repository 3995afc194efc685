"""The same batch with fewer of its records, for compaction: what is kept is kept byte for byte.

Base offset, last offset delta, term, times, codec and the producer's fields stay, so every record keeps its offset and
timestamp, and the batch its place in the log; only record count, length and CRC are new, as Kafka's cleaner does it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

from raftlog.errors import InvalidBatch
from raftlog.records.compression import Compression, decompress
from raftlog.records.header import HEADER_SIZE, LENGTH_END, batch_crc, header_bytes, read_header
from raftlog.records.read import OPENED_BYTES_MAX
from raftlog.types import Buffer

_ENCODE: Final[dict[int, Callable[[bytes], bytes]]] = {
    Compression.GZIP: gzip_encode,
    Compression.SNAPPY: snappy_encode,
    Compression.LZ4: lz4_encode,
    Compression.ZSTD: zstd_encode,
}


class Retaining:
    """A batch that keeps those records for which `keeps`, one flag for each, is true; at least one is.

    In slices: `advance` until nothing is left, then `batch`. The caller has checked the CRC and read the records.
    """

    def __init__(self, batch: Buffer, keeps: Sequence[bool]) -> None:
        """Raises `InvalidBatch` where it cannot be opened."""
        self._header = header = read_header(batch)
        stored = memoryview(batch)[HEADER_SIZE:]
        opened = decompress(header.compression, stored, OPENED_BYTES_MAX) if header.compression else stored
        self._opened = memoryview(opened)
        self._keeps = keeps
        self._done = self._position = 0
        self._kept: list[memoryview] = []

    def advance(self, count: int) -> bool:
        """Go through so many records more; whether some are left. Raises `InvalidBatch`."""
        opened, position, kept = self._opened, self._position, self._kept
        some = self._keeps[self._done : self._done + count]
        try:
            for is_kept in some:
                low = opened[position]
                if low < 0x80:  # its length in front, as a zigzag varint
                    end = position + 1 + (low >> 1)
                elif (high := opened[position + 1]) < 0x80:
                    end = position + 2 + (((low & 0x7F) | high << 7) >> 1)
                else:
                    end = _end_of_record(opened, position)
                if is_kept:
                    kept.append(opened[position:end])
                position = end
        except IndexError:
            raise InvalidBatch("a record ends behind its batch") from None
        self._position = position
        self._done += len(some)
        return self._done < len(self._keeps)

    def batch(self) -> bytes:
        """What is kept, as a batch."""
        header, kept = self._header, self._kept
        assert kept, "a batch without records is a gap"
        body = b"".join(kept)
        if header.compression:
            body = bytes(_ENCODE[header.compression](body))
        length = HEADER_SIZE + len(body) - LENGTH_END
        fresh = header._replace(batch_length=length, record_count=len(kept))
        unsealed = header_bytes(fresh) + body
        return header_bytes(fresh._replace(crc=batch_crc(unsealed))) + body


def _end_of_record(records: memoryview, position: int) -> int:
    """Where a record ends whose length takes more than two bytes. Raises `IndexError`."""
    length = shift = 0
    while True:
        byte = records[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return position + (length >> 1)
        shift += 7
