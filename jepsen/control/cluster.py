"""Nodes of the library as a system under test: processes, connections between them, and machines that crash.

A killed node crashes with its machine: only the first part of its bytes under way arrives. If the case includes a power
loss, all unsynced writes are lost.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from jepsen.control import journal
from jepsen.control.relay import Relay
from jepsen.disk import NodeDisk, unsupported_reason
from jepsen.nemeses.fault import Link
from jepsen.nemeses.victims import WithoutFaults
from jepsen.runner.system import SystemFailed
from raftlog.testing import BrokerFailed
from raftlog.testing.http import ask
from raftlog.testing.ports import address_of, reserve_port
from raftlog.testing.process import BrokerProcess, wait_ready
from raftlog.types import TopicPartition

PROGRAM: Final = ("-m", "jepsen.control.node")
CRASH_WAIT_S: Final = 2.0
"""Longest time, in seconds, that a kill waits for a moment at which many entries are lost; a power loss waits 0 s."""
_START_S_MAX: Final = 30.0
_ANSWER_S_MAX: Final = 0.3
_LOOK_S: Final = 0.05


class _WorstCaseRandom(Random):
    """Random generator with which a power loss reverts everything that it may revert."""

    def random(self) -> float:
        """Return the greatest number below 1."""
        return 1.0 - 2**-53

    def choice(self, seq: Any) -> Any:
        """Return the first element."""
        return seq[0]

    def randint(self, a: int, b: int) -> int:
        """Return the lower bound."""
        return a


class WorstDisk(NodeDisk):
    """Disk that loses all unsynced writes at a power loss, and describes the loss by entries of the journal."""

    def __init__(self, data_dir: Path, state_dir: Path) -> None:
        super().__init__(data_dir, state_dir)
        self._journal = data_dir / journal.NAME

    def lose_power(self, random: Random, torn: bool = True) -> str:
        """Lose all unsynced writes; return their description, with the numbers of journal entries before and after."""
        before, syncs = journal.count_entries(self._journal), self.read_counters().syncs
        lost = super().lose_power(_WorstCaseRandom(), torn=False)
        after = journal.count_entries(self._journal)
        return f"it had synced {syncs} times, {lost}: {before} entries in its journal before, {after} after"


class SyncObjCluster(WithoutFaults):
    """Cluster of pysyncobj nodes as a system under test. With `loses_power` its disks are `WorstDisk`."""

    def __init__(
        self, nodes: int, directory: Path, *, lists: int, build: str, delay_ms: float, loses_power: bool
    ) -> None:
        """Reserve ports and prepare the processes of nodes 1 to `nodes`; start none.

        `lists` is the number of replicated lists, `build` the variant of the library, and `delay_ms` the delay of each
        message. With `loses_power` each node has a disk that can lose unsynced writes."""
        self._directory, self._delay_ms = directory, delay_ms
        numbers = range(1, nodes + 1)
        self._held = {kind: {number: reserve_port() for number in numbers} for kind in ("own", "http")}
        names = {number: address_of(held) for number, held in self._held["own"].items()}
        self._addresses = {number: address_of(held) for number, held in self._held["http"].items()}
        self._relay = Relay(names)
        self._paused: set[int] = set()
        self._disks = {
            number: WorstDisk(self._data_dir(number), directory / f"node-{number}.disk")
            for number in (numbers if loses_power else ())
        }
        self._processes = {
            number: BrokerProcess(
                str(self._data_dir(number)),
                *("--own", names[number], "--lists", str(lists), "--build", build),
                *(f"--other={names[other]}={self._relay.ports[number, other]}" for other in numbers if other != number),
                http=self._addresses[number],
                log_path=directory / f"node-{number}.log",
                name=f"node {number}",
                at_launch=self._disks[number].environment if number in self._disks else dict,
                program=PROGRAM,
            )
            for number in numbers
        }
        self._expected_up = dict.fromkeys(numbers, False)

    def _data_dir(self, node: int) -> Path:
        """Return the data directory of a node."""
        return self._directory / f"node-{node}"

    # a system

    def start(self) -> None:
        """Start all nodes and wait until they serve.

        Raises `SystemFailed` if disks cannot be simulated, or if a node does not serve in time."""
        cannot = unsupported_reason() if self._disks else None
        if cannot is not None:
            raise SystemFailed(cannot)
        self._relay.set_delay(self._delay_ms / 1000)
        for node in self._processes:
            self.launch(node)
        try:
            wait_ready(list(self._processes.values()), _START_S_MAX)
        except BrokerFailed as error:
            raise SystemFailed(str(error)) from error
        late = self._wait_serving(time.monotonic() + _START_S_MAX)
        if late:
            raise SystemFailed("; ".join(late))

    def close(self) -> None:
        """Kill all nodes, close the relay, and free the ports."""
        for process in self._processes.values():
            process.close()
        self._relay.close()
        for held in (*self._held["own"].values(), *self._held["http"].values()):
            held.close()

    @property
    def addresses(self) -> Mapping[int, str]:
        return self._addresses

    @property
    def client_addresses(self) -> Mapping[int, str]:
        return self._addresses

    def unexpected_exits(self) -> list[str]:
        """Return a description of each node that exited on its own since the last call."""
        dead = [node for node, is_expected in self._expected_up.items() if is_expected and not self.is_up(node)]
        for node in dead:
            self._expected_up[node] = False
        return [
            f"node {node} ended by itself with {self._processes[node].exit_code}{self._processes[node].log_tail()}"
            for node in dead
        ]

    def recover(self, timeout_s: float) -> list[str]:
        """Restore all links, launch nodes that are down, and wait until all serve; return the problems.

        No problem is returned if all nodes serve within `timeout_s`."""
        until = time.monotonic() + timeout_s
        self._relay.set_delay(0)
        self._relay.cut([])
        for node in self._processes:
            self.launch(node)
        return self._wait_serving(until)

    def _wait_serving(self, until: float) -> list[str]:
        """Wait until all nodes serve, at most until `until` of the monotonic clock.

        Return a description of each that does not."""
        while time.monotonic() < until:
            if all(self.is_serving(node) for node in self._processes):
                return []
            time.sleep(_LOOK_S)
        answer = {node: self._status(node) for node in self._processes}
        return [f"node {node} did not serve: {said}" for node, said in answer.items() if not (said or {}).get("ready")]

    def stop(self) -> list[str]:
        """Stop all nodes with SIGTERM; return the problems: nodes that did not stop, and exit codes other than 0."""
        problems = []
        for node, process in self._processes.items():
            self._expected_up[node] = False
            try:
                code = process.stop()
            except BrokerFailed as error:
                problems.append(str(error))
            else:
                if code:
                    problems.append(f"node {node} stopped with exit code {code}{process.log_tail()}")
        return problems

    def data_dirs(self) -> Mapping[int, Path]:
        """Return an empty mapping: the checks cannot read this format."""
        return {}

    def logs(self) -> Mapping[int, str]:
        """Return the text of each node's log."""
        return {node: process.log_text() for node, process in self._processes.items()}

    # victims

    def is_up(self, node: int) -> bool:
        return self._processes[node].is_running

    def is_serving(self, node: int) -> bool:
        """Return whether the node answers that it is ready."""
        return bool((self._status(node) or {}).get("ready"))

    def is_available(self) -> bool:
        """Return whether all nodes serve."""
        return all(self.is_serving(node) for node in self._processes)

    def is_healthy(self) -> bool:
        """Return whether all nodes serve; the library reports no more."""
        return self.is_available()

    def kill(self, node: int) -> str:
        """Kill the node with SIGKILL, and crash its connections; return the observed effect.

        Without simulated disks the relay waits for a moment at which many acknowledged entries can be lost."""
        process = self._processes[node]
        self._expected_up[node] = False
        self._paused.discard(node)
        words = self._relay.crash(node, 0.0 if self._disks else CRASH_WAIT_S)
        process.kill()
        return f"node {node}, process {process.pid}, ended with {process.exit_code}{f'; {words}' if words else ''}"

    def terminate(self, node: int) -> str:
        """Send SIGTERM to the node; return a description."""
        self._expected_up[node] = False
        self._processes[node].send_sigterm()
        return f"node {node}, process {self._processes[node].pid}, was ordered to end"

    def launch(self, node: int) -> None:
        """Launch the node unless it is up."""
        if not self.is_up(node):
            self._processes[node].launch()
        self._expected_up[node] = True

    def expect_end(self, node: int) -> None:
        """Accept that the node exits on its own until it is launched again."""
        self._expected_up[node] = False

    def pause(self, node: int) -> str:
        """Stop the node with SIGSTOP; return a description."""
        self._processes[node].pause()
        self._paused.add(node)
        return f"node {node}, process {self._processes[node].pid}, was stopped"

    def resume(self, node: int) -> None:
        """Continue the paused node with SIGCONT."""
        self._processes[node].resume()
        self._paused.discard(node)

    def cut(self, rpc: Sequence[Link], gossip: Sequence[Link]) -> None:
        """Cut the links in `rpc` and restore all others; the library has no gossip."""
        self._relay.cut(rpc)

    def link_effects(self, links: Sequence[Link]) -> str:
        """Return the dropped bytes of these links since the last call; empty for none."""
        lost = self._relay.take_lost()
        return ", ".join(f"{a}→{b}: {lost[a, b]:,} bytes dropped" for a, b in links if (a, b) in lost)

    @property
    def disks(self) -> Mapping[int, NodeDisk]:
        return self._disks

    def change(self, shape: str, node: int, place: TopicPartition) -> str:
        """Change nothing: the library's nodes and partitions are fixed."""
        return ""

    def leader(self, place: TopicPartition) -> int | None:
        """Return the node that reports leadership in the highest term; None without a leader."""
        answer = {node: status for node in self._processes if (status := self._status(node)) is not None}
        leaders = [(status["term"], node) for node, status in answer.items() if status["leads"]]
        return max(leaders)[1] if leaders else None

    def _status(self, node: int) -> dict[str, Any] | None:
        """Return the node's answer to `/status`; None if it is down, paused or does not answer."""
        if not self.is_up(node) or node in self._paused:
            return None
        try:
            answer: dict[str, Any] = ask(self._addresses[node], "/status", timeout_s=_ANSWER_S_MAX)[1]
        except BrokerFailed:
            return None
        return answer
