"""Wrong clock of an unmodified broker: libfaketime, and a file that it reads at each query of the time.

    faked(t) = t + offset + (t − since) · (factor − 1)

By default only the wall clock is wrong, as after a bad NTP step: the kernel never sets the monotonic one. With
`with_monotonic` the monotonic clock is wrong too, forward only, as in a virtual machine that was moved or that loses
ticks. Used at the launch of brokers; a broker's time is measured from outside, by the `Date` of its answers.
"""

import http.client
import sys
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, NamedTuple

from raftlog.testing.http import ANSWER_SECONDS_MAX

_LIBRARIES: Final = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")
"""Patterns of paths to libfaketime's library for programs with threads."""
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - where the library makes its names, which are those of the process
_LEFTOVERS: Final = ("faketime_shm_{}", "sem.faketime_sem_{}")
_PATH: Final = "/v1/status/ready"


def unsupported_reason() -> str | None:
    """Return the reason why clocks cannot be faked here; None when they can."""
    if sys.platform != "linux":
        return f"libfaketime is used on Linux alone, and this is {sys.platform}"
    return None if _library() is not None else "libfaketime is missing; install the package libfaketime"


def _library() -> Path | None:
    """Return the path of the installed libfaketime, or None."""
    found = [path for pattern in _LIBRARIES for path in Path("/").glob(pattern.removeprefix("/"))]
    return found[0] if found else None


class ClockOffset(NamedTuple):
    """Bounds of the offset of a broker's clock from this process's, in seconds; negative when it is behind."""

    least: float
    most: float


class NodeClock:
    """Clock of one broker across restarts. `state_dir` gets the file that sets its offset and drift."""

    def __init__(self, state_dir: Path, *, with_monotonic: bool = False) -> None:
        """Prepare a clock without an error.

        Processes read its error from a file in `state_dir`. `with_monotonic` also changes the monotonic clock."""
        self._file = state_dir / "clock"
        self._with_monotonic = with_monotonic
        self._offset_s, self._factor = 0.0, 1.0
        self._since = self._launched = time.time()
        state_dir.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """Return the environment for a launch of the broker, which has to follow at once.

        Raises `OSError` when `unsupported_reason` gives a reason."""
        library = _library()
        if library is None:
            raise FileNotFoundError(unsupported_reason())
        self._launched = time.time()
        self._write()
        environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file.absolute()),
            "FAKETIME_NO_CACHE": "1",
            "NO_FAKE_STAT": "1",
            # Its correction of waits by the monotonic clock makes them spin: threads waiting for the interpreter's lock
            # took a hundred times as much of the processor.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }
        if not self._with_monotonic:
            environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
        return environment

    @property
    def offset_s(self) -> float:
        """Seconds by which the clock is ahead of real time now."""
        return self._offset_s + (time.time() - self._since) * (self._factor - 1.0)

    def jump(self, seconds: float) -> None:
        """Set the clock ahead of real time by `seconds` (behind, if negative); it drifts on from there.

        Replaces the offset that it had. Raises `ValueError` where a monotonic clock would go back."""
        if self._with_monotonic and seconds < self.offset_s:
            raise ValueError(f"a monotonic clock does not go back from {self.offset_s:+.3f} to {seconds:+.3f} s")
        self._set(seconds, self._factor)

    def drift(self, factor: float) -> None:
        """Let the clock run `factor` (above 0) times as fast as real time from now on. Raises `ValueError`."""
        if factor <= 0:
            raise ValueError(f"a clock that runs {factor} times as fast stands still or goes back")
        self._set(self.offset_s, factor)

    def reset(self) -> None:
        """Correct the clock; a monotonic one, which cannot go back, only gets the right rate."""
        self._set(self.offset_s if self._with_monotonic else 0.0, 1.0)

    def offset_range(self, address: str) -> ClockOffset:
        """Return the offset from the broker's own answers, to a second. Raises `OSError` when it does not answer."""
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_SECONDS_MAX)
        try:
            before = time.time()
            connection.request("GET", _PATH)
            with connection.getresponse() as answer:
                answer.read()
            after = time.time()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{address} does not answer: {error!r}") from error
        finally:
            connection.close()
        shown = parsedate_to_datetime(answer.headers["Date"]).timestamp()
        return ClockOffset(shown - after, shown + 1.0 - before)

    def measure_offset(self, address: str) -> float | None:
        """Return the offset from the broker's own answers, to half a second; None when it does not answer."""
        try:
            least, most = self.offset_range(address)
        except OSError:
            return None
        return (least + most) / 2

    def remove_leftovers(self, pid: int) -> None:
        """Remove shared memory of a killed broker, which a later process with its number would use."""
        for name in _LEFTOVERS:
            (_SHARED_MEMORY / name.format(pid)).unlink(missing_ok=True)

    def _set(self, offset_s: float, factor: float) -> None:
        """Set the clock's error in seconds and its speed from now on, and write them to the file."""
        self._offset_s, self._factor, self._since = offset_s, factor, time.time()
        self._write()

    def _write(self) -> None:
        """Write offset and drift for the library, which counts a drift from the start of the process on."""
        since_launch_s = self._since - self._launched
        offset_s = self._offset_s - since_launch_s * (self._factor - 1.0)
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{offset_s:+.6f} x{self._factor:.6f}\n")
        beside.replace(self._file)
