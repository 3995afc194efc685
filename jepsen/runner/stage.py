"""Interface of a script to a running test: inject faults, wait, query, and state expectations.

    def play(stage: Stage) -> None:
        leader = stage.leader()
        with stage.fault("pause", leader):
            stage.wait(3)
        stage.expect(stage.leader() != leader, "another node leads now")

A script runs in the thread that follows the load, so it waits only through the stage. Faults that it begins and does
not end are ended with the load. The script that draws its faults from a seed is `play_drawn_faults`."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jepsen.nemeses.fault import Fault, FaultKind, InjectedFault, Link, Plane
from jepsen.nemeses.nemesis import Nemesis, Running
from jepsen.runner.cluster import RealCluster
from jepsen.runner.finding import Finding
from jepsen.runner.options import RunOptions
from jepsen.runner.system import System
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask
from raftlog.types import TopicPartition

LOOK_S: Final = 0.02
LEADER_S_MAX: Final = 15.0
ASK_S_MAX: Final = 2.0
LAST_S: Final = 1.0
OWED_S_MAX: Final = 30.0
"""Longest extension of a load, in seconds, for a drawn kind of fault without an observed effect yet."""
FOREVER_S: Final = 1e9


class FoundEnough(Exception):
    """The findings suffice by `RunOptions.is_enough`, so the script ends early."""


class Stage:
    """Running test, with the actions of a script: begin and end faults, wait, check expectations.

    `follow` checks the load once; it may raise `SystemFailed`."""

    def __init__(
        self,
        system: System,
        options: RunOptions,
        note: Callable[[str, dict[str, Any]], None],
        now_s: Callable[[], float],
        follow: Callable[[list[str]], None],
    ) -> None:
        """Prepare a script's access to the system.

        `note` writes to the history, `now_s` returns seconds since the load began, and `follow` receives the faults
        under way."""
        self.system, self.options = system, options
        self.places: tuple[TopicPartition, ...] = options.plan.places()
        self.nodes = sorted(system.addresses)
        """Nodes at the beginning of the test."""
        self.findings: list[Finding] = []
        """Expectations that did not hold."""
        self._note, self.now_s, self._follow = note, now_s, follow
        self._schedule: tuple[Fault, ...] = ()
        self._nemesis = Nemesis(system, (), self.places, note, now_s)

    @property
    def schedule(self) -> tuple[Fault, ...]:
        """Faults that were drawn; empty for other scripts."""
        return self._schedule

    @property
    def nemesis(self) -> Nemesis:
        return self._nemesis

    def draw(self) -> None:
        """Draw the faults of the options' seed, for the whole load."""
        self._schedule = self.options.schedule()
        self._nemesis = Nemesis(self.system, self._schedule, self.places, self._note, self.now_s)

    # time

    def wait(self, seconds: float) -> None:
        """Continue the test for so many seconds."""
        self._continue_until(self.now_s() + seconds)

    def wait_until(self, holds: Callable[[], bool], text: str, timeout_s: float = 30.0) -> bool:
        """Wait until `holds` returns true; return False on a timeout, which is a finding."""
        until = self.now_s() + timeout_s
        while not holds():
            if self.now_s() >= until:
                self.findings.append(Finding("expectation", f"not within {timeout_s:g} s: {text}"))
                return False
            self.wait(5 * LOOK_S)
        return True

    def play_to_the_end(self) -> None:
        """Continue to the end of the load, at least for the time in the options and a little after the script.

        Continues longer when a drawn kind of fault has had no observed effect."""
        end_s = max(self.options.seconds, self.now_s() + LAST_S)
        self._continue_until(end_s)
        if self._nemesis.missing_kinds:
            while self._nemesis.missing_kinds and self.now_s() < end_s + OWED_S_MAX:
                self.wait(5 * LOOK_S)
            self.wait(LAST_S)

    def _continue_until(self, until_s: float) -> None:
        """Begin and end drawn faults until `until_s`. Raises `FoundEnough` once the findings suffice to end the run."""
        while True:
            if self.findings and self.options.is_enough(self.findings):
                raise FoundEnough
            self._nemesis.step()
            self._follow(self._nemesis.under_way)
            left_s = until_s - self.now_s()
            if left_s <= 0:
                return
            time.sleep(min(LOOK_S, left_s))

    # faults

    def begin(
        self,
        kind: FaultKind,
        *nodes: int,
        shape: str = "",
        links: Sequence[Link] = (),
        plane: Plane = "",
        seconds: float | None = None,
        seed: int | None = None,
        amount: float | None = None,
        files: Sequence[str] = (),
    ) -> Running:
        """Begin a fault that lasts until `end`, or for `seconds`. See `roll` and `change` for the other kinds."""
        now_s = self.now_s()
        until_s = FOREVER_S if seconds is None else now_s + seconds
        drawn_seed = self.options.seed + len(self._nemesis.happened) if seed is None else seed
        fault = Fault(
            kind,
            now_s,
            until_s,
            nodes,
            shape,
            tuple(links),
            plane=plane,
            seed=drawn_seed,
            amount=amount,
            files=tuple(files),
        )
        running = self._nemesis.begin(fault)
        assert running is not None, f"{kind} has no end of its own"
        return running

    def end(self, running: Running) -> None:
        """End the fault; add a finding if it had no observed effect, because then the scenario proves nothing."""
        if self._nemesis.end(running) is None:
            self.findings.append(Finding("expectation", f"nothing was seen of: {running.fault}"))

    @contextmanager
    def fault(
        self,
        kind: FaultKind,
        *nodes: int,
        shape: str = "",
        links: Sequence[Link] = (),
        plane: Plane = "",
        amount: float | None = None,
        files: Sequence[str] = (),
    ) -> Iterator[Running]:
        """Begin a fault as `begin` does, and end it after the block."""
        running = self.begin(kind, *nodes, shape=shape, links=links, plane=plane, amount=amount, files=files)
        yield running
        self.end(running)

    @contextmanager
    def client_cut(self, nodes: Sequence[int], *, answers_only: bool) -> Iterator[None]:
        """Cut clients from these nodes in the block: in both directions, or only for the nodes' answers."""
        text = f"{'answers' if answers_only else 'all'} of nodes {', '.join(map(str, nodes))} to clients are lost"
        begin_s = self.now_s()
        self.system.cut_clients(nodes, answers_only=answers_only)
        self.note(f"{text}: begins")
        yield
        proof = self.system.cut_clients((), answers_only=False)
        end_s = self.now_s()
        self.note(f"{text}: ends ({proof})")
        if proof:
            self._nemesis.happened.append(InjectedFault("cut", text, begin_s, end_s, proof, end_s))
        else:
            self.findings.append(Finding("expectation", f"nothing was seen of: {text}"))

    def roll(self, nodes: Sequence[int], seconds: float) -> None:
        """Begin a rolling restart of these nodes, which `wait` continues; no restart begins after `seconds`."""
        now_s = self.now_s()
        self._nemesis.begin(Fault("roll", now_s, now_s + seconds, tuple(nodes)))

    def change(self, shape: str, node: int, place: int = 0) -> None:
        """Request a change of the cluster: join, leave, move or lead (see `members`). `place` numbers a partition."""
        now_s = self.now_s()
        self._nemesis.begin(Fault("members", now_s, now_s, (node,), shape, of_leader=place))

    # questions

    def leader(self, place: TopicPartition | None = None, *, other_than: Sequence[int] = ()) -> int:
        """Wait for a leader of the partition (the first one by default) and return it.

        Without a leader in time a finding is added, and any node is returned."""
        wanted = self.places[0] if place is None else place
        found: list[int] = []

        def is_known() -> bool:
            """Return whether the partition has a leader that is not excluded; store it in `found`."""
            node = self.system.leader(wanted)
            if node is None or node in other_than:
                return False
            found.append(node)
            return True

        if self.wait_until(is_known, f"{wanted} has a leader", LEADER_S_MAX):
            return found[-1]
        return next(node for node in self.nodes if node not in other_than)

    def others(self, *nodes: int) -> list[int]:
        """Return all other nodes that the test started with."""
        return [node for node in self.nodes if node not in nodes]

    def controller_leader(self) -> int:
        """Wait for a leader of the controller and return it, as reported by the first node that answers."""
        found: list[int] = []

        def is_known() -> bool:
            """Return whether any node names the controller's leader; store it in `found`."""
            for node in self.nodes:
                status, answer = self.ask(node, "/v1/cluster/health_overview")
                if status == 200 and answer.get("controller_id") in self.nodes:
                    found.append(int(answer["controller_id"]))
                    return True
            return False

        return found[-1] if self.wait_until(is_known, "the controller has a leader", LEADER_S_MAX) else self.nodes[0]

    def ask(
        self, node: int, path: str, method: str = "GET", body: object = None, timeout_s: float = ASK_S_MAX
    ) -> tuple[int, Any]:
        """Return status and JSON of a node's answer; status 0 without an answer."""
        if node not in self.system.addresses:
            return 0, {"message": f"node {node} does not belong to the cluster any more"}
        try:
            return ask(self.system.addresses[node], path, method=method, body=body, timeout_s=timeout_s)
        except BrokerFailed as error:
            return 0, {"message": str(error)}

    @property
    def brokers(self) -> Cluster:
        """Broker processes, for actions other than faults."""
        assert isinstance(self.system, RealCluster), f"{self.system} has none"
        return self.system.cluster

    def memory_bytes(self, node: int) -> int:
        """Return the resident memory of a node's process, in bytes."""
        pages = int(Path(f"/proc/{self.brokers.nodes[node].pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def wait_served(self, *nodes: int, timeout_s: float = 60.0) -> None:
        """Wait until these nodes (all by default) serve, at most for `recovery_s` of the test."""
        wanted = nodes or tuple(self.nodes)
        timeout_s = min(timeout_s, self.options.recovery_s)
        self.wait_until(lambda: all(map(self.system.is_serving, wanted)), f"nodes {wanted} serve", timeout_s)

    def wait_healthy(self, timeout_s: float = 60.0) -> None:
        """Wait until no replica is down, behind, damaged or being moved; timeout as in `wait_served`."""
        timeout_s = min(timeout_s, self.options.recovery_s)
        self.wait_until(self.system.is_healthy, "the cluster is healthy", timeout_s)

    def expect(self, holds: bool, text: str) -> None:
        """Record whether an expectation holds; a finding if it does not."""
        if not holds:
            self.findings.append(Finding("expectation", f"does not hold: {text}"))
        self.note(f"{text}: {'yes' if holds else 'NO'}")

    def note(self, text: str) -> None:
        """Write a note into the history."""
        self._note(text, {})


def play_drawn_faults(stage: Stage) -> None:
    """Play the faults drawn from the seed."""
    stage.draw()


Script = Callable[[Stage], None]
