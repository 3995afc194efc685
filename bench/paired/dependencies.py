"""Printer of the requirements of this checkout's `raftlog` for pip: `python -m bench.paired.dependencies`."""

import tomllib
from pathlib import Path

if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    print(*project["dependencies"], sep="\n")
