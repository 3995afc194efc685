"""Zip of raftlog's code, for `spark-submit --py-files`.

Its compiled dependencies are not included: executors have them installed, or in a packed environment.
Called by `raftlog pipeline info`."""

import os
import zipfile
from pathlib import Path
from typing import Final

import raftlog

_PACKED: Final = (".py", ".properties", ".typed")
_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""Date of all files in the zip, so that equal code makes equal bytes."""


def write_py_files(path: str) -> str:
    """Write the zip, replacing an existing file; return its absolute path. Raises `OSError`."""
    package = Path(raftlog.__file__).parent
    whole = Path(path).absolute()
    unfinished = whole.with_name(f"{whole.name}.unfinished")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
        for directory, names, files in os.walk(package, followlinks=True):
            names[:] = sorted(name for name in names if name != "__pycache__")
            for name in sorted(files):
                if name.endswith(_PACKED):
                    source = Path(directory, name)
                    entry = zipfile.ZipInfo(str(Path("raftlog", source.relative_to(package))), _DATE)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    packed.writestr(entry, source.read_bytes())
    unfinished.replace(whole)
    return str(whole)
