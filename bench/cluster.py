"""Cluster of three node processes, and commands to them; see `cluster_node`."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import MeasureFailed, require

NODES = (1, 2, 3)
_NOWHERE = ["127.0.0.1", 1]
_LEADER_S_MAX = 20.0
_POLL_S = 0.02


class NodeProcess:
    """Process of one node, with its commands."""

    def __init__(self, number: int, module: str = "bench.cluster_node") -> None:
        self.number = number
        self.first_acks: list[float] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_command(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Send one command and return its answer."""
        assert self._process.stdin is not None, "a child without stdin"
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        while True:
            received = self._read_line()
            if "answer" in received:
                return dict(received["answer"])

    def wait_for_first_ack(self) -> float:
        """Wait until this node, as a new leader, acknowledges a write; return the time of that."""
        while not self.first_acks:
            self._read_line()
        return self.first_acks.pop(0)

    def _read_line(self) -> dict[str, Any]:
        """Return the node's next line of JSON; record the time of its first acknowledgement if the line has it."""
        assert self._process.stdout is not None, "a child without stdout"
        line = self._process.stdout.readline()
        require(bool(line), f"node {self.number} ended: {self._process.poll()}")
        received: dict[str, Any] = json.loads(line)
        if "first_ack_at" in received:
            self.first_acks.append(received["first_ack_at"])
        return received

    def kill(self) -> float:
        """Kill the node by SIGKILL; return the time."""
        at = time.monotonic()
        self._process.kill()
        self._process.communicate()
        return at


class Cluster:
    """Nodes 1 to 3 on loopback, each with its own directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pool = ThreadPoolExecutor(len(NODES))
        self._addresses: dict[int, list[Any]] = {}
        self.disks: dict[int, str] = {}
        self.nodes: dict[int, NodeProcess] = {}
        self.opened_s: dict[int, float] = {}
        """Duration of each node's last recovery, in seconds."""

    def start(self, *numbers: int) -> None:
        """Start the nodes, and send each the addresses of the others."""
        list(self._pool.map(self._open, numbers or NODES))
        for number, node in self.nodes.items():
            node.send_command(
                "set_peers", peers={other: at for other, at in self._addresses.items() if other != number}
            )

    def _open(self, number: int) -> None:
        """Start a child process, and open a node in it with its earlier address and data, if it has some."""
        node = self.nodes[number] = NodeProcess(number)
        port = self._addresses.get(number, ["127.0.0.1", 0])[1]
        peers = {other: self._addresses.get(other, _NOWHERE) for other in NODES if other != number}
        opened = node.send_command(
            "open", data_dir=str(self._directory / str(number)), number=number, port=port, peers=peers
        )
        self._addresses[number], self.disks[number] = opened["address"], opened["disk"]
        self.opened_s[number] = opened["opened_s"]

    def send_to_all(self, name: str, **arguments: Any) -> list[dict[str, Any]]:
        """Send a command to all nodes at once; return their answers."""
        return list(self._pool.map(lambda node: node.send_command(name, **arguments), self.nodes.values()))

    def create(self, groups: int = 0) -> float:
        """Create Raft groups on all three nodes; return the seconds that this took."""
        begin = time.perf_counter()
        self.send_to_all("create", members=list(self.disks.items()), groups=groups)
        return time.perf_counter() - begin

    def wait_for_first_writes(self, groups: int) -> dict[str, float]:
        """Wait until every Raft group acknowledged a write since `write_everywhere`; return the times by group."""
        until = time.monotonic() + _LEADER_S_MAX
        written: dict[str, float] = {}
        while time.monotonic() < until:
            for answer in self.send_to_all("list_written"):
                for group, at in answer.items():
                    written[group] = min(at, written.get(group, at))
            if len(written) >= groups:
                return written
            time.sleep(5 * _POLL_S)
        raise MeasureFailed(f"{len(written)} of {groups} groups took a write within {_LEADER_S_MAX:g} s")

    def wait_for_leader(self) -> NodeProcess:
        """Wait until a node leads the Raft group of the load, and return that node."""
        until = time.monotonic() + _LEADER_S_MAX
        while time.monotonic() < until:
            for node, answer in zip(self.nodes.values(), self.send_to_all("check_leader"), strict=True):
                if answer["leads"]:
                    return node
            time.sleep(_POLL_S)
        raise MeasureFailed(f"no node leads after {_LEADER_S_MAX:g} s")

    def close(self) -> None:
        """Kill all nodes."""
        for node in self.nodes.values():
            node.kill()
        self._pool.shutdown()


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    """Run three nodes until the block ends, and kill them."""
    started = Cluster(directory)
    try:
        started.start()
        yield started
    finally:
        started.close()
