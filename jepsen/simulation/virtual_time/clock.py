"""A node's clocks, computed from the simulation's time: a monotonic one that drifts, and a wall clock that jumps.

All in integer nanoseconds, so that a reading and its inverse are exact:
`local_ns(global_ns(t)) ≥ t` and `local_ns(global_ns(t) - 1) < t` for every t that is not in the past.
"""

from typing import Final

PPM: Final = 1_000_000
WALL_START_NS: Final = 1_700_000_000_000_000_000
"""Wall-clock time at time 0, in nanoseconds since 1970: a day in November 2023."""


class NodeClock:
    """Clocks of a node. `drift_ppm` above 0 is fast. A new drift applies from now on, but not to timers set before."""

    def __init__(self, *, offset_ns: int = 0, drift_ppm: int = 0, wall_offset_ns: int = 0) -> None:
        assert drift_ppm > -PPM, drift_ppm
        self.drift_ppm = drift_ppm
        self._local_base_ns, self._global_base_ns = offset_ns, 0
        self._wall_start_ns = WALL_START_NS - offset_ns + wall_offset_ns

    def local_ns(self, global_ns: int) -> int:
        """Return the time on the monotonic clock at a time of the simulation."""
        return self._local_base_ns + (global_ns - self._global_base_ns) * (PPM + self.drift_ppm) // PPM

    def global_ns(self, local_ns: int) -> int:
        """Return the first time of the simulation at which the monotonic clock is at least `local_ns`."""
        elapsed = local_ns - self._local_base_ns
        return self._global_base_ns - (-elapsed * PPM // (PPM + self.drift_ppm))

    def wall_ns(self, global_ns: int) -> int:
        """Return the wall-clock time: nanoseconds since 1970."""
        return self.local_ns(global_ns) + self._wall_start_ns

    def set_drift(self, drift_ppm: int, global_ns: int) -> None:
        """Set the drift from the simulation's time `global_ns` on."""
        assert drift_ppm > -PPM, drift_ppm
        self._local_base_ns, self._global_base_ns = self.local_ns(global_ns), global_ns
        self.drift_ppm = drift_ppm

    def jump_wall(self, by_ns: int) -> None:
        """Step the wall clock, as an operator or NTP does, but not the monotonic clock."""
        self._wall_start_ns += by_ns
