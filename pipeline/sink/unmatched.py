"""Multiset of the digests, 16 bytes each, of stored records that no row has matched yet.

A repeated attempt usually gets its rows in the order in which they were stored. So digests are kept in this order and
compared one by one. Only after a row in another order are they put into a table, which is ten times as large. Pure."""

from collections import Counter

from raftlog.pipeline.sink.rows import DIGEST_SIZE


class UnmatchedRecords:
    """Digests of stored records for which the task has sent no row yet; repetitions count.

    `put` adds digests of stored records, `take` removes those of rows."""

    __slots__ = ("_at", "_in_order", "_table")

    def __init__(self) -> None:
        self._in_order = bytearray()
        self._at = 0
        """Position of the first digest in `_in_order` that was not removed yet."""
        self._table: Counter[bytes] = Counter()
        """All digests with their numbers, or empty while `_in_order` has them."""

    def __len__(self) -> int:
        return (len(self._in_order) - self._at) // DIGEST_SIZE + self._table.total()

    def __bool__(self) -> bool:
        return self._at < len(self._in_order) or bool(self._table)

    def __contains__(self, digest: bytes) -> bool:
        self._fill_table()
        return digest in self._table

    def put(self, digests: bytes) -> None:
        """Add digests in log order."""
        assert len(digests) % DIGEST_SIZE == 0, f"{len(digests)} bytes of digests"
        self._in_order += digests
        if self._table:
            self._fill_table()

    def take(self, digest: bytes) -> bool:
        """Remove one occurrence of a digest; return whether there was one."""
        if not self._table:
            end = self._at + DIGEST_SIZE
            if self._in_order[self._at : end] == digest:
                self._at = end
                return True
            self._fill_table()
        count = self._table.get(digest, 0)
        if count > 1:
            self._table[digest] = count - 1
        elif count:
            del self._table[digest]
        return count > 0

    def _fill_table(self) -> None:
        """Move all digests to the table, which finds them in any order."""
        digests = bytes(self._in_order)
        self._in_order, start, self._at = bytearray(), self._at, 0
        self._table.update(digests[at : at + DIGEST_SIZE] for at in range(start, len(digests), DIGEST_SIZE))
