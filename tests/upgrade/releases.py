"""Two releases for tests of upgrades: interpreters with their own raftlog, and a small wheel of a release.

`make upgrade-wheel` writes `raftlog-VERSION-py3-none-any.whl` beside this file: the package without the pipeline, the
node of Maelstrom and the pages of the console. Tests then upgrade from the newest such wheel to this tree. Without a
wheel they upgrade from this tree to a next release: a copy of the tree that knows one feature level more.
"""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import raftlog
from raftlog.types import FEATURE_LEVEL_KNOWN

HERE: Final = Path(__file__).parent
PACKAGE: Final = HERE.parents[1] / "raftlog"
NEXT_VERSION: Final = "9.9.9"
_LEFT_OUT: Final = ("pipeline", "maelstrom", "pages", "__pycache__")
_KNOWN: Final = "FEATURE_LEVEL_KNOWN: Final = "
_COMPRESS_LEVEL: Final = 9
_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: raftlog\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class Release(NamedTuple):
    """Interpreter with the raftlog release that it runs."""

    python: str
    version: str
    level: int


def releases(directory: Path) -> tuple[Release, Release]:
    """Return the earlier and the later release, with interpreters in `directory`."""
    this = Release(sys.executable, raftlog.__version__, FEATURE_LEVEL_KNOWN)
    wheels = sorted(HERE.glob("*.whl"), key=lambda wheel: tuple(map(int, wheel.name.split("-")[1].split("."))))
    python, packages = _interpreter(directory)
    if wheels:
        with zipfile.ZipFile(wheels[-1]) as wheel:
            wheel.extractall(packages)
        types = (packages / "raftlog/types.py").read_text(encoding="utf-8")
        level = int(types.split(_KNOWN)[1].split("\n")[0])
        return Release(python, wheels[-1].name.split("-")[1], level), this
    _copy(packages)
    _replace(packages / "raftlog/__init__.py", {f'"{raftlog.__version__}"': f'"{NEXT_VERSION}"'})
    _replace(packages / "raftlog/types.py", {f"{_KNOWN}{this.level}\n": f"{_KNOWN}{this.level + 1}\n"})
    return this, Release(python, NEXT_VERSION, this.level + 1)


def _interpreter(directory: Path) -> tuple[str, Path]:
    """Create an interpreter with these dependencies but without raftlog; return it and its package directory."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)}))
    # A path of a .pth file is searched, but the .pth files in it are not read: the tree's own raftlog stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(directory / "bin" / "python"), packages


def _copy(packages: Path) -> None:
    shutil.copytree(PACKAGE, packages / "raftlog", ignore=shutil.ignore_patterns(*_LEFT_OUT))


def _replace(path: Path, texts: Mapping[str, str]) -> None:
    source = path.read_text(encoding="utf-8")
    for before, after in texts.items():
        assert source.count(before) == 1, f"{path.name} has {before!r} {source.count(before)} times"
        source = source.replace(before, after)
    path.write_text(source, encoding="utf-8")


def write_wheel(directory: Path) -> Path:
    """Write the wheel of this tree; the same tree gives the same bytes."""
    version = raftlog.__version__
    path, info = directory / f"raftlog-{version}-py3-none-any.whl", f"raftlog-{version}.dist-info"
    files = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: raftlog\nVersion: {version}\n".encode()}
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    _add(files, PACKAGE, "raftlog")
    rows = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in sorted(files.items())]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in sorted(files.items()):
            wheel.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, _COMPRESS_LEVEL)
    return path


def _add(files: dict[str, bytes], directory: Path, name: str) -> None:
    for each in directory.iterdir():
        if each.name in _LEFT_OUT:
            continue
        if each.is_dir():
            _add(files, each, f"{name}/{each.name}")
        else:
            files[f"{name}/{each.name}"] = each.read_bytes()


def _digest(content: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    written = write_wheel(HERE)
    print(f"{written}: {written.stat().st_size:,} bytes")
