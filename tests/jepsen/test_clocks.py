"""A broker's clock is wrong as configured, its responses show it, and no trace of it remains."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.clocks import NodeClock, unsupported_reason
from raftlog.testing import Cluster, ClusterNode
from tests.waiting import block_until

SLACK_S = 1.0
"""A process does not begin at the moment of its launch, from which a drift is counted."""


@pytest.fixture(autouse=True)
def require_faketime() -> None:
    assert unsupported_reason() is None


def run_broker(clock: NodeClock) -> Iterator[ClusterNode]:
    """Run a broker with the clock; check that none of its processes leaves files in shared memory."""
    with Cluster(1, environment=lambda _: clock.environment()) as cluster:
        node = cluster.nodes[1]
        pid = node.pid
        yield node
        node.kill()
        for ended in (pid, node.pid):
            clock.remove_leftovers(ended)
            assert not list(Path("/dev/shm").glob(f"*faketime_*_{ended}"))


@pytest.fixture
def clock(tmp_path: Path) -> NodeClock:
    return NodeClock(tmp_path / "state")


@pytest.fixture
def broker(clock: NodeClock) -> Iterator[ClusterNode]:
    yield from run_broker(clock)


def check_offset(clock: NodeClock, node: ClusterNode) -> None:
    """Check that the broker's clock is ahead as configured."""
    before = clock.offset_s
    offset_range = clock.offset_range(node.http)
    assert offset_range.least - SLACK_S <= max(before, clock.offset_s), (before, offset_range)
    assert offset_range.most + SLACK_S >= min(before, clock.offset_s), (before, offset_range)


def test_jumps_and_drift_last_over_a_restart(clock: NodeClock, broker: ClusterNode) -> None:
    check_offset(clock, broker)
    for seconds in (45.0, -60.0, 0.7):
        clock.jump(seconds)
        check_offset(clock, broker)
    clock.jump(-50.0)
    error_s = clock.measure_offset(broker.http)
    assert error_s is not None
    assert -60.0 < error_s < -40.0
    clock.drift(100.0)
    block_until(lambda: clock.offset_range(broker.http).least >= 50.0, lambda: clock.offset_s)
    clock.drift(1.0)
    check_offset(clock, broker)
    broker.kill()
    assert clock.measure_offset(broker.http) is None
    broker.start()
    check_offset(clock, broker)
    assert clock.offset_range(broker.http).least > 40.0
    clock.reset()
    check_offset(clock, broker)
    assert abs(clock.offset_range(broker.http).least) < 40.0
    with pytest.raises(ValueError, match="stands still"):
        clock.drift(0.0)


def test_a_monotonic_clock_only_goes_forward(tmp_path: Path) -> None:
    clock = NodeClock(tmp_path / "state", with_monotonic=True)
    for node in run_broker(clock):
        before = node.get("/v1/brokers")[0]["uptime_s"]
        clock.jump(1000.0)
        assert node.get("/v1/brokers")[0]["uptime_s"] >= before + 1000.0
        check_offset(clock, node)
        with pytest.raises(ValueError, match="does not go back"):
            clock.jump(0.0)
        clock.reset()
        assert clock.offset_s == pytest.approx(1000.0)
