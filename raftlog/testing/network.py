"""Client of the proxy in the test's process: it starts the proxy, sends it the faults to inject, and ends it."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from raftlog.testing import process_start
from raftlog.testing.errors import BrokerFailed
from raftlog.testing.network_conditions import Link, LinkCounters, NetworkConditions, TrafficCounters
from raftlog.testing.ports import HOST, address_of, listen_on_free_port, reserve_gossip_port

_ANSWER_SECONDS_MAX: Final = 15.0
_END_SECONDS_MAX: Final = 5.0
_ANSWER_BYTES_MAX: Final = 1 << 17


class Faults(NamedTuple):
    """Faults of all links between nodes, for RPC and for gossip.

    `gossip_loss` is the share of gossip datagrams that is lost between all nodes."""

    cut: Iterable[Link] = ()
    gossip_cut: Iterable[Link] = ()
    conditions: Mapping[Link, NetworkConditions] = {}
    gossip_conditions: Mapping[Link, NetworkConditions] = {}
    gossip_loss: float = 0.0


class Network:
    """Handle of the proxy process. Until it has started, connections wait in the listening sockets."""

    def __init__(self) -> None:
        """Start the proxy process."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWER_SECONDS_MAX)
        self._lock = threading.Lock()
        with theirs:
            self._process = process_start.start(
                [sys.executable, "-m", "raftlog.testing.proxy", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def add(self, node: int, port: int) -> str:
        """Return a new address for other brokers. Connections to it are forwarded to a node's port on loopback."""
        with listen_on_free_port() as listening:
            self._send_command({"listen": node, "target": [HOST, port]}, listening)
            return address_of(listening)

    def add_gossip(self, node: int, port: int) -> str:
        """Return a new address for gossip. Traffic to it is forwarded to a node's gossip port on loopback."""
        with reserve_gossip_port() as held:
            held.tcp.listen()
            self._send_command({"gossip": node, "target": [HOST, port]}, held.udp, held.tcp)
            return held.address

    def add_clients(self, node: int, port: int) -> str:
        """Return a new address for clients. Connections to it are forwarded to a node's port on loopback."""
        with listen_on_free_port() as listening:
            self._send_command({"clients": node, "target": [HOST, port]}, listening)
            return address_of(listening)

    def set_faults(self, faults: Faults) -> None:
        """Replace all faults; they are in effect on return."""
        self._call(
            {
                "cut": sorted(faults.cut),
                "gossip_cut": sorted(faults.gossip_cut),
                "conditions": _group_by_conditions(faults.conditions),
                "gossip_conditions": _group_by_conditions(faults.gossip_conditions),
                "gossip_loss": faults.gossip_loss,
            }
        )

    def cut(self, pairs: Iterable[Link]) -> None:
        """Cut exactly these links, and remove all other faults; the cuts are in effect on return."""
        self.set_faults(Faults(cut=pairs))

    def reset(self, links: Iterable[Link]) -> int:
        """Reset all connections over these links; return their number."""
        return int(self._call({"reset": sorted(links)})["reset"])

    def counters(self) -> dict[Link, LinkCounters]:
        """Return the counters of each link with traffic."""
        answer = self._call({"counters": True})
        rpc, gossip = (
            {(sender, receiver): TrafficCounters(**counts) for sender, receiver, counts in answer[kind]}
            for kind in ("rpc", "gossip")
        )
        return {
            link: LinkCounters(rpc.get(link, TrafficCounters()), gossip.get(link, TrafficCounters()))
            for link in sorted({*rpc, *gossip})
        }

    def _call(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command, wait until it is done, and return the answer."""
        with self._lock:
            self._send_command(command)
            try:
                answer = self._control.recv(_ANSWER_BYTES_MAX)
            except TimeoutError:
                answer = b""
            if not answer:
                raise BrokerFailed("the proxy between the brokers does not answer")
            fields: dict[str, Any] = orjson.loads(answer)
            return fields

    def guard(self, pids: Iterable[int]) -> None:
        """Make the proxy kill exactly these processes, each with its group, when the control socket is closed."""
        self._send_command({"guard": sorted(pids)})

    def close(self) -> None:
        """Stop the proxy and all connections through it."""
        self._control.close()
        try:
            self._process.wait(_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send_command(self, command: dict[str, Any], *sockets: socket.socket) -> None:
        """Send a command and sockets to the proxy; raises `BrokerFailed` if the proxy has ended."""
        try:
            socket.send_fds(self._control, [orjson.dumps(command)], [each.fileno() for each in sockets])
        except OSError as error:
            raise BrokerFailed(f"the proxy between the brokers has ended: {error}") from error


def _group_by_conditions(links: Mapping[Link, NetworkConditions]) -> list[tuple[tuple[float, ...], list[Link]]]:
    """Return the distinct conditions, as tuples, each with its links."""
    kinds: dict[tuple[float, ...], list[Link]] = {}
    for link, conditions in links.items():
        kinds.setdefault(tuple(conditions), []).append(link)
    return list(kinds.items())
