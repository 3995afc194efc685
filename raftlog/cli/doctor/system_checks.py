"""Checks of the machine: versions, clock, limits and memory."""

import ctypes
import platform
import resource
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import raftlog
from raftlog.cli.doctor.findings import OK, PROBLEM, WARNING, Finding, Level

PYTHON_MIN: Final = (3, 11)
OPEN_FILES_WANTED: Final = 4_096
OPEN_FILES_MIN: Final = 128
_PACKAGES: Final = ("aiohttp", "uvloop", "cramjam", "crc32c", "msgspec", "cryptography")
_UNSYNCHRONIZED: Final = 0x0040
_YEAR_MIN: Final = 2025
_TIMEX_BYTES: Final = 256
_CGROUPS: Final = Path("/sys/fs/cgroup")
_STATUS_AT: Final = 40
"""Position of `status` in the kernel's `struct timex` on 64-bit machines."""


def check_versions() -> Iterator[Finding]:
    """Check Python, the system and the packages."""
    python = platform.python_version()
    text = f"raftlog {raftlog.__version__}, Python {python}, {platform.system()} {platform.release()}"
    if sys.version_info[:2] < PYTHON_MIN:
        yield Finding("version", PROBLEM, text, f"use Python {'.'.join(map(str, PYTHON_MIN))} or later")
    elif platform.system() != "Linux":
        yield Finding("version", PROBLEM, text, "run brokers on Linux")
    elif not __debug__:
        yield Finding("version", PROBLEM, f"{text}, with -O", "start it without -O and PYTHONOPTIMIZE")
    else:
        yield Finding("version", OK, text)
    found, missing = [], []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("packages", PROBLEM, f"not installed: {', '.join(missing)}", "install raftlog again with pip")
    else:
        yield Finding("packages", OK, ", ".join(found))


def check_clock() -> Finding:
    """Check that the clock is synchronized and plausible; records get their timestamps from it."""
    now = time.gmtime()
    text = time.strftime("%Y-%m-%d %H:%M:%S UTC", now)
    advice = "synchronize the clock: install chrony, or run `timedatectl set-ntp true`"
    if now.tm_year < _YEAR_MIN:
        return Finding("clock", WARNING, f"{text} is in the past", advice)
    status = _read_clock_status()
    if status is None:
        return Finding("clock", OK, f"{text}; whether it is synchronized is not known here")
    if status & _UNSYNCHRONIZED:
        return Finding("clock", WARNING, f"{text}, not synchronized according to the kernel", advice)
    return Finding("clock", OK, f"{text}, synchronized")


def _read_clock_status() -> int | None:
    """Return the kernel's clock status bits; None if they cannot be read."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        if ctypes.CDLL(None, use_errno=True).adjtimex(buffer) < 0:
            return None
    except AttributeError:
        return None
    return int.from_bytes(buffer.raw[_STATUS_AT : _STATUS_AT + 4], sys.byteorder)


def check_open_files() -> Finding:
    """Check the hard limit of open files, to which a broker raises its soft limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= OPEN_FILES_WANTED:
        text = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}"
        return Finding("open files", OK, f"hard limit {text}")
    advice = "raise it: LimitNOFILE=65536 in the systemd unit, or `ulimit -Hn 65536`"
    level: Level = PROBLEM if hard < OPEN_FILES_MIN else WARNING
    return Finding("open files", level, f"hard limit {hard:,}, and {OPEN_FILES_WANTED:,} are usual", advice)


def check_memory(budget_bytes: int) -> Finding:
    """Check that the available memory is enough for the connections' budget and the other memory of a broker."""
    available, limited = _read_available_memory(), _read_cgroup_memory()
    if available is None:
        return Finding("memory", OK, "the available memory is not known here")
    needed = budget_bytes + (200 << 20)
    text = f"{available >> 20:,} MiB available"
    if limited is not None and limited < available:
        available, text = limited, f"{limited >> 20:,} MiB available below the limit of this container or unit"
    if available < needed:
        advice = f"a busy broker takes up to {needed >> 20:,} MiB: lower --memory-budget-bytes, or add memory"
        return Finding("memory", WARNING, text, advice)
    return Finding("memory", OK, text)


def _read_available_memory() -> int | None:
    """Return the available memory in bytes; None if it is unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return None
    return None


def _read_cgroup_memory() -> int | None:
    """Return the bytes that this process's cgroup and those above it leave free; None without a limit (cgroup v2)."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    name = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    if name is None:
        return None
    group = _CGROUPS / name
    left = [free for each in (group, *group.parents) if (free := _read_free(each)) is not None]
    return min(left, default=None)


def _read_free(group: Path) -> int | None:
    """Return the bytes below the memory limit of a cgroup, cached files included; None without a limit."""
    try:
        limit, used, stat = (
            (group / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current", "memory.stat")
        )
        cached = dict(line.split(" ", 1) for line in stat.splitlines()).get("file", "0")
        return max(0, int(limit) - int(used) + int(cached))
    except (OSError, ValueError):  # no such file, or the limit is `max`
        return None
