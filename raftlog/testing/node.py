"""Broker of a test cluster: a process, its addresses, and its directory."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raftlog.client.addresses import HTTPS, BrokerAddresses, host_of
from raftlog.testing.http import ask
from raftlog.testing.network import Network
from raftlog.testing.ports import address_of, reserve_gossip_port, reserve_port
from raftlog.testing.process import PROGRAM, READY_SECONDS_MAX, BrokerProcess, wait_ready


class ClusterNode(BrokerProcess):
    """Broker created by a `Cluster`. Its ports and its directory stay the same over restarts."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        launched: Callable[[], None],
        *,
        is_clustered: bool,
        gossips: bool,
        between: Network | None,
        clients: Network | None,
        is_secure: bool = False,
    ) -> None:
        """Reserve the ports of a node.

        `between` is the proxy with the addresses for other brokers, `clients` the one with those for clients; with None
        the node advertises the address that it listens on. `is_secure`: HTTP addresses begin with `https://`."""
        self.node_id = node_id
        self.rpc: str | None = None
        """RPC address that the broker advertises, used as seed; None for a single broker."""
        self.rpc_bound: str | None = None
        """RPC address on which the broker listens, which bypasses the proxy."""
        self.is_paused = False
        self._launched = launched
        self._held = [reserve_port()]
        listening, scheme = address_of(self._held[0]), HTTPS if is_secure else ""
        self.http = f"{scheme}{listening}"
        """HTTP address on which the broker listens, which bypasses the proxy."""
        self.http_public = self.http
        """HTTP address that the broker advertises to clients."""
        self.access: BrokerAddresses | None = None
        """Authority and login for requests; None for a cluster without TLS."""
        log_path, name = directory / f"{node_id}.log", f"node {node_id}"
        super().__init__(directory / str(node_id), http=listening, log_path=log_path, name=name)
        if clients is not None:
            self.http_public = f"{scheme}{clients.add_clients(node_id, self._held[0].getsockname()[1])}"
        if is_clustered:
            held = reserve_port()
            self._held.append(held)
            self.rpc = self.rpc_bound = address_of(held)
            if between is not None:
                self.rpc = between.add(node_id, held.getsockname()[1])
        self._reserve_kafka_port(clients)
        self.gossip: str | None = None
        """Gossip address that the broker advertises; None without gossip."""
        self.gossip_bound: str | None = None
        """Gossip address on which the broker listens, which bypasses the proxy."""
        if is_clustered and gossips:
            self._reserve_gossip_port(between)

    def _reserve_kafka_port(self, clients: Network | None) -> None:
        """Reserve a Kafka port and set its addresses in the environment; releases without Kafka ignore them."""
        held = reserve_port()
        self._held.append(held)
        self.kafka = self.kafka_public = address_of(held)
        """Address for Kafka's clients on which the broker listens, which bypasses the proxy."""
        self._environment |= {"RAFTLOG_KAFKA": self.kafka}
        if clients is not None:
            self.kafka_public = clients.add_clients(self.node_id, held.getsockname()[1])
            """Address that the broker advertises to Kafka's clients."""
            self._environment |= {"RAFTLOG_ADVERTISE_KAFKA": self.kafka_public}

    def _reserve_gossip_port(self, between: Network | None) -> None:
        """Reserve a gossip port and set its addresses in the environment; releases without gossip ignore them."""
        held = reserve_gossip_port()
        held.udp.close()
        self._held.append(held.tcp)
        self.gossip = self.gossip_bound = held.address
        if between is not None:
            self.gossip = between.add_gossip(self.node_id, held.tcp.getsockname()[1])
        self._environment |= {"RAFTLOG_GOSSIP": self.gossip_bound, "RAFTLOG_ADVERTISE_GOSSIP": self.gossip}

    def configure(
        self,
        seeds: list[str],
        secret_path: str,
        flags: tuple[str, ...],
        python: str = sys.executable,
        program: Sequence[str] = PROGRAM,
        at_launch: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Set command line and environment; called once, before the first start.

        `at_launch` is called at each start and returns variables to add to the environment."""
        cluster_flags = (*self._cluster_flags(seeds, secret_path), *self._http_flags())
        self._flags = ("--node-id", str(self.node_id), *cluster_flags, *flags)
        self.python, self._program, self._at_launch = python, tuple(program), at_launch

    def _cluster_flags(self, seeds: list[str], secret_path: str) -> tuple[str, ...]:
        """Return the flags about the cluster; none for a single broker."""
        if self.rpc is None or self.rpc_bound is None:
            return ()
        listening = ("--rpc", self.rpc_bound, "--advertise-rpc", self.rpc)
        cluster = ("--seeds", ",".join(seeds), "--cluster-secret-file", secret_path)
        # Replicas of a partition never share a host; each broker counts as a separate host.
        return (*listening, *cluster, "--host-label", f"host-{self.node_id}")

    def _http_flags(self) -> tuple[str, ...]:
        """Return the flag of the advertised address, if clients connect through a proxy."""
        return ("--advertise-http", host_of(self.http_public)) if self.http_public != self.http else ()

    def __repr__(self) -> str:
        return f"<node {self.node_id} http {self.http} {'running' if self.is_running else 'down'}>"

    def start(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Start the node, wait until it serves, and return its ready line.

        Raises `BrokerNotReady` with the end of its log.
        """
        self.launch()
        return self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Start the process without waiting, because some nodes cannot serve before others have started."""
        super().launch()
        self.is_paused = False
        self._launched()

    def wait_ready(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Wait until the node serves; return its ready line. Called once after each launch."""
        if not self.ready:
            wait_ready([self], timeout_s)
        return self.ready

    def restart(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Stop the node gracefully, and start it again."""
        self.stop()
        return self.start(timeout_s)

    def pause(self) -> None:
        """Stop the process with SIGSTOP; its connections stay open."""
        super().pause()
        self.is_paused = True

    def resume(self) -> None:
        """Resume the process with SIGCONT."""
        super().resume()
        self.is_paused = False

    def get(self, path: str, timeout_s: float = 10.0) -> Any:
        """Return the JSON answer to a GET request, with any status. Raises `BrokerFailed` without an answer."""
        return ask(self.http, path, timeout_s=timeout_s, access=self.access)[1]

    def close(self) -> None:
        """Kill the process and free its ports. Called when the cluster is closed."""
        super().close()
        for held in self._held:
            held.close()
