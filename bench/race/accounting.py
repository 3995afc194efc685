"""Priorities of nodes and load generators, and the CPU time of all other programs during a run.

Linux groups processes by session for the scheduler (autogroup), so nice values count between sessions only as those of
the groups; both are set. Without the right to raise them all processes keep equal default priorities."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.measure import MeasureFailed

PRIORITY: Final = -10
RUN_S_MAX: Final = 150.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FIELDS: Final = 8
_IDLE_FIELDS: Final = (3, 4)
_USER_FIELD: Final = 11
"""Index of utime in /proc/PID/stat after the program's name; stime and the times of waited-for children follow."""
_SHOWN_CHARACTERS: Final = 1000


def raise_priority(pids: Iterable[int]) -> None:
    """Give all threads of these processes the high priority of the race."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(OSError):  # not permitted, or ended
                os.setpriority(os.PRIO_PROCESS, int(thread.name), PRIORITY)
        with contextlib.suppress(OSError):  # not permitted, no autogroups, or ended
            Path(f"/proc/{pid}/autogroup").write_text(str(PRIORITY))


def run_generator(
    command: Sequence[str], environment: Mapping[str, str] | None = None, seconds: float = RUN_S_MAX
) -> str:
    """Run a load generator at the priority of the nodes and return its stdout; raise `MeasureFailed` if it fails."""
    process = start_generator(command, environment)
    try:
        return wait_for_generator(process, seconds)
    finally:
        stop_generator(process)


def start_generator(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, takes_input: bool = False
) -> "subprocess.Popen[str]":
    """Start a load generator at the priority of the nodes."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    raise_priority([process.pid])
    return process


def wait_for_generator(process: "subprocess.Popen[str]", seconds: float = RUN_S_MAX) -> str:
    """Wait for the end of a load generator; return the rest of its stdout."""
    name = " ".join(map(str, process.args if isinstance(process.args, list) else []))[-300:]
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise MeasureFailed(f"a load did not end within {seconds:g} s: {name}") from None
    if process.returncode:
        printed = (output[-_SHOWN_CHARACTERS:] + errors[-_SHOWN_CHARACTERS:]).strip()
        raise MeasureFailed(f"exit code {process.returncode} of {name}: {printed}")
    return output


def stop_generator(process: "subprocess.Popen[str]") -> None:
    """Kill a load generator that still runs, and close its pipes."""
    process.kill()
    process.communicate()


class CpuMeter:
    """Meter of the CPU time of the nodes and of programs outside the race, since its creation."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._begin = time.monotonic()
        self._busy = _busy_s()
        self._nodes = {pid: process_cpu_s(pid) for pid in pids}
        self._own = _own_s()

    def shares(self) -> tuple[float, float]:
        """Return the CPU time of the nodes and of other programs, in cores."""
        elapsed = time.monotonic() - self._begin
        nodes = sum(max(0.0, process_cpu_s(pid) - before) for pid, before in self._nodes.items())
        others = _busy_s() - self._busy - nodes - (_own_s() - self._own)
        return nodes / elapsed, max(0.0, others / elapsed)


def _busy_s() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1 : _FIELDS + 1]
    return sum(int(field) for number, field in enumerate(fields) if number not in _IDLE_FIELDS) / _TICKS


def process_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its ended children; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[_USER_FIELD : _USER_FIELD + 4]) / _TICKS


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
