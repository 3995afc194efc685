"""Checker of dense offsets: no offset is missing between the first and the last known one of a partition.

A value of unknown outcome may be stored at an unseen offset. So as many offsets may be missing as there are unseen
values of unknown outcome; one more is a `gap`. Offsets below the highest log start do not count. Logs with transactions
and compacted partitions are not checked. In a topic that may be deleted only polled records count. The checker receives
no operations; it reads the record book at the end."""

from itertools import islice

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import INFO, INVOKE
from jepsen.checkers.records import PartitionBook, RecordBook
from raftlog.types import Offset

SHOWN_MAX = 5
"""Number of missing offsets that a report names."""


class Density(Checker):
    """Checker that no offset is missing between the first and the last known one of a partition."""

    def __init__(self, book: RecordBook, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._book = book

    def finish(self) -> None:
        """Check each partition with records that is not compacted."""
        for book in self._book.partitions.values():
            if book.values and not book.is_compacted:
                self._finish_partition(book)

    def _finish_partition(self, book: PartitionBook) -> None:
        """Report a `gap` if more offsets have no record than sends of unknown outcome can explain.

        The offsets between the first and the end of the partition are counted."""
        first = max(book.start, min(book.values))
        end = book.polled_end if book.may_be_deleted else max(book.end, max(book.values) + 1)
        missing = end - first - sum(first <= offset < end for offset in book.values)
        if missing <= 0:
            return
        unknown = sum(op.type in (INVOKE, INFO) and value not in book.offsets for value, op in book.sent.items())
        if missing > unknown:
            holes = (offset for offset in range(first, end) if offset not in book.values)
            shown = list(islice(holes, SHOWN_MAX))
            text = f"{book.name}: {missing} offsets between {first} and {end} (exclusive) have no record"
            text += f" ({', '.join(map(str, shown))}{', …' if missing > len(shown) else ''})"
            text += f"; only {unknown} values of unknown outcome could be there"
            around = (book.witnesses.get(Offset(shown[0] - 1)), book.witnesses[max(book.values)])
            self.findings.report("gap", text, around)
