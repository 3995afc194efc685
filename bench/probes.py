"""Facts about this machine and its processes from /proc and small probes."""

import os
import platform
import subprocess
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.flushes import has_flush_count
from bench.samples import percentile

_PACKAGES = (
    "aiohttp",
    "aiokafka",
    "click",
    "cramjam",
    "crc32c",
    "orjson",
    "prometheus-client",
    "pyarrow",
    "pyspark",
    "raftlog",
    "rich",
    "structlog",
    "uvloop",
)
_SYNCS = 300
_LOOP_TURNS = 1_000_000
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def machine(data_dir: Path) -> dict[str, Any]:
    """Return facts about the machine that affect figures."""
    return {
        "cpu_model": _field(Path("/proc/cpuinfo"), "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(_field(Path("/proc/meminfo"), "MemTotal").split()[0]) // 1024,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": python_build(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "wrk": _wrk_version(),
        "filesystem": filesystem(data_dir),
        "fdatasync": fdatasync_probe(data_dir),
        "device_counts_flushes": has_flush_count(data_dir),
        "python_mloops_per_s": cpu_probe(),
        "load_average": os.getloadavg()[0],
    }


def python_build() -> str:
    """Return version and build of this interpreter; builds differ by a third in speed (`python_mloops_per_s`)."""
    number, date = platform.python_build()
    named = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{named} ({number}, {date}, {platform.python_compiler()})"


def fdatasync_probe(data_dir: Path) -> dict[str, float]:
    """Return the milliseconds of an append of 4 KiB to a growing file with its sync."""
    took = []
    with tempfile.TemporaryFile(dir=data_dir) as file:
        block = os.urandom(4096)
        for number in range(_SYNCS):
            begin = time.perf_counter()
            os.pwrite(file.fileno(), block, number * len(block))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - begin) * 1000)
    took.sort()
    return {"p50_ms": percentile(took, 50), "p99_ms": percentile(took, 99)}


def cpu_probe() -> float:
    """Return the speed of a small pure-Python loop in millions of turns per second, the best of five runs."""
    best = float("inf")
    for _ in range(5):
        total = 0
        begin = time.perf_counter()
        for number in range(_LOOP_TURNS):
            total += number & 7
        best = min(best, time.perf_counter() - begin)
    return _LOOP_TURNS / best / 1e6


def filesystem(path: Path) -> str:
    """Return the type of the file system of a path."""
    resolved, found = str(path.resolve()), ("", "unknown")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount_point, kind, *_ = line.split()
        inside = resolved == mount_point or resolved.startswith(mount_point.rstrip("/") + "/")
        if inside and len(mount_point) >= len(found[0]):
            found = (mount_point, kind)
    return found[1]


def commit() -> dict[str, Any]:
    """Return the commit of the checkout, and whether tracked files differ from it; empty without git."""
    try:
        head = _output_of("git", "rev-parse", "HEAD")
        changed = bool(_output_of("git", "status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {"commit": head, "has_changes": changed}


def memory_mib(pid: int) -> tuple[float, float]:
    """Return the present and the maximum resident memory of a process (VmRSS, VmHWM)."""
    status = Path(f"/proc/{pid}/status")
    return tuple(int(_field(status, name).split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def open_files(pid: int) -> int:
    """Return the number of descriptors that a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def cpu_seconds(pid: int, *, with_children: bool = False) -> float:
    """Return user and system time of a process, with that of its ended children if `with_children`."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_children else 13])) / _CLOCK_TICKS


def _field(file: Path, name: str) -> str:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0 (not given)"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _wrk_version() -> str:
    try:
        done = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not installed"
    return (done.stdout + done.stderr).split("Copyright")[0].strip()


def _output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
