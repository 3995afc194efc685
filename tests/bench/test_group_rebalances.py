"""Settled groups and the times of their rebalances, with a program in place of the Java consumers."""

import sys

import pytest

from bench.measure import MeasureFailed
from bench.race import group_rebalances
from bench.race.group_rebalances import MEMBERS, PARTITIONS, GroupProcess, measure_rebalances

JOIN_S = 0.5
MEMBER = f"""
import json, sys, time
def show(members, busy, assigned):
    line = dict(at_ms=time.monotonic_ns() // 1_000_000, members=members, busy=busy, assigned=assigned, shared=0)
    print(json.dumps(line), flush=True)
members = int(sys.argv[4])
show(members, members - 1, {PARTITIONS} - 1)
if members == {MEMBERS}:
    show(members, members, {PARTITIONS})
    sys.stdin.readline()
    show(members + 1, members, {PARTITIONS})
    time.sleep({JOIN_S})
    show(members + 1, members + 1, {PARTITIONS})
elif members > 1:
    show(members, members, {PARTITIONS})
    time.sleep(1)
    show(members, members, {PARTITIONS} - {PARTITIONS} // {MEMBERS})
    time.sleep(1.5)
    show(members, members, {PARTITIONS})
sys.stdin.read()
"""


def make_command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", MEMBER, *map(str, arguments)]


def test_a_rebalance_ends_with_the_last_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_rebalances, "STABLE_S", 0.8)
    figures = measure_rebalances(make_command, {}, "t")
    assert figures.keys() == {"join_range_s", "join_cooperative_s", "killed_s"}
    assert JOIN_S <= figures["join_range_s"] < JOIN_S + 0.5
    assert JOIN_S <= figures["join_cooperative_s"] < JOIN_S + 0.5
    assert 0 < figures["killed_s"] < 1.5


def test_a_group_that_does_not_settle_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_rebalances, "SETTLE_S_MAX", 0.5)
    group = GroupProcess(make_command("t", "g", "Range", 1), {})
    try:
        with pytest.raises(MeasureFailed, match="1 members and 110 partitions did not settle"):
            group.wait_until_settled(1, PARTITIONS)
    finally:
        group.stop()


def test_the_end_of_the_members_is_an_error() -> None:
    group = GroupProcess([sys.executable, "-c", "pass"], {})
    try:
        with pytest.raises(MeasureFailed, match="the members of a group ended"):
            group.wait_until_settled(1, PARTITIONS)
    finally:
        group.stop()
