"""Shared libraries for LD_PRELOAD, such as the shim: compiled at their first use, kept in the user's cache."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).parent / "shim"
_FLAGS: Final = ("-O2", "-Wall", "-shared", "-fPIC")
_COMPILED_S_MAX: Final = 120.0


class CannotBeBuilt(Exception):
    """The library cannot be built on this machine; the text gives the reason and the remedy."""


@cache
def library() -> Path:
    """Return the absolute path of the shim library, compiled if necessary. Raises `CannotBeBuilt`."""
    return build("disk", sorted(_SOURCE.glob("*.[ch]")))


def build(name: str, files: list[Path]) -> Path:
    """Return the absolute path of a library of C files, compiled if it is new. Raises `CannotBeBuilt`."""
    if sys.platform != "linux":
        raise CannotBeBuilt("libraries to preload need Linux")
    digest = hashlib.sha256(b"\0".join([os.uname().machine.encode(), *(file.read_bytes() for file in files)]))
    path = _cache() / f"{name}-{digest.hexdigest()[:16]}.so"
    if not path.exists():
        _compile([str(file) for file in files if file.suffix == ".c"], path)
    return path


def unsupported_reason() -> str | None:
    """Build the shim and return the reason why it cannot be used here; None when it can."""
    try:
        library()
    except CannotBeBuilt as error:
        return str(error)
    return None


def _cache() -> Path:
    """Return the directory for compiled libraries in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "raftlog-jepsen"


def _compile(sources: list[str], path: Path) -> None:
    """Compile the library; the file appears complete or not at all, even if several processes build it at once."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise CannotBeBuilt("there is no C compiler: install gcc and libc6-dev")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as directory:
            new = f"{directory}/library.so"
            command = [compiler, *_FLAGS, "-o", new, *sources]
            done = subprocess.run(  # noqa: S603 - our own arguments
                command, check=False, capture_output=True, text=True, timeout=_COMPILED_S_MAX
            )
            if done.returncode:
                first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
                raise CannotBeBuilt(f"the library does not compile (install gcc and libc6-dev): {first}")
            os.replace(new, path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBeBuilt(f"the library cannot be built: {error}") from error
