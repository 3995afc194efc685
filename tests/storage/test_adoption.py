"""Adoption of a replica's segment: wrong values in its files are detected on every path."""

from raftlog.raft.entry import TERM_MAX
from raftlog.records import HEADER_SIZE
from raftlog.storage.adoption import Adoption, AdoptionResult, Damage
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import open_segment_files
from raftlog.types import Index, Term
from tests.storage.test_replica_log import PATH, Replica

EPOCH_AT = 15
"""The lowest byte of a batch's leader epoch, which no CRC covers."""
ENTRIES = 6


class StoppedSegment:
    """Closed and synced segment of `ENTRIES` entries of terms 2 and 3, and its adoption by a restart."""

    def __init__(self) -> None:
        r = Replica()
        r.roll(2)
        r.append(2, count=3)
        r.append(3, count=2)
        r.write(publish=True)
        self.rows = [r.log.row_at(Index(index)) for index in range(1, ENTRIES + 1)]
        self.disk = r.disk
        self.files = r.log.active.files
        self.damage: list[Damage] = []

    def adopt(self, term_max: int = TERM_MAX) -> AdoptionResult:
        """Adopt the files of the segment up to its last entry."""
        segment = Segment(0, 1, open_segment_files(self.disk, PATH, 0))
        adopted = Adoption(
            segment,
            Index(ENTRIES),
            end_row=None,
            following=lambda: None,
            term_min=Term(0),
            term_max=Term(term_max),
            damage=self.damage,
        ).run()
        self.next_index = segment.next_index
        return adopted


def test_an_intact_segment_is_adopted_with_and_without_its_rows() -> None:
    s = StoppedSegment()
    assert s.adopt() == AdoptionResult()
    assert s.next_index == ENTRIES + 1
    s.files.index.truncate(0)
    assert s.adopt() == AdoptionResult(is_rebuilt=True)
    assert (s.next_index, s.damage) == (ENTRIES + 1, [])


def test_an_impossible_term_ends_the_log() -> None:
    s = StoppedSegment()
    s.files.index.truncate(0)
    s.disk.flip_bit(s.files.log.path, s.rows[3].position + EPOCH_AT, 6)
    adopted = s.adopt(term_max=3)
    assert "term" in str(adopted.broken)
    assert s.next_index == 4


def test_a_file_that_ends_inside_its_last_batch_is_not_adopted_by_its_rows() -> None:
    s = StoppedSegment()
    s.files.log.truncate(s.rows[-1].position + HEADER_SIZE)
    adopted = s.adopt()
    assert adopted.broken is not None or adopted.pending is not None or s.damage


def test_a_row_reveals_a_damaged_term_in_a_header() -> None:
    s = StoppedSegment()
    s.files.index.truncate((ENTRIES - 1) * ROW_SIZE)
    s.disk.flip_bit(s.files.log.path, s.rows[2].position + EPOCH_AT, 0)  # 2 becomes 3, as later entries have it
    s.adopt(term_max=3)
    assert [each.index for each in s.damage] == [3]


def test_a_flipped_bit_of_a_record_without_an_index_row_is_detected() -> None:
    """The header has only valid fields, so that only the CRC reveals the damage."""
    s = StoppedSegment()
    s.files.index.truncate(0)
    s.disk.flip_bit(s.files.log.path, s.rows[3].position + HEADER_SIZE, 0)
    adopted = s.adopt()
    assert "no sound batch" in str(adopted.broken)
    assert s.next_index == 4
