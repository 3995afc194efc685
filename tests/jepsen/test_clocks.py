"""The clock of a broker is wrong as ordered, its responses show it, and no trace of it is left behind."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.clocks import NodeClock, unsupported_reason
from raftlog.testing import Cluster, ClusterNode

SLACK_S = 1.0
"""A process does not begin at the moment of its launch, from which a drift is counted."""
AWAIT_S = 30.0


@pytest.fixture(autouse=True)
def is_there() -> None:
    assert unsupported_reason() is None


def broker_under(clock: NodeClock) -> Iterator[ClusterNode]:
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
    yield from broker_under(clock)


def shows(clock: NodeClock, node: ClusterNode) -> None:
    """Check that the clock of the broker is ahead as ordered."""
    before = clock.offset_s
    offset_range = clock.offset_range(node.http)
    assert offset_range.least - SLACK_S <= max(before, clock.offset_s), (before, offset_range)
    assert offset_range.most + SLACK_S >= min(before, clock.offset_s), (before, offset_range)


def test_jumps_and_drift_over_two_lives(clock: NodeClock, broker: ClusterNode) -> None:
    shows(clock, broker)
    for seconds in (45.0, -60.0, 0.7):
        clock.jump(seconds)
        shows(clock, broker)
    clock.jump(-50.0)
    error_s = clock.seen(broker.http)
    assert error_s is not None
    assert -60.0 < error_s < -40.0
    clock.drift(100.0)
    until = time.monotonic() + AWAIT_S
    while clock.offset_range(broker.http).least < 50.0:
        assert time.monotonic() < until, clock.offset_s
    clock.drift(1.0)
    shows(clock, broker)
    broker.kill()
    assert clock.seen(broker.http) is None
    broker.start()
    shows(clock, broker)
    assert clock.offset_range(broker.http).least > 40.0
    clock.reset()
    shows(clock, broker)
    assert abs(clock.offset_range(broker.http).least) < 40.0
    with pytest.raises(ValueError, match="stands still"):
        clock.drift(0.0)


def test_a_monotonic_clock_goes_forward_only(tmp_path: Path) -> None:
    clock = NodeClock(tmp_path / "state", with_monotonic=True)
    for node in broker_under(clock):
        before = node.get("/v1/brokers")[0]["uptime_s"]
        clock.jump(1000.0)
        assert node.get("/v1/brokers")[0]["uptime_s"] >= before + 1000.0
        shows(clock, node)
        with pytest.raises(ValueError, match="does not go back"):
            clock.jump(0.0)
        clock.reset()
        assert clock.offset_s == pytest.approx(1000.0)
