"""Disk of one node, for the code that starts the node and injects its faults.

    environment → (the node runs: slow, failing, full, stalled) → it has ended → lose_power, or not → environment …

Unsynced writes stay unsynced across restarts, until a sync or a power loss: SIGKILL syncs nothing."""

import fcntl
import shutil
from pathlib import Path
from random import Random

from jepsen.disk.control import DiskControl, DiskCounters
from jepsen.disk.power_loss import LossCounts, revert_unsynced
from jepsen.disk.shim_library import library
from jepsen.disk.volatile import read_volatile


class NodeDisk:
    """Disk of one node. `data_dir` is created when missing; `state_dir` must be on the same file system.

    With `removes_syncs` syncs of the process report success without any effect.
    """

    def __init__(self, data_dir: Path, state_dir: Path, removes_syncs: bool = False) -> None:
        data_dir.mkdir(parents=True, exist_ok=True)
        state_dir.mkdir(parents=True, exist_ok=True)
        self._data, self._state = data_dir.resolve(), state_dir.resolve()
        assert not self._state.is_relative_to(self._data), f"{state_dir} is inside of {data_dir}"
        assert self._state.stat().st_dev == self._data.stat().st_dev, f"{state_dir} is on another file system"
        self._removes_syncs = removes_syncs
        self._unlinked, self._memory = self._state / "unlinked", self._state / "memory"
        self._unlinked.mkdir(exist_ok=True)
        self._control = DiskControl(self._state / "control")

    def environment(self) -> dict[str, str]:
        """Switch all faults off, reset the counters, and return the environment variables for the node's next launch.

        Raises `CannotBeBuilt`."""
        self._data.mkdir(parents=True, exist_ok=True)  # the disk may have been wiped
        self._control.reset()
        variables = {
            "LD_PRELOAD": str(library()),
            "JEPSEN_DISK_DATA": str(self._data),
            "JEPSEN_DISK_STATE": str(self._state),
        }
        return variables | ({"JEPSEN_DISK_NO_SYNC": "1"} if self._removes_syncs else {})

    def lose_power(self, random: Random, torn: bool = True) -> str:
        """Simulate a power loss and return a description of its effect; the process and its children must have ended.

        Returns an empty string if the shim recorded no write of the node; then the power loss equals a crash."""
        has_written = self._memory.exists()
        lost = self.lose_unsynced(random, torn)
        return str(lost) if has_written else ""

    def lose_unsynced(self, random: Random, torn: bool = True) -> LossCounts:
        """Simulate a power loss and return the numbers of lost pages, sizes and names."""
        self._assert_memory_unused()
        bypass = self._control.describe_bypass()
        assert bypass is None, f"the durable part of {self._data} is unknown: {bypass}"
        lost = revert_unsynced(self._data, self._unlinked, read_volatile(self._memory), random, torn)
        self.mark_durable()
        return lost

    def mark_durable(self) -> None:
        """Treat the present content as durable, after a change of the directory from outside."""
        self._memory.unlink(missing_ok=True)
        shutil.rmtree(self._unlinked)
        self._unlinked.mkdir()

    def _assert_memory_unused(self) -> None:
        """Assert that no process owns the shared memory: the kernel releases a lock on it when the owner has ended."""
        if not self._memory.exists():
            return
        with self._memory.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AssertionError(f"a process still writes to {self._data}") from None

    def slow_syncs(self, seconds: float) -> None:
        """Delay each sync by `seconds`, including waiting syncs; 0 ends the fault."""
        self._control.set("sync_delay_ns", round(seconds * 1e9))

    def fail_syncs(self, count: int) -> None:
        """Fail the next `count` syncs with EIO, or all for -1; 0 ends the fault. The unsynced data are lost."""
        self._control.set("syncs_to_fail", count)

    def fill(self, secretly: bool = False) -> None:
        """Fail writes that need new space with ENOSPC; allocated space can still be overwritten.

        `statvfs` reports no free space. With `secretly` it reports the real free space, as when a quota is full."""
        self._control.set("is_full", 2 if secretly else 1)

    @property
    def is_full(self) -> bool:
        """Whether `fill` has not been ended."""
        return self._control.get("is_full") != 0

    def free(self) -> None:
        """End the fault of `fill`."""
        self._control.set("is_full", 0)

    def stall_loop(self, seconds: float) -> None:
        """Block the main thread once for `seconds`, before it waits for events again."""
        self._control.set("stall_ns", round(seconds * 1e9))

    def read_counters(self) -> DiskCounters:
        """Return the disk's counters since the node's last launch."""
        return self._control.counters()
