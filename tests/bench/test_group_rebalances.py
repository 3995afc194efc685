"""Settled groups and the times of their rebalances, with a program in place of the Java consumers."""

import os
import sys
from functools import partial
from pathlib import Path

import pytest

from bench.measure import MeasureFailed
from bench.race import group_rebalances
from bench.race.group_rebalances import MEMBERS, PARTITIONS, GroupProcess, measure_rebalances

JOIN_S, SESSION_S = 1_000, 2_000
"""Times in the output of the program, which does not let them pass."""
MEMBER = f"""
import json, sys, time
def show(members, busy, assigned, after_s=0):
    at_ms = time.monotonic_ns() // 1_000_000 + 1000 * after_s
    print(json.dumps(dict(at_ms=at_ms, members=members, busy=busy, assigned=assigned, shared=0)), flush=True)
members, victim = int(sys.argv[4]), sys.argv[5]
show(members, members - 1, {PARTITIONS} - 1)
if members == {MEMBERS}:
    show(members, members, {PARTITIONS})
    sys.stdin.readline()
    show(members + 1, members, {PARTITIONS})
    show(members + 1, members + 1, {PARTITIONS}, {JOIN_S})
elif members > 1:
    show(members, members, {PARTITIONS})
    with open(victim) as joined:  # as soon as the victim opens it, too
        show(members, members, {PARTITIONS} - {PARTITIONS} // {MEMBERS})
        joined.read()  # until the victim has ended
    show(members, members, {PARTITIONS}, {SESSION_S})
elif victim:
    held = open(victim, "w")
sys.stdin.read()
"""


def make_command(*arguments: object, victim: str = "") -> list[str]:
    """Return the command of the program; `victim` is a named pipe, which the killed member holds open."""
    return [sys.executable, "-c", MEMBER, *map(str, arguments), victim]


def test_a_rebalance_ends_with_the_last_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(group_rebalances, "STABLE_S", 0.1)
    victim = str(tmp_path / "victim")
    os.mkfifo(victim)
    figures = measure_rebalances(partial(make_command, victim=victim), {}, "t")
    assert figures.keys() == {"join_range_s", "join_cooperative_s", "killed_s"}
    assert JOIN_S <= figures["join_range_s"] < JOIN_S + 500
    assert JOIN_S <= figures["join_cooperative_s"] < JOIN_S + 500
    assert SESSION_S <= figures["killed_s"] < SESSION_S + 500


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
