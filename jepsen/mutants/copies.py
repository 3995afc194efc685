"""Copies of the tree for mutants; the checkout itself is never changed."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).resolve().parents[2]


class Copy:
    """Copy of the tree, for one mutant at a time."""

    def __init__(self, directory: Path) -> None:
        """Copy all files that git tracks or would add into `directory`."""
        self.directory = directory
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607 - as found on the path
            cwd=TOP,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            source, target = TOP / name, directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                target.symlink_to(source.readlink())
            elif source.is_file():
                shutil.copyfile(source, target)

    def read(self, file: str) -> str:
        """Return the text of a file in the copy."""
        return (self.directory / file).read_text(encoding="utf-8")

    def write(self, file: str, source: str) -> None:
        """Change a file, and delete its bytecode, which a quick change would not invalidate."""
        path = self.directory / file
        path.write_text(source, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def pytest(self, tests: tuple[str, ...]) -> list[str]:
        """Return the command that runs tests of this copy."""
        return [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
