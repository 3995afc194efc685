"""Proxy process between the brokers of a cluster: `python -m raftlog.testing.proxy DESCRIPTOR`.

Every broker advertises an address of this process, which forwards bytes to the broker, unless the link is cut. It is a
separate process so that the test, which holds the GIL much of the time, does not slow down the brokers, nor they the
test. The descriptor is a Unix socket with one JSON object per message; links are [sender, receiver]:

    {"listen": node, "target": [host, port]}   with a listening socket   forward its connections to that node
    {"clients": node, "target": [host, port]}  the same for connections of clients
    {"gossip": node, "target": [host, port]}   with a UDP and a listening socket: the same for gossip
    {"cut": links, "gossip_cut": links,        cut exactly these links, set exactly these conditions (the fields of
     "conditions": [[fields, links], …],       `NetworkConditions` in their order), and lose that share of datagrams
     "gossip_conditions": …, "gossip_loss": share}
    {"reset": links}                            reset the connections over these links
    {"counters": true}                             report the counters of each link
    {"guard": [pid, …]}                        kill these processes, each with its group, when the test has ended

All messages except the last and those that carry a socket are answered with an object once they are done."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from random import Random
from typing import Any, Final

import orjson
import uvloop

from raftlog.testing.caller_identification import HelloIdentification, KnownCaller
from raftlog.testing.gossip_forwarding import GossipForwarder, GossipIdentification
from raftlog.testing.link_state import LinkStates
from raftlog.testing.network_conditions import CLIENTS, Link, NetworkConditions
from raftlog.testing.proxied_connection import CallerIdentification, ProxiedConnection
from raftlog.testing.side import Side

MESSAGE_BYTES_MAX: Final = 1 << 17


class Proxy:
    """Proxy of a cluster: its connections, and the faults that are injected into them."""

    def __init__(self, control: socket.socket) -> None:
        """Receive commands from `control`, a socket of the parent process."""
        self._control = control
        random = Random()  # noqa: S311 - no secret
        self._rpc, self._gossip = LinkStates(random), LinkStates(random)
        self._datagrams = GossipForwarder(self._gossip, random)
        self._connections: dict[ProxiedConnection, None] = {}
        self._servers: list[asyncio.Server] = []
        self._guarded: list[int] = []
        self._commands: asyncio.Queue[tuple[dict[str, Any], list[int]]] = asyncio.Queue()

    async def run(self) -> None:
        """Run until the other end of the control socket is closed."""
        self._control.setblocking(False)
        asyncio.get_running_loop().add_reader(self._control, self._read)
        while True:
            command, descriptors = await self._commands.get()
            if not command:
                self._kill_guarded()
                return
            await self._execute(command, [socket.socket(fileno=descriptor) for descriptor in descriptors])

    def _read(self) -> None:
        """Read one command and its sockets; stop reading at the end of the test."""
        message, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES_MAX, 2)
        if not message:
            asyncio.get_running_loop().remove_reader(self._control)
        self._commands.put_nowait((orjson.loads(message) if message else {}, descriptors))

    async def _execute(self, command: dict[str, Any], sockets: list[socket.socket]) -> None:
        """Execute a command of the test: a new port, changed faults, a reset, counters or the guarded processes."""
        if "target" in command:
            await self._open(command, (command["target"][0], command["target"][1]), sockets)
        elif "cut" in command:
            self._change(command)
            self._answer({})
        elif "reset" in command:
            links = _parse_links(command["reset"])
            self._answer({"reset": sum(connection.reset(links) for connection in list(self._connections))})
        elif "counters" in command:
            self._answer({"rpc": self._rpc.counters(), "gossip": self._gossip.counters()})
        else:
            self._guarded = command["guard"]

    def _answer(self, answer: dict[str, Any]) -> None:
        """Send the answer to a command."""
        self._control.send(orjson.dumps(answer))

    async def _open(self, command: dict[str, Any], target: tuple[str, int], sockets: list[socket.socket]) -> None:
        """Begin to forward a port to a node: for brokers, for clients, or for gossip by UDP and TCP."""
        if "listen" in command:
            await self._listen(sockets[0], command["listen"], target, self._rpc, HelloIdentification)
        elif "clients" in command:
            await self._listen(sockets[0], command["clients"], target, self._rpc, lambda: KnownCaller(CLIENTS))
        else:
            udp, tcp = sockets
            await self._datagrams.add(command["gossip"], target, udp)
            await self._listen(tcp, command["gossip"], target, self._gossip, GossipIdentification)

    def _change(self, command: dict[str, Any]) -> None:
        """Apply the faults in a command to the links and the open connections."""
        changed = self._rpc.change(_parse_links(command["cut"]), _to_conditions(command["conditions"]))
        changed |= self._gossip.change(
            _parse_links(command["gossip_cut"]), _to_conditions(command["gossip_conditions"])
        )
        self._datagrams.loss = command["gossip_loss"]
        for connection in list(self._connections):
            connection.apply_changes(changed)

    async def _listen(
        self,
        listening: socket.socket,
        node: int,
        target: tuple[str, int],
        link_states: LinkStates,
        identification: Callable[[], CallerIdentification],
    ) -> None:
        """Accept connections to a node on a socket, and forward them under the conditions of their links."""

        def accept() -> Side:
            """Return the protocol of an accepted connection."""
            connection = ProxiedConnection(link_states, identification(), node, target, self._forget)
            self._connections[connection] = None
            return connection.front

        self._servers.append(await asyncio.get_running_loop().create_server(accept, sock=listening))

    def _forget(self, connection: ProxiedConnection) -> None:
        """Remove a closed connection."""
        self._connections.pop(connection, None)

    def _kill_guarded(self) -> None:
        """Kill the processes that must not outlive the test, each with its group."""
        for pid in self._guarded:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def _parse_links(given: list[list[int]]) -> set[Link]:
    """Return the links of a command."""
    return {(sender, receiver) for sender, receiver in given}


def _to_conditions(given: list[list[Any]]) -> dict[Link, NetworkConditions]:
    """Return the conditions of a command by link."""
    return {link: NetworkConditions(*fields) for fields, links in given for link in _parse_links(links)}


async def _main(descriptor: int) -> None:
    """Run the proxy until its control socket, the given descriptor, is closed."""
    # The test handles Ctrl-C, and then closes the control socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    await Proxy(socket.socket(fileno=descriptor)).run()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
