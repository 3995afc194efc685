"""Copy of a broker's directory, or of one replica, which is restored later, as an old disk would be.

It is taken and restored while the broker is down.
"""

import filecmp
import shutil
import time
from pathlib import Path


class Snapshot:
    """Copy of `data_dir`, or of the directory `part` below it ("orders/0").

    The copy is kept in `state_dir`, which is outside of it, until it is restored."""

    def __init__(self, data_dir: Path, state_dir: Path, part: str = "") -> None:
        self._original = data_dir / part
        self._copy = state_dir / "copy"
        self._part = part
        self._taken_at = 0.0

    def take(self) -> str:
        """Copy the directory in place of an older copy, and return a description of the copy."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._original, self._copy)
        self._taken_at = time.monotonic()
        files = _files(self._copy)
        return f"{len(files)} files, {sum(path.stat().st_size for path in files.values()):,} bytes, are copied"

    def restore(self) -> str:
        """Restore the copy and return a description of the differences to the state before; empty without any."""
        age_s = time.monotonic() - self._taken_at
        new, old = _files(self._original), _files(self._copy)
        others = [name for name in {*new, *old} if not _same(new.get(name), old.get(name))]
        missing = [name for name in others if name not in old]
        shutil.rmtree(self._original, ignore_errors=True)
        shutil.copytree(self._copy, self._original)
        put_back = _files(self._original)
        assert all(_same(put_back.get(name), path) for name, path in old.items()), f"{self._original} is not the copy"
        shutil.rmtree(self._copy)
        if not others:
            return ""
        copied = self._part or "everything"
        return (
            f"{copied} is as it was {age_s:.1f} s ago: {len(others)} files differ, {len(missing)} of them are missing"
        )


def _files(directory: Path) -> dict[str, Path]:
    """Return all files below a directory, by relative path."""
    return {str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()}


def _same(first: Path | None, second: Path | None) -> bool:
    """Return whether both files exist and have the same content."""
    return first is not None and second is not None and filecmp.cmp(first, second, shallow=False)
