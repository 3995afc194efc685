"""Shorter intervals of the balancer, for tests with few brokers that are connected all the time."""

import pytest

from raftlog.partitions.placement.balancing import availability, balancer, planning_task, tenure

SETTLE_S = 0.5


def shorten_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the balancer plan soon after a change, until the end of the test."""
    monkeypatch.setattr(balancer, "LOOK_S", 0.1)
    monkeypatch.setattr(planning_task, "_FIRST_S", 0.1)
    monkeypatch.setattr(availability, "SETTLE_S", SETTLE_S)
    monkeypatch.setattr(tenure, "_STABLE_S", SETTLE_S)
