"""System under test: unmodified brokers of `raftlog.testing`, each in its own process.

With power losses or disk faults each broker uses its files through a shim library (`jepsen.disk`), and with clock
faults each has a clock of its own (`jepsen.clocks`)."""

import signal
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jepsen.clocks import NodeClock
from jepsen.disk import NodeDisk
from jepsen.nemeses.fault import FaultKind, Link
from jepsen.nemeses.kind_table import FACTS
from jepsen.runner.members import Members
from jepsen.runner.system import SystemFailed
from raftlog.testing import BrokerFailed, Cluster, ClusterNode, LinkCounters, NetworkConditions
from raftlog.testing.environment import merge_environments
from raftlog.testing.http import ask
from raftlog.testing.network_conditions import CLIENTS
from raftlog.types import TopicPartition

_LEADER_S_MAX: Final = 1.0
"""Timeout, in seconds, of a query for leaders: a broker waits half a second for stopped ones before it answers."""
_SERVING_S_MAX: Final = 0.5
_HEALTH_S_MAX: Final = 1.0
_STOPPED: Final = "T"
_STOPPED_S_MAX: Final = 2.0
_STOPPED_LOOK_S: Final = 0.002
_STARTS_MAX: Final = 3
"""Largest number of starts of a node that exits repeatedly at the end of the test."""
PROGRAM: Final = ("-P", "-m", "raftlog.cli")
"""Arguments of the interpreter before `serve`."""


class RealCluster:
    """Cluster of real broker processes as a system under test.

    `directory` holds the brokers' data and logs, and is kept. `faults` are the kinds that may be injected; `program`
    has the arguments of the interpreter before `serve`."""

    def __init__(
        self,
        nodes: int,
        directory: Path,
        serve_flags: Sequence[str] = (),
        faults: Collection[FaultKind] = (),
        program: Sequence[str] = PROGRAM,
        *,
        client_cuts: bool = False,
    ) -> None:
        """Prepare a cluster of `nodes` brokers with data in `directory`; start none.

        Disks and clocks are simulated if a kind in `faults` needs them. `program` is the command of a broker. With
        `client_cuts` clients connect through proxies."""
        self._directory = directory
        beneath = {FACTS[kind].beneath for kind in faults}
        self._has_disks, self._has_clocks = "disk" in beneath, "clock" in beneath
        self._disks: dict[int, NodeDisk] = {}
        self._clocks: dict[int, NodeClock] = {}
        self._counters: dict[Link, LinkCounters] = {}
        self._cluster = Cluster(
            nodes,
            data_dir=directory,
            serve_flags=serve_flags,
            environment=self._environment,
            program=program,
            client_cuts=client_cuts,
        )
        self._expected_up: dict[int, bool] = {}
        self._members: Members | None = None
        self._ordered_to_end: set[int] = set()
        self._unclean: list[str] = []

    def start(self) -> None:
        """Start all brokers and wait until they serve. Raises `SystemFailed`."""
        try:
            self._cluster.start()
        except BrokerFailed as error:
            raise SystemFailed(str(error)) from error
        self._expected_up = dict.fromkeys(self._cluster.nodes, True)
        self._members = Members(self._cluster, self.launch)

    def close(self) -> None:
        """Kill all brokers, and remove files that their clocks left."""
        self._cluster.close()
        for node, clock in self._clocks.items():
            clock.remove_leftovers(self._cluster.nodes[node].pid)

    def _environment(self, node: int) -> Mapping[str, str]:
        """Return the environment for the next start of a node: its simulated disk and clock."""
        beneath = self._directory / "beneath" / str(node)
        parts: list[Mapping[str, str]] = []
        if self._has_disks:
            disk = self._disks.setdefault(node, NodeDisk(self._directory / str(node), beneath / "disk"))
            parts.append(disk.environment())
        if self._has_clocks:
            clock = self._clocks.setdefault(node, NodeClock(beneath / "clock"))
            parts.append(clock.environment())
        return merge_environments(*parts)

    @property
    def addresses(self) -> Mapping[int, str]:
        """Addresses of the nodes that belong to the cluster."""
        return {number: self._cluster.nodes[number].http for number in self._remaining_nodes()}

    @property
    def client_addresses(self) -> Mapping[int, str]:
        """HTTP addresses for clients, by node id; with client cuts these are proxies."""
        return {number: self._cluster.nodes[number].http_public for number in self._remaining_nodes()}

    @property
    def kafka_addresses(self) -> Mapping[int, str]:
        """Addresses of the Kafka listeners for clients, by node id."""
        return {number: self._cluster.nodes[number].kafka_public for number in self._remaining_nodes()}

    def _remaining_nodes(self) -> list[int]:
        """Return the nodes that have not been ordered to leave the cluster."""
        return list(self._cluster.nodes) if self._members is None else self._members.remaining_nodes()

    # faults

    def change(self, shape: str, node: int, place: TopicPartition) -> str:
        """Change the members or replicas of the cluster (`Members.change`); return a description."""
        assert self._members is not None, "the system has not been started"
        return self._members.change(shape, node, place)

    def is_up(self, node: int) -> bool:
        return self._cluster.nodes[node].is_running

    def is_serving(self, node: int) -> bool:
        """Return whether the broker answers that it is ready, within `_SERVING_S_MAX` seconds."""
        try:
            return ask(self._cluster.nodes[node].http, "/v1/status/ready", timeout_s=_SERVING_S_MAX)[0] == 200
        except BrokerFailed:
            return False

    def kill(self, node: int) -> str:
        """Kill the node with SIGKILL; return a description.

        A node that had already exited on its own is recorded as unclean."""
        victim = self._cluster.nodes[node]
        was_expected_up, self._expected_up[node] = self._expected_up[node], False
        self._ordered_to_end.discard(node)
        pid = victim.pid
        victim.kill()
        if was_expected_up and victim.exit_code != -signal.SIGKILL:  # it was dead already
            self._unclean.append(f"node {node} ended by itself with {victim.exit_code}{victim.log_tail()}")
        if node in self._clocks:
            self._clocks[node].remove_leftovers(pid)
        return f"node {node}, process {pid}, ended with {victim.exit_code}"

    def is_available(self) -> bool:
        """Return whether all brokers are up and every partition has a leader, by the cluster's health."""
        health = self._health()
        return health is not None and not health["nodes_down"] and not health["leaderless_count"]

    def is_healthy(self) -> bool:
        """Return whether the cluster is healthy, no replica lags, and no reassignment is under way."""
        health = self._health()
        if health is None or not health["is_healthy"]:
            return False
        return not health["reconfigurations_count"] and not health["lagging_count"]

    def _health(self) -> dict[str, Any] | None:
        """Return the health overview of the first node that answers within a short timeout; None without one."""
        for node in self._cluster.nodes.values():
            if node.is_running and not node.is_paused:
                try:
                    answer = ask(node.http, "/v1/cluster/health_overview", timeout_s=_HEALTH_S_MAX)
                except BrokerFailed:
                    continue
                return dict(answer[1]) if answer[0] == 200 else None
        return None

    def terminate(self, node: int) -> str:
        """Send SIGTERM to the node; return a description."""
        self._expected_up[node] = False
        victim = self._cluster.nodes[node]
        victim.send_sigterm()
        self._ordered_to_end.add(node)
        return f"node {node}, process {victim.pid}, was ordered to end"

    def launch(self, node: int) -> None:
        """Launch the node unless it is up. A broker that is leaving the cluster may exit at any time."""
        if not self.is_up(node):
            self._record_exit(node)
            if node in self._clocks:
                self._clocks[node].remove_leftovers(self._cluster.nodes[node].pid)
            self._cluster.nodes[node].launch()
        self._expected_up[node] = node in self._remaining_nodes()  # a broker that left the cluster may exit

    def expect_end(self, node: int) -> None:
        """Accept that the node exits on its own until it is launched again."""
        self._expected_up[node] = False

    def _record_exit(self, node: int) -> None:
        """Record the exit of a broker; a terminated one that was not killed meanwhile must exit with 0.

        SIGTERM may also end the interpreter before the broker begins, which logs something first."""
        process = self._cluster.nodes[node]
        has_not_begun = process.exit_code == -signal.SIGTERM and not process.has_logged
        must_be_clean = node in self._ordered_to_end and node in self._remaining_nodes() and not has_not_begun
        if must_be_clean and process.exit_code != 0:
            self._unclean.append(f"node {node} stopped with exit code {process.exit_code}{process.log_tail()}")
        self._ordered_to_end.discard(node)

    def pause(self, node: int) -> str:
        """Stop the process with SIGSTOP; return a description, empty if it was not stopped."""
        victim = self._cluster.nodes[node]
        victim.pause()
        state = _wait_stopped(victim.pid)
        return f"node {node}, process {victim.pid}, is in state {state}" if state == _STOPPED else ""

    def resume(self, node: int) -> None:
        """Continue the paused node with SIGCONT."""
        self._cluster.nodes[node].resume()

    def cut(self, rpc: Sequence[Link], gossip: Sequence[Link]) -> None:
        """Cut these links and restore all others, for RPC and for gossip."""
        self._cluster.set_cuts(rpc, gossip)

    def set_conditions(self, links: Sequence[Link], conditions: NetworkConditions) -> None:
        """Set the conditions of these links; `NetworkConditions()` removes them."""
        self._cluster.set_conditions(links, conditions)

    def reset_connections(self, links: Sequence[Link]) -> int:
        """Reset the connections on these links; return their number."""
        return self._cluster.reset_connections(links)

    def cut_clients(self, nodes: Sequence[int], *, answers_only: bool) -> str:
        """Cut these nodes from their clients and restore all others.

        Return a description of the data dropped so far."""
        every = [link for node in self._cluster.nodes for link in ((CLIENTS, node), (node, CLIENTS))]
        text = self.link_effects(every)
        self._cluster.heal_clients()
        if nodes:
            self._cluster.cut_clients(nodes, answers_only=answers_only)
        return text

    def link_effects(self, links: Sequence[Link]) -> str:
        """Return a description of dropped and delayed messages on the links since the last call; empty for none."""
        now = self._cluster.counters()
        effects = [
            f"{_format_link(link)}: {text}"
            for link in links
            if link in now and (text := self._describe_effects(link, now[link]))
        ]
        return "; ".join(effects)

    def _describe_effects(self, link: Link, counters: LinkCounters) -> str:
        """Return a description of the effects on a link since the last call."""
        more = counters.subtract(self._counters[link]) if link in self._counters else counters
        self._counters[link] = counters
        by_kind = ((name, str(traffic)) for name, traffic in (("RPC", more.rpc), ("gossip", more.gossip)))
        return ", ".join(f"{name} {text}" for name, text in by_kind if text != "nothing")

    @property
    def cluster(self) -> Cluster:
        """Broker processes, for scripts that need more access than faults."""
        return self._cluster

    @property
    def disks(self) -> Mapping[int, NodeDisk]:
        return self._disks

    @property
    def clocks(self) -> Mapping[int, NodeClock]:
        return self._clocks

    def clock_error_s(self, node: int) -> float | None:
        """Return the offset of the node's clock in seconds, measured by its answers; None if unknown."""
        return self._clocks[node].measure_offset(self._cluster.nodes[node].http)

    def leader(self, place: TopicPartition) -> int | None:
        """Return the leader as reported by the first node that answers within a short timeout; None without one."""
        for node in self._cluster.nodes.values():
            if node.is_running and not node.is_paused:
                try:
                    answer = ask(
                        node.http, f"/topics/{place.topic}/partitions/{place.partition}", timeout_s=_LEADER_S_MAX
                    )
                except BrokerFailed:
                    continue
                leader = answer[1].get("leader") if answer[0] == 200 else None
                if leader in self._cluster.nodes:
                    return int(leader)
        return None

    # the end

    def unexpected_exits(self) -> list[str]:
        """Return a description of each broker that exited on its own since the last call."""
        dead = [self._cluster.nodes[node] for node in self._remaining_nodes() if self._expected_up[node]]
        dead = [node for node in dead if not node.is_running]
        for node in dead:
            self._expected_up[node.node_id] = False
        unclean, self._unclean = self._unclean, []
        return unclean + [
            f"node {node.node_id} ended by itself with {node.exit_code}{node.log_tail()}" for node in dead
        ]

    def recover(self, timeout_s: float) -> list[str]:
        """Launch all brokers, and wait until they serve and membership changes are complete; return the problems.

        A broker that exits is launched again, at most `_STARTS_MAX` times in all."""
        until = time.monotonic() + timeout_s
        problems: list[str] = []
        for _ in range(_STARTS_MAX):
            problems += self.unexpected_exits()
            for node in self._cluster.nodes:
                self.launch(node)
            try:
                self._wait_ready(until)
            except BrokerFailed as error:
                problems.append(str(error))
                if self._are_all_up():
                    break  # they run and do not serve: another start would hide that
            else:
                break
        if self._members is not None:
            problems += self._members.settle(until)
        return problems

    def _wait_ready(self, until: float) -> None:
        """Wait until all nodes that belong to the cluster serve. Raises `BrokerFailed`."""
        for node in (self._cluster.nodes[number] for number in self._remaining_nodes()):
            node.wait_ready(max(1.0, until - time.monotonic()))

    def _are_all_up(self) -> bool:
        """Return whether all remaining nodes run."""
        return all(self.is_up(node) for node in self._remaining_nodes())

    def stop(self) -> list[str]:
        """Stop the remaining brokers with SIGTERM; return a description of each that did not stop cleanly."""
        nodes = [self._cluster.nodes[node] for node in self._remaining_nodes()]
        return [problem for node in nodes if (problem := _stop(node)) is not None]

    def data_dirs(self) -> Mapping[int, Path]:
        """Return the data directory of each remaining node."""
        return {number: self._cluster.nodes[number].data_dir for number in self._remaining_nodes()}

    def logs(self) -> Mapping[int, str]:
        return self._cluster.logs()


def _format_link(link: Link) -> str:
    """Return the text of a link: "from→to"."""
    return "→".join("clients" if node == CLIENTS else str(node) for node in link)


def _stop(node: ClusterNode) -> str | None:
    """Stop a broker with SIGTERM; return the problem, or None if it exited with code 0."""
    if not node.is_running:
        return f"node {node.node_id} was down at the end, exit code {node.exit_code}"
    try:
        code = node.stop()
    except BrokerFailed as error:
        return str(error)
    return f"node {node.node_id} stopped with exit code {code}{node.log_tail()}" if code else None


def _wait_stopped(pid: int) -> str:
    """Wait until the process is stopped, or until a timeout; return its state letter in `/proc/PID/stat`."""
    until = time.monotonic() + _STOPPED_S_MAX
    while True:
        # The name may hold anything, parentheses too; the state follows the last one.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == _STOPPED or time.monotonic() >= until:
            return state
        time.sleep(_STOPPED_LOOK_S)
