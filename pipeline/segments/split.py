"""What one task reads of a log's files: ranges of whole batches, and the offsets that are wanted of them.

Small, picklable, and complete: a worker needs nothing else but the files. Made by `plan`, read by `reading`; for Spark
it is the value of an `InputPartition`.
"""

from dataclasses import dataclass
from uuid import UUID

from raftlog.pipeline.segments.pieces import SegmentPiece
from raftlog.pipeline.segments.replicas import DataDirectory


@dataclass(frozen=True)
class SegmentSplit:
    """Records with `start ≤ offset < end` of the batches in `pieces`, whose files lie in the directory `path`.

    The splits of a partition are in order of offset, and each starts where the one before ends. `owner` is the data
    directory whose journal holds what is journaled of the pieces. With `skips_damage` batches that fail their checks
    are reported and left out; otherwise the first one ends the reading. `skips_undecodable` does the same for
    batches whose checksums are right and whose records cannot be decoded.
    """

    topic: str
    partition: int
    group_id: UUID
    path: str
    pieces: tuple[SegmentPiece, ...]
    start: int
    end: int
    owner: DataDirectory | None = None
    skips_damage: bool = False
    skips_undecodable: bool = False

    @property
    def size(self) -> int:
        """Bytes of the batches."""
        return sum(piece.size for piece in self.pieces)
