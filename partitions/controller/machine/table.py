"""Table of rows with a digest of all rows, which is updated row by row.

The digest is the sum, modulo 2¹²⁸, of a hash of every row under the table's name. So it depends on the rows alone
and not on their history, and a change costs one row. It detects replicas that differ by mistake; it is no protection
against rows that are constructed to collide."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from raftlog.partitions.controller.machine.schema import SchemaRecord, pack

K = TypeVar("K")
R = TypeVar("R", bound=SchemaRecord)
DIGEST_BYTES = 16
_MODULUS = 1 << (8 * DIGEST_BYTES)


class Table(Generic[K, R]):
    """Rows by key, iterated in the order of insertion.

    That order is not part of the state: sort wherever it matters.
    """

    __slots__ = ("_changed", "_digests", "_key_of", "_rows", "_sum", "name", "order", "row_type")

    def __init__(
        self, name: str, row_type: type[R], key_of: Callable[[R], K], order: Callable[[R], Any] | None = None
    ) -> None:
        """Make an empty table. `order`: sort key of the rows in a snapshot; None: their keys."""
        self.name, self.row_type = name, row_type
        self._key_of, self.order = key_of, order or key_of
        self._rows: dict[K, R] = {}
        self._digests: dict[K, int] = {}
        self._sum = 0
        self._changed: set[K] | None = None
        """Keys of the rows changed since the last `take_changed`; None before its first call."""

    def take_changed(self) -> set[K] | None:
        """Return the keys of the rows that changed since the last call; None at the first call.

        For a single caller, which keeps an index of the table."""
        changed, self._changed = self._changed, set()
        return changed

    def put(self, row: R) -> None:
        """Insert the row, or replace the one with the same key."""
        key, digest = self._key_of(row), self._digest(row)
        self._sum = (self._sum - self._digests.get(key, 0) + digest) % _MODULUS
        self._rows[key] = row
        self._digests[key] = digest
        if self._changed is not None:
            self._changed.add(key)

    def remove(self, key: K) -> R:
        """Remove the row of this key, and return it. Raises `KeyError`."""
        self._sum = (self._sum - self._digests.pop(key)) % _MODULUS
        if self._changed is not None:
            self._changed.add(key)
        return self._rows.pop(key)

    def get(self, key: K) -> R | None:
        """Return the row with this key; None if there is none."""
        return self._rows.get(key)

    def __getitem__(self, key: K) -> R:
        return self._rows[key]

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def first(self) -> R:
        """Return the row that was inserted first."""
        return next(iter(self._rows.values()))

    @property
    def digest(self) -> bytes:
        """Digest of all rows."""
        return self._sum.to_bytes(DIGEST_BYTES)

    def _digest(self, row: R) -> int:
        """Return the hash of a row under the table's name, as a number."""
        packed: Any = pack(row.pack())
        return int.from_bytes(blake2b(packed, digest_size=DIGEST_BYTES, person=self.name.encode()[:16]).digest())
