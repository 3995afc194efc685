"""Rebalances of a group of ten Java consumers: one more joins, and one is killed, with a session of 10 s.

The members are threads of one process (`java/Groups.java`), the killed one is a process of its own. A rebalance ends
with the last change of an assignment, after which every member has partitions and every partition has one member; a
killed member's session is part of its time."""

import json
import os
import select
import time
import uuid
from collections.abc import Callable, Mapping
from typing import IO, Final, NamedTuple

from bench.measure import MeasureFailed
from bench.race.accounting import start_generator, stop_generator
from bench.race.system import Values

MEMBERS: Final = 10
PARTITIONS: Final = 110
"""Number of partitions: each member has equally many in a group of ten, and in a group of eleven."""
RANGE: Final = "RangeAssignor"
COOPERATIVE: Final = "CooperativeStickyAssignor"
STABLE_S: Final = 4.0
"""Time without a change after which a group is settled: longer than the interval of heartbeats, 3 s."""
SETTLE_S_MAX: Final = 60.0
_READ_BYTES: Final = 1 << 16

Command = Callable[..., list[str]]
"""Function that returns the command line of the Java program for a topic, group, assignor and number of members."""


class GroupState(NamedTuple):
    """State of the group in one output line of the Java program."""

    at_ms: int
    members: int
    busy: int
    assigned: int
    shared: int


class GroupProcess:
    """Running members of a group."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._process = start_generator(command, environment, takes_input=True)
        self._rest = b""
        self.pid = self._process.pid

    def add_member(self) -> None:
        """Let one more member join."""
        self._stream(self._process.stdin).write("\n")
        self._stream(self._process.stdin).flush()

    def stop(self) -> None:
        """Kill the members."""
        stop_generator(self._process)

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None, "the streams are pipes"
        return stream

    def wait_until_settled(self, members: int, assigned: int) -> int:
        """Wait until the assignment has not changed for `STABLE_S`; return the time of the last change in ms.

        Raises `MeasureFailed` unless every member then has partitions, and `assigned` partitions have one member."""
        state: GroupState | None = None
        changed_at, until = time.monotonic(), time.monotonic() + SETTLE_S_MAX
        while time.monotonic() < until:
            found = self._read_states()
            if found:
                state, changed_at = found[-1], time.monotonic()
            is_settled = state is not None and state[1:] == (members, members, assigned, 0)
            if state is not None and is_settled and time.monotonic() - changed_at > STABLE_S:
                return state.at_ms
        raise MeasureFailed(f"a group of {members} members and {assigned} partitions did not settle: {state}")

    def _read_states(self) -> list[GroupState]:
        """Return the changes since the last call, after a short wait. Raises `MeasureFailed` at the program's end."""
        output = self._stream(self._process.stdout)
        if not select.select([output], [], [], 0.1)[0]:
            return []
        data = os.read(output.fileno(), _READ_BYTES)
        if not data:
            raise MeasureFailed("the members of a group ended")
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [GroupState(**json.loads(line)) for line in lines if line.strip()]


def measure_rebalances(command: Command, environment: Mapping[str, str], topic: str) -> Values:
    """Return the seconds of all three rebalances; the topic has `PARTITIONS` partitions."""
    return {
        "join_range_s": _measure_join(command, environment, topic, RANGE),
        "join_cooperative_s": _measure_join(command, environment, topic, COOPERATIVE),
        "killed_s": _measure_kill(command, environment, topic),
    }


def _measure_join(command: Command, environment: Mapping[str, str], topic: str, assignor: str) -> float:
    """Return the seconds from the start of one more member until the group has settled."""
    group = GroupProcess(command(topic, _new_group(), assignor, MEMBERS), environment)
    try:
        group.wait_until_settled(MEMBERS, PARTITIONS)
        began = time.monotonic_ns() // 1_000_000  # the clock of Java's System.nanoTime
        group.add_member()
        return (group.wait_until_settled(MEMBERS + 1, PARTITIONS) - began) / 1000
    finally:
        group.stop()


def _measure_kill(command: Command, environment: Mapping[str, str], topic: str) -> float:
    """Return the seconds from the kill of one member until the others have all partitions."""
    name = _new_group()
    others = GroupProcess(command(topic, name, RANGE, MEMBERS - 1), environment)
    victim: GroupProcess | None = None
    try:
        others.wait_until_settled(MEMBERS - 1, PARTITIONS)
        victim = GroupProcess(command(topic, name, RANGE, 1), environment)
        others.wait_until_settled(MEMBERS - 1, PARTITIONS - PARTITIONS // MEMBERS)
        began = time.monotonic_ns() // 1_000_000
        victim.stop()
        return (others.wait_until_settled(MEMBERS - 1, PARTITIONS) - began) / 1000
    finally:
        others.stop()
        if victim is not None:
            victim.stop()


def _new_group() -> str:
    return f"race-{uuid.uuid4().hex[:8]}"
