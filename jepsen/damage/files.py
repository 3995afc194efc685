"""Files of a broker's data directory by kind, and their bytes that hold data.

docs/FORMATS.md, section 3, has the layout. Zeros after the end of a file, and journal blocks that recovery no longer
needs, are never damaged, because that would have no effect.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final, Literal, NamedTuple, get_args

from raftlog.runtime.journal.blocks import BLOCK_HEADER, BLOCK_HEADER_SIZE, BLOCK_MAGIC, BLOCK_SIZE, BlockHeader

FileKind = Literal[
    "segment", "index", "timeindex", "journal", "controller", "meta", "peers", "checkpoint", "identity", "bootstrap"
]
"""Kinds of files of a broker.

`controller`: segments and indexes of the controller. `meta`: of the node and of its replicas. Only a log outside of any
Raft group has a `checkpoint`."""
KINDS: Final[tuple[FileKind, ...]] = get_args(FileKind)
SURVIVABLE: Final[tuple[FileKind, ...]] = tuple(kind for kind in KINDS if kind != "identity")
"""Kinds damaged when none is named. With `identity` damaged a broker needs an operator."""
INTERNAL: Final = ".raftlog"
_BY_SUFFIX: Final[dict[str, FileKind]] = {".log": "segment", ".index": "index", ".timeindex": "timeindex"}
_BY_NAME: Final[dict[str, FileKind]] = {
    "meta": "meta",
    "peers": "peers",
    "identity": "identity",
    "bootstrap": "bootstrap",
    "checkpoint": "checkpoint",
}
_CHUNK_BYTES: Final = 1 << 16


class Part(NamedTuple):
    """Range of a file's bytes that hold data; `end` is exclusive."""

    start: int
    end: int


class DamageableFile(NamedTuple):
    """File that can be damaged. `name` is its path below the data directory; `parts` is not empty."""

    path: Path
    name: str
    kind: FileKind
    parts: tuple[Part, ...]


def find_files(data_dir: Path, only: Sequence[str] = ()) -> list[DamageableFile]:
    """Return all nonempty files of these kinds, by name. Raises `ValueError` for an unknown kind."""
    wanted = set(only or SURVIVABLE)
    if unknown := wanted - set(KINDS):
        raise ValueError(f"no kind of file: {', '.join(sorted(unknown))}")
    names = {path: path.relative_to(data_dir) for path in sorted(data_dir.rglob("*")) if path.is_file()}
    kinds = {path: kind for path, name in names.items() if (kind := kind_of(name)) in wanted and kind is not None}
    blocks = _find_needed_blocks([path for path, kind in kinds.items() if kind == "journal"])
    files = [
        DamageableFile(path, str(names[path]), kind, blocks[path] if kind == "journal" else tuple(_find_data(path)))
        for path, kind in kinds.items()
    ]
    return [file for file in files if file.parts]


def kind_of(name: PurePath) -> FileKind | None:
    """Return the kind of a file, named relative to the data directory; None for a file that the broker never reads."""
    parts = name.parts
    if parts[0] == INTERNAL:
        if len(parts) == 2:
            return _BY_NAME.get(name.name)
        if parts[1] == "journal":
            return "journal" if name.suffix == ".journal" else None
        if parts[1] != "controller":
            return None
        parts = parts[2:]
        return (
            _kind_in_log(parts) if parts[0] == INTERNAL else ("controller" if _kind_in_log(parts) is not None else None)
        )
    return _kind_in_log(parts[2:]) if len(parts) > 2 else None


def _kind_in_log(parts: tuple[str, ...]) -> FileKind | None:
    """Return the kind of a file in the directory of a log, by its path there; None if it is unknown."""
    if len(parts) == 1:
        return _BY_SUFFIX.get(PurePath(parts[0]).suffix)
    return _BY_NAME.get(parts[1]) if parts[0] == INTERNAL and len(parts) == 2 else None


def _find_data(path: Path) -> Iterator[Part]:
    """Yield the part before the zeros at the file's end."""
    with open(path, "rb", buffering=0) as opened:
        end = opened.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _CHUNK_BYTES)
            rest = os.pread(opened.fileno(), end - start, start).rstrip(b"\0")
            end = start + len(rest)
            if rest:
                yield Part(0, end)
                return


def _find_needed_blocks(files: Sequence[Path]) -> dict[Path, tuple[Part, ...]]:
    """Return the journal blocks that recovery needs: those from the checkpoint named in the newest block on."""
    headers = [(path, at, header) for path in files for at, header in _read_block_headers(path)]
    begin = max((header.start for _, _, header in headers), default=0)
    parts: dict[Path, tuple[Part, ...]] = dict.fromkeys(files, ())
    for path, at, header in headers:
        if header.sequence >= begin:
            parts[path] += (Part(at, at + BLOCK_HEADER_SIZE + header.length),)
    return parts


def _read_block_headers(path: Path) -> Iterator[tuple[int, BlockHeader]]:
    """Yield the position and header of each journal block in a file; blocks without the magic number are skipped."""
    with open(path, "rb") as opened:
        for at in range(0, os.fstat(opened.fileno()).st_size - BLOCK_HEADER_SIZE + 1, BLOCK_SIZE):
            opened.seek(at)
            header = BlockHeader(*BLOCK_HEADER.unpack(opened.read(BLOCK_HEADER_SIZE)))
            if header.magic == BLOCK_MAGIC:
                yield at, header
