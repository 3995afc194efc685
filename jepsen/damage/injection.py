"""Damage to the files of a stopped broker, as caused by disks and people, with descriptions of it.

The description is read back from the disk, so that it reports the bytes that are there. It is empty when there was
nothing to damage. Bits may flip under a running broker too; the broker notices when it reads them."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from jepsen.damage.files import DamageableFile, Part, find_files

_TAIL_BYTES: Final = 4096
_TAIL_SHARE: Final = 0.5
"""Share of cuts near the file's end, as an interrupted write leaves it."""


def flip_bits(data_dir: Path, random: Random, count: int, only: Sequence[str] = ()) -> str:
    """Flip one bit in each of `count` bytes, or fewer, in files of these kinds; return a description."""
    files = find_files(data_dir, only)
    flipped: set[tuple[str, int]] = set()
    descriptions = []
    for _ in range(count if files else 0):
        file = _choose(files, random)
        part = random.choice(file.parts)
        position = random.randrange(part.start, part.end)
        if (file.name, position) not in flipped:
            flipped.add((file.name, position))
            descriptions.append(_flip(file, position, random.randrange(8)))
    return "; ".join(descriptions)


def truncate(data_dir: Path, random: Random, only: Sequence[str] = ()) -> str:
    """Cut one file before its end and return a description of it; "" without a file of these kinds."""
    files = find_files(data_dir, only)
    if not files:
        return ""
    file = _choose(files, random)
    end = max(part.end for part in file.parts)
    near = Part(max(min(part.start for part in file.parts), end - _TAIL_BYTES), end)
    part = near if random.random() < _TAIL_SHARE else random.choice(file.parts)
    position = random.randrange(part.start, part.end)
    before = file.path.stat().st_size
    os.truncate(file.path, position)
    return f"{file.name}, which held {end:,} bytes in {before:,}, is cut to {file.path.stat().st_size:,}"


def delete(data_dir: Path, random: Random, only: Sequence[str] = ()) -> str:
    """Delete one file and return a description of it; "" without a file of these kinds."""
    files = find_files(data_dir, only)
    if not files:
        return ""
    file = _choose(files, random)
    size = file.path.stat().st_size
    file.path.unlink()
    assert not file.path.exists(), f"{file.path} is still there"
    return f"{file.name}, {size:,} bytes, is deleted"


def wipe(data_dir: Path) -> str:
    """Delete everything in the directory, as after a disk replacement, and return a description of it."""
    files = [path for path in data_dir.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    for path in list(data_dir.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    assert not any(data_dir.iterdir()), f"{data_dir} is not empty"
    return f"{len(files)} files, {size:,} bytes, are deleted, and the directory is empty" if files else ""


def _choose(files: Sequence[DamageableFile], random: Random) -> DamageableFile:
    """Return a random file of a random kind; otherwise nearly all would be segments."""
    kind = random.choice(sorted({file.kind for file in files}))
    return random.choice([file for file in files if file.kind == kind])


def _flip(file: DamageableFile, position: int, bit: int) -> str:
    """Invert one bit of a file, and read it back; return a description of the change."""
    with open(file.path, "r+b", buffering=0) as opened:
        before = os.pread(opened.fileno(), 1, position)[0]
        os.pwrite(opened.fileno(), bytes([before ^ (1 << bit)]), position)
    with open(file.path, "rb", buffering=0) as opened:
        after = os.pread(opened.fileno(), 1, position)[0]
    assert after == before ^ (1 << bit), f"{file.path} at {position}: {before:#04x} became {after:#04x}"
    return f"{file.name} at {position:,}: {before:#04x} is {after:#04x}"
