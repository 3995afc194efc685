"""The product's transport between processes, listening on a simulated port instead of a socket."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, cast

from jepsen.simulation.brokers.wires import ListeningPort
from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.node import Process
from raftlog.cluster_secret import ClusterSecret
from raftlog.runtime.rpc.authentication import credentials_of
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.endpoint import Endpoint
from raftlog.runtime.rpc.handshake import PeerIdentity
from raftlog.runtime.rpc.listener import Listener
from raftlog.runtime.rpc.tcp_transport import TcpTransport
from raftlog.runtime.transport import Envelope
from raftlog.types import NodeId

SECRET: Final = ClusterSecret((b"known to every simulated process",))
_CREDENTIALS: Final = credentials_of(SECRET)


class SimulatedTransport(TcpTransport):
    """Transport of one simulated process, without TLS.

    Its loop is a `WiredLoop`; `watch` sees all messages sent."""

    def __init__(
        self,
        identity: Callable[[], PeerIdentity],
        random: Random,
        draw_nonce: Callable[[int], bytes],
        config: RpcConfig,
        network: SimulatedNetwork,
        process: Process,
        watch: Callable[[Sequence[Envelope]], object],
    ) -> None:
        super().__init__(identity, random, config, credentials=_CREDENTIALS, draw_nonce=draw_nonce, insecure=True)
        self._watch = watch
        self._listener = PortListener(self._endpoint, network, process)

    def send(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Report the messages to `watch`, and send them."""
        self._watch(envelopes)
        super().send(node, envelopes)


class PortListener(Listener):
    """Listener of the transport on a simulated port."""

    def __init__(self, endpoint: Endpoint, network: SimulatedNetwork, process: Process) -> None:
        super().__init__(endpoint, None)
        self._network, self._process = network, process

    def start(self, addresses: list[str], port: int) -> tuple[str, int]:
        """Listen on the port of the first address; return this address."""
        address = addresses[0], port
        listening = cast("object", ListeningPort(self._network, self._process, address))
        self._sockets.append(listening)  # type: ignore[arg-type]  # it has what is used of a socket
        self._begin(self._accept_all(self._sockets[0]))
        return address
