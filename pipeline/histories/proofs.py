"""The entries that prove an anomaly, found again by their sequence and described as reports show them.

Called by `judging` when all is judged: only pieces with such entries are read once more, and only those lines decoded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from raftlog.checkers.json_lines import read_lines
from raftlog.pipeline.histories.files import Piece, lines_of, packed

CHARACTERS_MAX: Final = 10_000
"""Of one entry's description."""


class Wanted(NamedTuple):
    """Entries of a piece, by their place in it (entries before it in the piece)."""

    piece: Piece
    places: frozenset[int]


class Proof(NamedTuple):
    """An entry in words, and where it stands (`line` counts from 1)."""

    run: int
    sequence: int
    path: str
    line: int
    text: str


def wanted_of(pieces: Sequence[Piece], sequences: Mapping[int, Iterable[int]]) -> list[tuple[Wanted, ...]]:
    """Tasks that find these sequences of each run."""
    wanted: list[Wanted] = []
    for piece, after in zip(pieces, (*pieces[1:], None), strict=True):
        end = after.sequence if after is not None and after.run == piece.run else None
        places = frozenset(
            sequence - piece.sequence
            for sequence in sequences.get(piece.run, ())
            if piece.sequence <= sequence and (end is None or sequence < end)
        )
        if places:
            wanted.append(Wanted(piece, places))
    by_piece = {each.piece: each for each in wanted}
    return [tuple(by_piece[piece] for piece in task) for task in packed([each.piece for each in wanted])]


def proofs_of(task: Iterable[Wanted]) -> Iterator[Proof]:
    for piece, places in task:
        place = found = 0
        for number, line in enumerate(lines_of(piece), piece.lines + 1):
            if not line.strip():
                continue
            if place in places:
                sequence = piece.sequence + place
                (op,) = read_lines((line,))
                text = str(op._replace(sequence=sequence))[:CHARACTERS_MAX]
                yield Proof(piece.run, sequence, piece.path, number, text)
                found += 1
            if found == len(places):
                break
            place += 1
