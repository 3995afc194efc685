"""Load of this broker in a few numbers, which it gossips."""

from collections.abc import Callable, Sized
from typing import Final

from raftlog.partitions.counters import Counters
from raftlog.partitions.node import Node
from raftlog.topic_config import KIB
from raftlog.values.brokers import BrokerLoad

_WEIGHT: Final = 0.2
"""Weight of the newest measurement in the smoothed rate."""


class LoadMeter:
    """Meter of the broker's load; each call measures it. The rate is smoothed, so that short peaks are not gossiped."""

    def __init__(self, node: Node, counters: Counters, replicas: Callable[[], Sized]) -> None:
        """Begin to measure; `replicas` returns the replicas of this broker."""
        self._node, self._counters, self._replicas = node, counters, replicas
        self._looked_at, self._bytes_in = node.loop.time(), counters.bytes_in
        self._rate = 0.0

    def __call__(self) -> BrokerLoad:
        """Measure and return the load; sizes of the disk are −1 if they cannot be read."""
        driver = self._node.driver
        try:
            free, total = driver.disk.free_bytes(driver.data_dir), driver.disk.total_bytes(driver.data_dir)
        except OSError:
            free = total = -1
        return BrokerLoad(len(self._replicas()), self._node.leaders.led_count, free, total, self._bytes_per_s())

    def _bytes_per_s(self) -> int:
        """Return the smoothed rate of appended bytes, rounded to KiB; each call measures once."""
        now, bytes_in = self._node.loop.time(), self._counters.bytes_in
        elapsed_s, appended = now - self._looked_at, bytes_in - self._bytes_in
        self._looked_at, self._bytes_in = now, bytes_in
        if elapsed_s > 0:
            self._rate += _WEIGHT * (appended / elapsed_s - self._rate)
        return round(self._rate / KIB) * KIB
