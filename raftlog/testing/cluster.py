"""Cluster of real brokers on loopback that runs during a `with` block.

    with Cluster(3) as cluster:
        cluster.nodes[1].kill()
        cluster.cut([1], [2, 3])
        cluster.heal()

All calls block, and may come from any thread, one at a time. All processes end with the block, even if the program
is killed. A cut is between brokers: clients still reach every running broker, except the brokers that `cut_clients`
disconnects from clients in a cluster with `client_cuts`."""

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from raftlog.client.addresses import BrokerAddresses
from raftlog.cluster_secret import ensure_secret
from raftlog.context import ClosedAtExit
from raftlog.testing.errors import BrokerFailed
from raftlog.testing.faults import NetworkFaults
from raftlog.testing.http import ask
from raftlog.testing.network import Network
from raftlog.testing.node import ClusterNode
from raftlog.testing.process import PROGRAM, READY_SECONDS_MAX, wait_ready
from raftlog.testing.security import ClusterSecurity, prepare_security

POLL_SECONDS: Final = 0.05
"""Pause between two requests while a state is polled."""
LEADER_SECONDS_MAX: Final = 15.0
ASK_SECONDS_MAX: Final = 2.0
"""Timeout of one request while a state is polled; an unresponsive broker must not delay the requests to the others."""


class Cluster(NetworkFaults, ClosedAtExit):
    """Cluster of `nodes` brokers with node ids from 1; for the placement of replicas each is on a separate host."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        data_dir: str | Path | None = None,
        serve_flags: Sequence[str] = (),
        with_cuts: bool = True,
        ready_timeout_s: float = READY_SECONDS_MAX,
        python: str = sys.executable,
        with_gossip: bool = True,
        client_cuts: bool = False,
        environment: Callable[[int], Mapping[str, str]] | None = None,
        program: Sequence[str] = PROGRAM,
        secure: bool = False,
    ) -> None:
        """Prepare a cluster; `start` or the `with` block starts it.

        `data_dir` is kept; without one a temporary directory is used. `serve_flags` go to every `raftlog serve`.
        `with_cuts=False` connects the nodes without the proxy, for measurements. A cluster of one is a single broker
        without any cluster flag: it has no RPC address, and no broker can join it. `python` is the interpreter that
        runs the brokers, with the raftlog installed there, and `program` its arguments before `serve`.
        `with_gossip=False` switches gossip off. `environment(node_id)` is called at each start of a node and returns
        variables to add to its environment. `client_cuts=True` gives the nodes public addresses, so that clients can
        be cut off as well. The brokers are killed when this program ends, also by a signal.

        `secure=True` switches on TLS, logins and permissions for clients, with a superuser; clients take `access` as
        `bootstrap`. Connections between brokers have TLS only with `with_cuts=False`, since the proxy reads them."""
        super().__init__(with_cuts and nodes > 1, client_cuts)
        assert nodes >= 1, f"a cluster of {nodes} nodes"
        self.nodes: dict[int, ClusterNode] = {}
        self._count = nodes
        self._given_dir = Path(data_dir) if data_dir is not None else None
        self._flags = tuple(serve_flags)
        self._ready_timeout_s = ready_timeout_s
        self._python = python
        self._with_gossip = with_gossip
        self._environment = environment
        self._program = tuple(program)
        self._is_secure = secure
        self.security: ClusterSecurity | None = None
        """Authority and superuser, set by `start`; None for a cluster that is not secure."""
        self._guard: Network | None = None
        """Proxy, which kills the brokers if this program ends without `close`; without cuts it forwards nothing."""
        self._seeds: list[str] = []
        self.directory: Path
        """Directory of the cluster, set by `start`; the data of node *n* is in `n/`, its log in `n.log`."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    # start and end

    def start(self) -> None:
        """Start all nodes and wait until they serve; raise `BrokerNotReady` with the log of a node that fails to."""
        self.prepare()
        for node in self.nodes.values():
            node.launch()
        wait_ready(list(self.nodes.values()), self._ready_timeout_s)
        if self._is_secure:
            self.wait_ready(self._ready_timeout_s)  # every node knows the superuser

    def prepare(self) -> None:
        """Create ports, directories and the proxy; `start` calls this. It may be called only once."""
        assert not self.nodes, "the cluster has been started before"
        self.directory = self._given_dir or Path(tempfile.mkdtemp(prefix="raftlog-cluster-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._guard = Network()
        self._network = self._guard if self._with_cuts or self._client_cuts else None
        for number in range(1, self._count + 1):
            self.nodes[number] = self._new_node(number)
        if self._count > 1:
            ensure_secret(self.secret_path)
        if self._is_secure:
            self.security = prepare_security(self.directory, self.nodes)
        self._seeds = [node.rpc for node in self.nodes.values() if node.rpc is not None]
        for node in self.nodes.values():
            self._configure(node, ())

    def close(self) -> None:
        """Kill all processes, and remove the directory unless `data_dir` was given."""
        for node in self.nodes.values():
            node.close()
        self._network = None
        if self._guard is not None:
            with contextlib.suppress(BrokerFailed):  # the proxy has ended already
                self._guard.guard([])
            self._guard.close()
            self._guard = None
        if self._given_dir is None and self.nodes:
            shutil.rmtree(self.directory, ignore_errors=True)

    def add_node(self, *, start: bool = True, flags: Sequence[str] = ()) -> ClusterNode:
        """Add a node with the next node id, which joins the cluster through the seeds; return the node."""
        if not self._seeds:
            raise BrokerFailed(
                "no node can join a broker that was started alone: start the cluster with two nodes or more"
            )
        number = max(self.nodes) + 1
        node = self.nodes[number] = self._new_node(number)
        if self._is_secure:
            prepare_security(self.directory, self.nodes)
        self._configure(node, flags)
        if start:
            node.start(self._ready_timeout_s)
        return node

    def _new_node(self, number: int) -> ClusterNode:
        """Return a node of this cluster that has not started."""
        return ClusterNode(
            number,
            self.directory,
            self._update_guard,
            is_clustered=self._count > 1,
            gossips=self._with_gossip,
            between=self._network if self._with_cuts else None,
            clients=self._network if self._client_cuts else None,
            is_secure=self._is_secure,
        )

    def _configure(self, node: ClusterNode, flags: Sequence[str]) -> None:
        """Set the flags, interpreter and environment of a node for its starts."""
        ask_for, security = self._environment, self.security
        own: list[str] = []
        if security is not None:
            own = security.flags(node.node_id) + (["--plaintext", "rpc"] if self._with_cuts and node.rpc else [])
            node.access = self.access

        def find_environment() -> dict[str, str]:
            """Return the environment for a launch of the node."""
            given = {} if ask_for is None else ask_for(node.node_id)
            return {**({} if security is None else security.environment()), **given}

        node.configure(
            self._seeds,
            self.secret_path,
            (*own, *self._flags, *flags),
            self._python,
            self._program,
            find_environment,
        )

    def _update_guard(self) -> None:
        """Send the running processes to the proxy, which kills them if this program ends."""
        if self._guard is not None:
            self._guard.guard(node.pid for node in self.nodes.values() if node.is_running)

    # addresses and state

    @property
    def secret_path(self) -> str:
        """File of the secret that the nodes share, for `--cluster-secret-file`; created when they start."""
        return str(self.directory / "cluster.secret")

    @property
    def addresses(self) -> list[str]:
        """HTTP addresses of all nodes, for clients to bootstrap from; with `client_cuts` the public ones."""
        return [node.http_public for node in self.nodes.values()]

    @property
    def bootstrap(self) -> str:
        """Addresses of all nodes as one text, for `--bootstrap`."""
        return ",".join(self.addresses)

    @property
    def access(self) -> BrokerAddresses:
        """Addresses of all nodes with the authority and the superuser's login, as `bootstrap` of clients."""
        return BrokerAddresses(self.addresses, **({} if self.security is None else self.security.as_json()))

    @property
    def kafka(self) -> str:
        """Addresses of all nodes for `bootstrap.servers` of Kafka's clients; with `client_cuts` the public ones."""
        return ",".join(node.kafka_public for node in self.nodes.values())

    def logs(self) -> dict[int, str]:
        """Return the stderr of every node, by node id."""
        return {number: node.log_text() for number, node in self.nodes.items()}

    def wait_ready(self, timeout_s: float = READY_SECONDS_MAX) -> None:
        """Wait until every running node that is not paused serves requests."""
        until = time.monotonic() + timeout_s
        for node in self._list_active():
            while not self._is_ready(node):
                if not node.is_running:
                    raise BrokerFailed(f"node {node.node_id} ended{node.log_tail()}")
                _sleep(until, f"node {node.node_id} is not ready after {timeout_s:g} s{node.log_tail()}")

    def wait_healthy(self, timeout_s: float = READY_SECONDS_MAX) -> None:
        """Wait until every running node that is not paused reports a healthy cluster and no lagging replicas."""
        until = time.monotonic() + timeout_s
        for node in self._list_active():
            while not (overview := self._get_health(node)).get("is_healthy") or overview["lagging_count"]:
                _sleep(until, f"not healthy after {timeout_s:g} s, as node {node.node_id} reports: {overview}")

    def wait_unhealthy(self, reason: str, timeout_s: float = READY_SECONDS_MAX) -> list[str]:
        """Wait until a running node reports a reason with this text for an unhealthy cluster; return its reasons."""
        until = time.monotonic() + timeout_s
        while True:
            named = [
                list(map(str, self._get_health(node).get("unhealthy_reasons", []))) for node in self._list_active()
            ]
            for reasons in named:
                if any(reason in each for each in reasons):
                    return reasons
            _sleep(until, f"no node names {reason!r} after {timeout_s:g} s; they name {named}")

    def leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        other_than: Collection[int] = (),
        timeout_s: float = LEADER_SECONDS_MAX,
    ) -> int:
        """Return the node id of a partition's leader: a running node that a majority of the reachable nodes reports.

        After a cut all nodes may report the former leader for a while: with `other_than` this call waits for its
        successor."""
        until = time.monotonic() + timeout_s
        while True:
            active = self._list_active()
            named = [self._reported_leader(node, topic, partition) for node in active]
            for node in active:
                if node.node_id not in other_than and 2 * named.count(node.node_id) > len(active):
                    return node.node_id
            _sleep(until, f"{topic}/{partition} has no leader after {timeout_s:g} s; the nodes name {named}")

    def _list_active(self) -> list[ClusterNode]:
        """Return the nodes that run and are not paused."""
        return [node for node in self.nodes.values() if node.is_running and not node.is_paused]

    def _is_ready(self, node: ClusterNode) -> bool:
        """Return whether the node answers that it is ready."""
        try:
            return ask(node.http, "/v1/status/ready", timeout_s=ASK_SECONDS_MAX, access=node.access)[0] == 200
        except BrokerFailed:
            return False

    def _get_health(self, node: ClusterNode) -> dict[str, Any]:
        """Return the health that a node reports; if it does not answer, an unhealthy one with the error as reason."""
        try:
            return dict(node.get("/v1/cluster/health_overview", ASK_SECONDS_MAX))
        except BrokerFailed as error:
            return {"unhealthy_reasons": [str(error)]}

    def _reported_leader(self, node: ClusterNode, topic: str, partition: int) -> int | None:
        """Return the leader of a partition that a node reports; None if it does not answer."""
        try:
            path = f"/topics/{topic}/partitions/{partition}"
            status, described = ask(node.http, path, timeout_s=ASK_SECONDS_MAX, access=node.access)
        except BrokerFailed:
            return None
        return described.get("leader") if status == 200 else None


def _sleep(until: float, problem: str) -> None:
    """Sleep before the next request; raise `BrokerFailed` after the deadline."""
    if time.monotonic() >= until:
        raise BrokerFailed(problem)
    time.sleep(POLL_SECONDS)
