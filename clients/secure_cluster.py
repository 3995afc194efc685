"""Three brokers of `raftlog dev --secure`: TLS on every address, logins, permissions, and a superuser.

It has those members of `raftlog.testing.Cluster` that faults use. `raftlog dev --restart` starts a killed broker
again."""

import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from clients.checks import RUN_S_MAX, Program, output_of, require, wait_until
from clients.packages import ROOT
from raftlog.client import BrokerAddresses
from raftlog.testing import BrokerFailed
from raftlog.testing.http import ask

_NODES: Final = 3
_PORTS: Final = 10 * (_NODES + 1)
_BASES: Final = range(12_000, 30_000, _PORTS)
_ATTEMPTS: Final = 50
_READY_S_MAX: Final = 300.0
_ASK_S_MAX: Final = 5.0


class SecureNode:
    """Broker of the cluster."""

    def __init__(self, cluster: "SecureCluster", description: dict[str, Any]) -> None:
        self._cluster = cluster
        self.node_id = int(description["node_id"])
        self.http, self.kafka = str(description["http"]), str(description["kafka"])
        self._pid: int | None = int(description["pid"])

    @property
    def is_running(self) -> bool:
        """Whether the broker has not been killed since its last start."""
        return self._pid is not None

    def kill(self) -> None:
        """Send SIGKILL."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            self._pid = None

    def start(self, timeout_s: float = _READY_S_MAX) -> None:
        """Start the broker, after a graceful stop if it runs, and wait until it serves."""
        directory = str(self._cluster.data_dir)
        restart = ("--restart", str(self.node_id), "--data-dir", directory, "--json")
        self._pid = json.loads(self._cluster.run("dev", *restart, seconds=timeout_s))["pid"]

    def restart(self, timeout_s: float = _READY_S_MAX) -> None:
        """Stop the broker gracefully, and start it again."""
        self.start(timeout_s)


class SecureCluster:
    """Cluster with TLS and logins, in a `with` block; `python` runs the brokers."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self.directory = Path(tempfile.mkdtemp(prefix="raftlog-secure-"))
        self.data_dir = self.directory / "dev"
        self._held = ExitStack()
        self._dev: Program | None = None
        self.nodes: dict[int, SecureNode] = {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _start(self) -> None:
        """Start `raftlog dev --secure`, and read the addresses and the login that it prints."""
        flags = ("--secure", "--data-dir", str(self.data_dir), "--base-port", str(self._reserve_ports()), "--json")
        self._dev = Program(self._command("dev", *flags), environment={"PYTHONPATH": str(ROOT)})
        self._dev.wait_line("{", _READY_S_MAX)
        described = json.loads(self._dev.lines[0])
        self.ca, self.user = str(described["ca"]), str(described["user"])
        self.password_file = str(described["password_file"])
        self.nodes = {int(each["node_id"]): SecureNode(self, each) for each in described["nodes"]}
        files = {"ca": self.ca, "user": self.user, "password_file": self.password_file}
        self.access = BrokerAddresses([node.http for node in self.nodes.values()], **files)
        self.wrong_ca = self._create_authority()

    def _close(self) -> None:
        """Stop the brokers and delete their data."""
        if self._dev is not None:
            self._dev.terminate()
            self._dev.end(_READY_S_MAX, code=None)
        self._held.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _reserve_ports(self) -> int:
        """Return a base port; this process binds the ports after it, so that only the brokers can listen on them."""
        for base in random.sample(_BASES, _ATTEMPTS):
            with ExitStack() as held, suppress(OSError):
                for port in range(base, base + _PORTS):
                    each = held.enter_context(socket.socket())
                    each.bind(("127.0.0.1", port))
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._held = held.pop_all()
                return base
        raise BrokerFailed(f"none of {_ATTEMPTS} base ports is free")

    def _create_authority(self) -> str:
        """Create a certificate authority that has issued no broker's certificate; return its file."""
        directory = self.directory / "other"
        self.run("tls", "create", str(directory), "--node", "1")
        return str(directory / "authority.pem")

    def _command(self, *arguments: str) -> list[str]:
        return [self._python, "-P", "-m", "raftlog.cli", *arguments]

    def run(self, *arguments: str, given: str = "", seconds: float = RUN_S_MAX) -> str:
        """Run a command of `raftlog`; return its stdout."""
        return output_of(["env", f"PYTHONPATH={ROOT}", *self._command(*arguments)], given, seconds)

    def run_as_admin(self, *arguments: str, given: str = "") -> str:
        """Run a command of `raftlog` with the superuser's login."""
        bootstrap = ("--bootstrap", ",".join(self.access))
        login = ("--ca", self.ca, "--user", self.user, "--password-file", self.password_file)
        return self.run(*arguments, *bootstrap, *login, given=given)

    @property
    def kafka(self) -> str:
        """Addresses of all brokers for `bootstrap.servers`."""
        return ",".join(node.kafka for node in self.nodes.values())

    @property
    def password(self) -> str:
        """Password of the superuser."""
        return Path(self.password_file).read_text().strip()

    def leader(self, topic: str) -> int:
        """Return the node id of the leader of partition 0, as a running broker reports it."""
        found: list[int] = []

        def is_found() -> bool:
            """Return whether the partition has a running leader, which is added to `found`."""
            leader = self._ask(f"/topics/{topic}/partitions/0").get("leader")
            if leader in self.nodes and self.nodes[leader].is_running:  # -1 without a leader
                found.append(leader)
            return bool(found)

        wait_until(is_found, lambda: f"{topic}/0 has no leader", _READY_S_MAX)
        return found[0]

    def wait_healthy(self, timeout_s: float = _READY_S_MAX) -> None:
        """Wait until the cluster is healthy, without lagging replicas."""
        overview: dict[str, Any] = {}

        def is_healthy() -> bool:
            """Return whether the cluster is healthy and no replica lags; store the answer in `overview`."""
            overview.clear()
            overview.update(self._ask("/v1/cluster/health_overview"))
            return bool(overview.get("is_healthy")) and not overview["lagging_count"]

        wait_until(is_healthy, lambda: f"the cluster is not healthy: {overview}", timeout_s)

    def _ask(self, path: str) -> dict[str, Any]:
        """Return the answer of the first running broker that answers with success; empty if none does."""
        for node in self.nodes.values():
            if node.is_running:
                with suppress(BrokerFailed):
                    status, answer = ask(node.http, path, timeout_s=_ASK_S_MAX, access=self.access)
                    if status // 100 == 2:
                        return dict(answer)
        return {}

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        self.run_as_admin("topic", "create", topic, "--partitions", str(partitions))
        require(self.leader(topic) in self.nodes, f"{topic} has no leader")
