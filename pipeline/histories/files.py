"""A history's files, cut into pieces that tasks read side by side, and where each piece stands in the history.

A file is cut at any byte; a piece owns the lines that begin inside it. What is compressed is one piece. An entry's
sequence is the number of entries before it in all files, so a history of several pieces is counted first
(`count`, one small answer per piece) and the pieces are told where they begin (`numbered`).

Called by `judging` on the driver (`find`, `cut`, `packed`, `numbered`) and in tasks (`count`, `lines_of`, through
`parts` and `proofs`). Memory: one line, of at most `LINE_BYTES_MAX`.
"""

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import orjson
from pyarrow import fs

from raftlog.errors import InvalidArgument

PIECE_BYTES: Final = 32 << 20
LINE_BYTES_MAX: Final = 64 << 20
SUFFIXES: Final = (".jsonl", ".jsonl.gz")
"""Of the files of a directory that are its history."""


class File(NamedTuple):
    """A file of a run (a history among others; they are numbered)."""

    run: int
    path: str
    size: int

    @property
    def is_compressed(self) -> bool:
        return self.path.endswith(".gz")


class Piece(NamedTuple):
    """The lines of a file that begin at bytes `start ≤ position < end`, and what stands before them.

    `lines` are counted in the file, `sequence` in the history; `time` is that of the last entry before the piece.
    """

    run: int
    path: str
    start: int
    end: int
    lines: int = 0
    sequence: int = 0
    time: int = 0

    @property
    def is_compressed(self) -> bool:
        return self.path.endswith(".gz")


class Count(NamedTuple):
    """What a piece holds; `time` is its last entry's, or `None` where that is no entry."""

    lines: int
    entries: int
    time: int | None


def find(run: int, path: str) -> list[File]:
    """The history at a path: one file, or those of a directory that end as `SUFFIXES` say, in the order of their names.

    A path may be a URI of a file system that pyarrow knows. Raises `InvalidArgument` when there is none.
    """
    system, inside = _system(path)
    info = system.get_file_info(inside)
    if info.type == fs.FileType.File:
        return [File(run, path, info.size)]
    if info.type != fs.FileType.Directory:
        raise InvalidArgument(f"{path}: no such file or directory; a history is a file of JSON lines, or several")
    infos = system.get_file_info(fs.FileSelector(inside))
    found = sorted((each.base_name, each.size) for each in infos if each.type == fs.FileType.File)
    files = [File(run, f"{path.rstrip('/')}/{name}", size) for name, size in found if name.endswith(SUFFIXES)]
    if not files:
        raise InvalidArgument(f"{path}: no file there ends with {' or '.join(SUFFIXES)}, so it holds no history")
    return files


def cut(files: Iterable[File], piece_bytes: int = PIECE_BYTES) -> list[Piece]:
    """In the order of the history."""
    pieces = []
    for file in files:
        step = max(file.size, 1) if file.is_compressed else piece_bytes
        borders = range(0, max(file.size, 1), step)
        pieces += [Piece(file.run, file.path, start, min(start + step, file.size)) for start in borders]
    return pieces


def packed(pieces: Sequence[Piece], task_bytes: int = PIECE_BYTES) -> list[tuple[Piece, ...]]:
    """Neighbours put together, so that many small files are few tasks."""
    tasks: list[tuple[Piece, ...]] = []
    bundle: list[Piece] = []
    size = 0
    for piece in pieces:
        if bundle and size + piece.end - piece.start > task_bytes:
            tasks.append(tuple(bundle))
            bundle, size = [], 0
        bundle.append(piece)
        size += piece.end - piece.start
    return [*tasks, tuple(bundle)] if bundle else tasks


def needs_counting(pieces: Sequence[Piece]) -> bool:
    """Whether a run has several pieces: where one is all, nothing stands before it."""
    return len({piece.run for piece in pieces}) < len(pieces)


def count(pieces: Iterable[Piece]) -> Iterator[Count]:
    """One for each piece."""
    for piece in pieces:
        lines = entries = 0
        last = b""
        for line in lines_of(piece):
            lines += 1
            if line.strip():
                entries += 1
                last = line
        yield Count(lines, entries, _time_of(last))


def numbered(pieces: Sequence[Piece], counts: Sequence[Count]) -> list[Piece]:
    """The pieces with what stands before each of them."""
    told: list[Piece] = []
    lines = sequence = time = 0
    before: Piece | None = None
    for piece, counted in zip(pieces, counts, strict=True):
        if before is None or before.run != piece.run:
            lines = sequence = time = 0
        elif before.path != piece.path:
            lines = 0
        told.append(piece._replace(lines=lines, sequence=sequence, time=time))
        lines, sequence = lines + counted.lines, sequence + counted.entries
        time = time if counted.time is None else counted.time
        before = piece
    return told


def lines_of(piece: Piece) -> Iterator[bytes]:
    """The lines that the piece owns, empty ones too.

    Raises `InvalidArgument` for a line above `LINE_BYTES_MAX`, and for what is not compressed as its name says.
    """
    system, inside = _system(piece.path)
    with system.open_input_file(inside) as raw:
        if piece.is_compressed:
            yield from _unpacked(piece, raw)
            return
        with io.BufferedReader(raw, 1 << 20) as stream:
            position = piece.start
            if position > 0:
                stream.seek(position - 1)
                position += len(_line(piece, stream)) - 1  # the rest of a line that belongs to the piece before
            while position < piece.end and (line := _line(piece, stream)):
                position += len(line)
                yield line


def _unpacked(piece: Piece, raw: io.RawIOBase) -> Iterator[bytes]:
    try:
        with gzip.open(raw) as stream:
            while line := _line(piece, stream):
                yield line
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InvalidArgument(f"{piece.path} cannot be unpacked: {error}") from None


def _line(piece: Piece, stream: io.BufferedIOBase | gzip.GzipFile) -> bytes:
    line = stream.readline(LINE_BYTES_MAX + 1)
    if len(line) > LINE_BYTES_MAX:
        raise InvalidArgument(f"{piece.path} has a line of more than {LINE_BYTES_MAX} bytes; no entry is that long")
    return line


def _time_of(line: bytes) -> int | None:
    try:
        time = orjson.loads(line)["time"]
    except (ValueError, KeyError, TypeError):
        return None  # whoever reads the piece says what is wrong
    return time if isinstance(time, int) else None


def _system(path: str) -> tuple[fs.FileSystem, str]:
    if "://" in path:
        system, inside = fs.FileSystem.from_uri(path)
        return system, inside
    return fs.LocalFileSystem(), path
