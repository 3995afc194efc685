"""One broker of a cluster: a process, the address at which others reach it, and its directory."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raftlog.testing.http import ask
from raftlog.testing.network import Network
from raftlog.testing.ports import address_of, hold_gossip_port, hold_port
from raftlog.testing.process import PROGRAM, READY_SECONDS_MAX, BrokerProcess, wait_ready


class ClusterNode(BrokerProcess):
    """Made by a `Cluster`. Its ports and its directory stay the same from start to start."""

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
    ) -> None:
        """`between` gives the addresses at which other brokers reach it, `clients` those for clients; None: where it
        listens."""
        self.node_id = node_id
        self.rpc: str | None = None
        """The RPC address that it advertises and that seeds name; None for a broker that is alone."""
        self.rpc_bound: str | None = None
        """The RPC address that it listens on, which no cut is in front of."""
        self.is_paused = False
        self._launched = launched
        self._held = [hold_port()]
        self.http = address_of(self._held[0])
        """Where it listens for clients, which no cut is in front of."""
        self.http_public = self.http
        """Where clients are told to find it."""
        log_path, name = directory / f"{node_id}.log", f"node {node_id}"
        super().__init__(directory / str(node_id), http=self.http, log_path=log_path, name=name)
        if clients is not None:
            self.http_public = clients.add_clients(node_id, self._held[0].getsockname()[1])
        if is_clustered:
            held = hold_port()
            self._held.append(held)
            self.rpc = self.rpc_bound = address_of(held)
            if between is not None:
                self.rpc = between.add(node_id, held.getsockname()[1])
        self.gossip: str | None = None
        """The gossip address that it advertises; None when it does not gossip."""
        self.gossip_bound: str | None = None
        """The one that it listens on, which no cut is in front of."""
        if is_clustered and gossips:
            self._hold_gossip(between)

    def _hold_gossip(self, between: Network | None) -> None:
        """By environment variables, which a release that knows no gossip leaves alone."""
        held = hold_gossip_port()
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
        """What it is started with; called once, before the first start. `at_launch`: what is added to its environment
        at each start."""
        cluster_flags = (*self._cluster_flags(seeds, secret_path), *self._http_flags())
        self._flags = ("--node-id", str(self.node_id), *cluster_flags, *flags)
        self.python, self._program, self._at_launch = python, tuple(program), at_launch

    def _cluster_flags(self, seeds: list[str], secret_path: str) -> tuple[str, ...]:
        if self.rpc is None or self.rpc_bound is None:
            return ()
        listening = ("--rpc", self.rpc_bound, "--advertise-rpc", self.rpc)
        cluster = ("--seeds", ",".join(seeds), "--cluster-secret-file", secret_path)
        # Replicas of a partition never share a host, and here each broker stands for one.
        return (*listening, *cluster, "--host-label", f"host-{self.node_id}")

    def _http_flags(self) -> tuple[str, ...]:
        return ("--advertise-http", self.http_public) if self.http_public != self.http else ()

    def __repr__(self) -> str:
        return f"<node {self.node_id} http {self.http} {'running' if self.is_running else 'down'}>"

    def start(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Start it and wait until it serves; its ready line. Raises `BrokerNotReady` with the end of its log."""
        self.launch()
        return self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Start it without waiting, as is needed where it cannot serve before others have started."""
        super().launch()
        self.is_paused = False
        self._launched()

    def wait_ready(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Until it has said that it serves, once after each launch; its ready line."""
        if not self.ready:
            wait_ready([self], timeout_s)
        return self.ready

    def restart(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Stop it in an orderly way, and start it again."""
        self.stop()
        return self.start(timeout_s)

    def pause(self) -> None:
        """SIGSTOP: it stands still while its connections stay."""
        super().pause()
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        super().resume()
        self.is_paused = False

    def get(self, path: str, timeout_s: float = 10.0) -> Any:
        """The JSON that it answers, whatever the status. Raises `BrokerFailed` when it does not answer."""
        return ask(self.http, path, timeout_s=timeout_s)[1]

    def close(self) -> None:
        """Kill it and give its ports back. Called by the cluster at its end."""
        super().close()
        for held in self._held:
            held.close()
