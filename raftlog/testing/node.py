"""One broker of a cluster: a process, the address at which others reach it, and its directory."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raftlog.testing.http import ask
from raftlog.testing.ports import address_of, hold_gossip_port, hold_port
from raftlog.testing.process import PROGRAM, READY_SECONDS_MAX, STOP_SECONDS_MAX, BrokerProcess, wait_ready


class ClusterNode:
    """Made by a `Cluster`. Its ports and its directory stay the same from start to start."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        advertise: Callable[[int, int], str] | None,
        launched: Callable[[], None],
        is_clustered: bool,
        gossips: bool = False,
        advertise_gossip: Callable[[int, int], str] | None = None,
        advertise_http: Callable[[int, int], str] | None = None,
    ) -> None:
        """`advertise(node_id, port)` gives the address at which others reach the RPC port, when it is another one;
        `advertise_gossip` the same for gossip, `advertise_http` for clients."""
        self.node_id = node_id
        self.data_dir = directory / str(node_id)
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
        if advertise_http is not None:
            self.http_public = advertise_http(node_id, self._held[0].getsockname()[1])
        if is_clustered:
            held = hold_port()
            self._held.append(held)
            self.rpc = self.rpc_bound = address_of(held)
            if advertise is not None:
                self.rpc = advertise(node_id, held.getsockname()[1])
        self.gossip: str | None = None
        """The gossip address that it advertises; None when it does not gossip."""
        self.gossip_bound: str | None = None
        """The one that it listens on, which no cut is in front of."""
        self._environment: dict[str, str] = {}
        if is_clustered and gossips:
            self._hold_gossip(advertise_gossip)
        self._log_path = directory / f"{node_id}.log"
        self._process: BrokerProcess

    def _hold_gossip(self, advertise: Callable[[int, int], str] | None) -> None:
        """By environment variables, which a release that knows no gossip leaves alone."""
        held = hold_gossip_port()
        held.udp.close()
        self._held.append(held.tcp)
        self.gossip = self.gossip_bound = held.address
        if advertise is not None:
            self.gossip = advertise(self.node_id, held.tcp.getsockname()[1])
        self._environment = {"RAFTLOG_GOSSIP": self.gossip_bound, "RAFTLOG_ADVERTISE_GOSSIP": self.gossip}

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
        flags = ("--node-id", str(self.node_id), *self._cluster_flags(seeds, secret_path), *self._http_flags(), *flags)
        self._process = BrokerProcess(
            str(self.data_dir),
            *flags,
            http=self.http,
            log_path=self._log_path,
            name=f"node {self.node_id}",
            python=python,
            environment=self._environment,
            at_launch=at_launch,
            program=program,
        )

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

    @property
    def process(self) -> BrokerProcess:
        return self._process

    @property
    def pid(self) -> int:
        """Of the last start."""
        return self._process.pid

    @property
    def command(self) -> list[str]:
        """What starts it by hand."""
        return self._process.command

    @property
    def python(self) -> str:
        """The interpreter of its next start, which may be one with another release of raftlog."""
        return self._process.python

    @python.setter
    def python(self, path: str) -> None:
        self._process.python = path

    @property
    def is_running(self) -> bool:
        """Whether its process is there, paused or not."""
        return self._process.is_running

    @property
    def exit_code(self) -> int | None:
        """Of its last life, negative for a signal; None while it runs."""
        return self._process.exit_code

    def start(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Start it and wait until it serves; its ready line. Raises `BrokerNotReady` with the end of its log."""
        self.launch()
        return self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Start it without waiting, as is needed where it cannot serve before others have started."""
        self._process.launch()
        self.is_paused = False
        self._launched()

    def wait_ready(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Until it has said that it serves, once after each launch; its ready line."""
        if not self._process.ready:
            wait_ready([self._process], timeout_s)
        return self._process.ready

    def restart(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Stop it in an orderly way, and start it again."""
        self.stop()
        return self.start(timeout_s)

    def kill(self) -> None:
        """SIGKILL; nothing when it does not run."""
        self._process.kill()

    def stop(self, timeout_s: float = STOP_SECONDS_MAX) -> int:
        """SIGTERM; the exit code. Raises `BrokerFailed` when it had to be killed after that time."""
        return self._process.stop(timeout_s)

    def pause(self) -> None:
        """SIGSTOP: it stands still while its connections stay."""
        self._process.pause()
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self._process.resume()
        self.is_paused = False

    def log_text(self) -> str:
        """Its stderr, of all its lives."""
        return self._process.log_text()

    def get(self, path: str, timeout_s: float = 10.0) -> Any:
        """The JSON that it answers, whatever the status. Raises `BrokerFailed` when it does not answer."""
        return ask(self.http, path, timeout_s=timeout_s)[1]

    def close(self) -> None:
        """Kill it and give its ports back. Called by the cluster at its end."""
        self._process.close()
        for held in self._held:
            held.close()
