"""Checkouts of raftlog, and environments in which each runs its own code with the same interpreter."""

import os
import subprocess
from pathlib import Path
from typing import Self

from bench.measure import MeasureFailed

_ANSWER_S_MAX = 60.0
_SECRET_OPTION = "--cluster-secret-file"


class Tree:
    """One checkout: its modules come from its directory (`PYTHONPATH`), all others from the interpreter.

    Compiled modules are kept in `scratch`: nothing is written into the checkout, and each side compiles its own.
    """

    def __init__(self, label: str, directory: Path, python: str, scratch: Path) -> None:
        self.label = label
        self.directory = directory
        self.python = python
        self._scratch = scratch
        self._cache = scratch / f"compiled-{label}"
        self.needs_secret = False
        """Whether brokers of a cluster need a file with their secret; earlier releases have none."""

    @classmethod
    def open(cls, label: str, directory: Path, python: str, scratch: Path) -> Self:
        """Return a checkout that runs; raises `MeasureFailed` if `raftlog` is imported from elsewhere."""
        tree = cls(label, directory.resolve(), python, scratch)
        found = Path(tree.run("-c", "import raftlog; print(raftlog.__file__)").strip())
        if found != tree.directory / "raftlog" / "__init__.py":
            raise MeasureFailed(f"with PYTHONPATH={tree.directory} {python} imports raftlog from {found}")
        tree.needs_secret = _SECRET_OPTION in tree.run("-m", "raftlog.cli", "serve", "--help")
        return tree

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of its processes."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAFTLOG_", "PYTHON"))}
        free_port = {"RAFTLOG_KAFKA": "none"}  # a variable, since earlier releases have no such flag
        return {**kept, **free_port, "PYTHONPATH": str(self.directory), "PYTHONPYCACHEPREFIX": str(self._cache)}

    @property
    def place(self) -> Path:
        """Working directory of its processes, outside of both checkouts because `-m` searches it first."""
        return self._scratch

    @property
    def commit(self) -> str:
        """Commit of the checkout, with a `+` if files differ from it; empty without git."""
        try:
            head = self._git("rev-parse", "--short=10", "HEAD")
            return head + ("+" if self._git("status", "--porcelain", "--untracked-files=no") else "")
        except (OSError, subprocess.CalledProcessError):
            return ""

    def run(self, *arguments: str) -> str:
        """Run the interpreter with this tree's modules and return its output; raises `MeasureFailed`."""
        done = subprocess.run(
            [self.python, *arguments],
            cwd=self.place,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_ANSWER_S_MAX,
            check=False,
        )
        if done.returncode:
            raise MeasureFailed(f"{self.directory}: {' '.join(arguments[:4])}: {done.stderr.strip()[-600:]}")
        return done.stdout

    def serve(self, data_dir: Path, http_port: int, *flags: str) -> list[str]:
        """Return the command line that starts a broker of this tree."""
        at = ("--data-dir", str(data_dir), "--http", f"127.0.0.1:{http_port}", "--log-level", "warning")
        return [self.python, "-m", "raftlog.cli", "serve", *at, *flags]

    def secret_flags(self, directory: Path) -> tuple[str, ...]:
        """Return the flags for the cluster secret; create it in `directory` if it does not exist."""
        if not self.needs_secret:
            return ()
        file = directory / "cluster.secret"
        if not file.exists():
            self.run("-m", "raftlog.cli", "cluster", "secret", "create", str(file))
        return (_SECRET_OPTION, str(file))

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.directory, capture_output=True, text=True, check=True)
        return done.stdout.strip()
