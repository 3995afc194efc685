"""Procedure of a rolling restart: one unit after another, each only once the cluster is healthy.

    until healthy → maintenance → leads nothing → restart → alive, all in sync → maintenance ends → leads again

A unit is what stops together: a broker, or all workers of a node. Units with a dead broker or one in maintenance come
first, because an earlier run may have ended there; the unit with the controller's leader comes last, so that the
controller moves once. No record shows whether an earlier run or an operator put a broker into maintenance: the run
announces that it ends such a maintenance, which `keep_maintenance` prevents. A step that times out ends the run, and
another run continues there. If the broker was not stopped yet, a maintenance that the run began ends with the run.
After the stop the maintenance stays, for the broker may be down or lack records, and `in_maintenance` names the broker.
Called by `verb`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from raftlog.cli.outcome import CommandFailed
from raftlog.cli.rolling.cluster import ClusterReading, LeaderView, unavailable_reason
from raftlog.cli.rolling.restart_lag import RestartLag, degraded_reason, unhealthy_reason
from raftlog.cli.tables import format_count
from raftlog.errors import RaftlogError, RequestError, UnknownTopic

POLL_S: Final = 0.2
"""Pause between two readings of the cluster."""
LEADERS_BACK_S: Final = 30.0
"""Wait for leaderships to return; missing ones are only reported, since the safety of the restart does not need them.
"""
UNDO_S: Final = 15.0
"""Bound on retries of the request that ends the maintenance of a broker that is not restarted after all."""


class RestartUnit(NamedTuple):
    """Node and the brokers that run on it, which are restarted together."""

    node_id: int
    brokers: tuple[int, ...]


class Restarter(Protocol):
    """Interface of the restarters, which stop and start a unit."""

    async def restart(self, unit: RestartUnit) -> dict[str, Any]:
        """Restart a unit, wait until it serves, and return figures about the restart. Raises `CommandFailed`."""

    def description(self, unit: RestartUnit) -> str:
        """Return a description of how the unit is restarted, such as the command."""


class RestartableCluster(Protocol):
    """Operations of a cluster that a rolling restart needs; `RollingCluster` implements them over HTTP."""

    async def read(self) -> ClusterReading:
        """Return the present brokers and health."""
        ...

    async def set_maintenance(self, node: int, is_on: bool) -> None:
        """Set or end the maintenance mode of a broker."""
        ...

    async def leading_reason(self, node: int) -> str | None:
        """Return why the broker still leads partitions; None once it leads none."""
        ...

    async def leaders(self) -> LeaderView:
        """Return the leaders of all partitions."""
        ...

    async def prefer_others_than(self, nodes: Sequence[int]) -> None:
        """Send the next requests to other brokers than these, if possible."""
        ...


class RollingStep(NamedTuple):
    """Completed step of a rolling restart.

    `event`: its name in JSON; `text`: its description for people; `more`: further fields of the JSON."""

    event: str
    node_id: int
    text: str
    more: dict[str, Any]


T = TypeVar("T")
OnStep = Callable[[RollingStep], None]
Condition = Callable[[], Awaitable[str | None]]
"""Check of a condition: the reason why it does not hold yet, or None."""
OnWait = Callable[[str], None]
"""Display of the present wait, from its description; an empty text ends the display."""


class RollingRestart:
    """Procedure of a rolling restart. `timeout_s` bounds each wait, not the run.

    `keep_maintenance`: brokers that are in maintenance already stay in it."""

    def __init__(
        self,
        cluster: RestartableCluster,
        restarter: Restarter,
        *,
        timeout_s: float,
        on_step: OnStep,
        on_wait: OnWait,
        done: Callable[[RestartUnit], None],
        keep_maintenance: bool = False,
    ) -> None:
        """Prepare to restart brokers unit by unit.

        `timeout_s` limits each wait; `on_step`, `on_wait` and `done` report the progress."""
        self._cluster, self._restarter, self._timeout_s = cluster, restarter, timeout_s
        self._on_step, self._on_wait, self._done = on_step, on_wait, done
        self._keep_maintenance = keep_maintenance
        self.in_maintenance: set[int] = set()
        """Brokers in a maintenance that this run began, or that it is to end."""

    async def run(self, units: Sequence[RestartUnit]) -> None:
        """Restart all units. Raises a `CommandFailed` with the condition that timed out."""
        left = list(units)
        while left:
            unit = next_unit(left, await self._read_with_retries(self._cluster.read))
            await self._restart_unit(unit)
            left.remove(unit)
            self._done(unit)
        await self._wait_until("the cluster is healthy", self._make_healthy_condition())

    async def plan(self, units: Sequence[RestartUnit]) -> list[RollingStep]:
        """Return the steps that `run` would take for the present state of the cluster."""
        seen, leaders = await self._cluster.read(), await self._cluster.leaders()
        left, steps = list(units), []
        while left:
            unit = next_unit(left, seen)
            left.remove(unit)
            led = sum(leaders.led[node] for node in unit.brokers)
            drain = "maintenance on and off around it, "
            state = f"leads {format_count(led, 'partition')}" if all(map(seen.is_alive, unit.brokers)) else "is down"
            if seen.in_maintenance & set(unit.brokers):
                drain = f"{self._describe_maintenance()}, "
            description = self._restarter.description(unit)
            steps.append(
                RollingStep(
                    "would_restart",
                    unit.node_id,
                    f"{state}; {drain}restart: {description}",
                    {"leaders": led, "how": description},
                )
            )
        return steps

    async def _restart_unit(self, unit: RestartUnit) -> None:
        """Drain and restart a unit, then wait until all partitions are in sync and it leads again.

        Raises `CommandFailed` at a timeout."""
        began = time.monotonic()
        await self._read_with_retries(partial(self._cluster.prefer_others_than, unit.brokers))
        before = await self._read_with_retries(self._cluster.read)
        is_up = all(map(before.is_alive, unit.brokers))
        already = before.in_maintenance & set(unit.brokers)
        if already:
            self._report(unit, "already_in_maintenance", self._describe_maintenance())
            if not self._keep_maintenance:
                self.in_maintenance |= already
        leaders = await self._read_with_retries(self._cluster.leaders)
        if is_up:
            await self._wait_until("the cluster is healthy", self._make_healthy_condition())
            try:
                await self._drain(unit, leaders, is_all=len(before.brokers) == len(unit.brokers))
            except CommandFailed:
                await self._end_maintenance(unit, already)
                raise
        self._on_wait(f"node {unit.node_id} restarts")
        figures = await self._restarter.restart(unit)
        self._report(unit, "restarted", "restarted", **figures)
        await self._wait_until(
            f"node {unit.node_id} is back and every partition in sync", self._make_restarted_condition(unit, before)
        )
        kept = already if self._keep_maintenance else frozenset[int]()
        in_maintenance = (await self._read_with_retries(self._cluster.read)).in_maintenance
        for node in in_maintenance & set(unit.brokers) - kept:
            await self._switch_maintenance(node, is_on=False)
        self.in_maintenance.difference_update(unit.brokers)
        self._report(unit, "in_sync", "is in sync", seconds=_seconds_since(began))
        if kept:
            self._report(unit, "stays_in_maintenance", "stays in maintenance")
        else:
            await self._wait_for_leaders(unit)

    def _describe_maintenance(self) -> str:
        """Return how the run treats a broker that is in maintenance already."""
        if self._keep_maintenance:
            return "is in maintenance already and stays in it"
        return "is in maintenance already, which ends after the restart (not with --keep-maintenance)"

    async def _drain(self, unit: RestartUnit, leaders: LeaderView, *, is_all: bool) -> None:
        """Put a unit into maintenance, and wait until it leads nothing. `is_all`: no other broker could lead."""
        led = sum(leaders.led[node] for node in unit.brokers)
        if is_all:
            self._report(
                unit, "begins", f"leads {format_count(led, 'partition')}; no other broker is there", leaders=led
            )
            return
        self._report(unit, "begins", f"leads {format_count(led, 'partition')}; maintenance begins", leaders=led)
        began = time.monotonic()
        for node in unit.brokers:
            self.in_maintenance.add(node)
            await self._switch_maintenance(node, is_on=True)
        for node in unit.brokers:
            await self._wait_until(f"node {node} leads nothing any more", partial(self._cluster.leading_reason, node))
        self._report(unit, "drained", "leads nothing any more", seconds=_seconds_since(began))

    async def _end_maintenance(self, unit: RestartUnit, already: Collection[int]) -> None:
        """End the maintenance that this run began of brokers that were not stopped. `already`: in it before the run."""
        for node in sorted(self.in_maintenance.intersection(unit.brokers).difference(already)):
            try:
                await self._switch_maintenance(node, is_on=False, timeout_s=min(UNDO_S, self._timeout_s))
            except CommandFailed as failed:
                self._report(unit, "stays_in_maintenance", f"stays in maintenance: {failed}")
            else:
                self.in_maintenance.discard(node)
                self._report(unit, "maintenance_ended", "is not stopped; its maintenance ended")

    async def _switch_maintenance(self, node: int, *, is_on: bool, timeout_s: float = 0.0) -> None:
        """Begin or end the maintenance of a broker, with retries: the request is idempotent."""
        what = f"maintenance of node {node} {'begins' if is_on else 'ends'}"

        async def switch() -> str | None:
            """Send the request; a refusal is final, other errors are repeated."""
            try:
                await self._cluster.set_maintenance(node, is_on)
            except RequestError as refused:
                if is_on:
                    self.in_maintenance.discard(node)
                raise CommandFailed(f"refused: {what}: {refused}") from None
            return None

        await self._wait_until(what, switch, timeout_s)

    async def _wait_for_leaders(self, unit: RestartUnit) -> None:
        """Wait, at most `LEADERS_BACK_S`, until the unit leads the partitions that prefer it."""
        began = time.monotonic()

        async def find_missing_leaders() -> str | None:
            """Return how many of the unit's leaderships are missing; None: none."""
            leaders = await self._cluster.leaders()
            missing = sum(leaders.preferred[node] - leaders.led_by_preferred[node] for node in unit.brokers)
            return f"{missing} partitions are led by others" if missing else None

        try:
            await self._wait_until("leaders are back", find_missing_leaders, min(LEADERS_BACK_S, self._timeout_s))
        except CommandFailed as late:
            self._report(unit, "leaders_late", f"continues without all of its leaders: {late}")
        else:
            self._report(unit, "done", "leads again", seconds=_seconds_since(began))

    def _make_healthy_condition(self) -> Condition:
        """Return the condition that the cluster is healthy enough to restart a unit."""
        lagging = RestartLag()

        async def condition() -> str | None:
            """Return why the cluster is not healthy; None once it is."""
            health = (await self._cluster.read()).health
            return unhealthy_reason(health, lagging.add_reading(health, time.monotonic()))

        return condition

    def _make_restarted_condition(self, unit: RestartUnit, before: ClusterReading) -> Condition:
        """Return the condition that a unit has started again and that every partition is in sync."""
        lagging = RestartLag()

        async def condition() -> str | None:
            """Return why the unit has not recovered from its restart; None once it has."""
            seen = await self._cluster.read()
            for node in unit.brokers:
                if not seen.is_alive(node):
                    return f"node {node} does not answer yet"
                epoch = seen.boot_epochs.get(node)
                if epoch is not None and epoch <= before.boot_epochs.get(node, -1):
                    return f"node {node} was not restarted: its boot epoch is the same as before"
            return degraded_reason(seen.health, lagging.add_reading(seen.health, time.monotonic()))

        return condition

    async def _read_with_retries(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to a question about the cluster; failed questions are asked again until the timeout."""
        answers: list[T] = []

        async def ask_once() -> None:
            """Ask the cluster once, and store the answer."""
            answers.append(await ask())

        await self._wait_until("the brokers answer", ask_once)
        return answers[0]

    async def _wait_until(self, label: str, condition: Condition, timeout_s: float = 0.0) -> None:
        """Wait until `condition` returns None. Raises `CommandFailed` with its last reason at the timeout."""
        timeout_s = timeout_s or self._timeout_s
        until, why = time.monotonic() + timeout_s, ""
        self._on_wait(f"waiting until {label}")
        while True:
            try:
                answer = await condition()
            except UnknownTopic:  # the topic was deleted between two requests
                answer = "a topic was deleted just now"
            except RaftlogError as error:
                answer = unavailable_reason(error)
            if answer is None:
                self._on_wait("")
                return
            why = answer
            if time.monotonic() >= until:
                raise CommandFailed(f"timed out after {timeout_s:g} s, waiting until {label}: {why}")
            self._on_wait(f"waiting until {label}: {why}")
            await asyncio.sleep(POLL_S)

    def _report(self, unit: RestartUnit, event: str, text: str, **more: Any) -> None:
        """Report a step of the run."""
        self._on_step(RollingStep(event, unit.node_id, text, more))


def next_unit(remaining: Sequence[RestartUnit], reading: ClusterReading) -> RestartUnit:
    """Return the unit to restart next."""

    def rank(unit: RestartUnit) -> tuple[bool, bool, bool, int]:
        """Return the sort key: units with a dead broker first, then in maintenance; the controller's leader last."""
        return (
            all(map(reading.is_alive, unit.brokers)),
            not reading.in_maintenance & set(unit.brokers),
            reading.health.controller_id in unit.brokers,
            unit.node_id,
        )

    return min(remaining, key=rank)


def _seconds_since(began: float) -> float:
    """Return the seconds since `began` of the monotonic clock, in milliseconds' precision."""
    return round(time.monotonic() - began, 3)
