"""The process between the brokers of a cluster: `python -m raftlog.testing.proxy DESCRIPTOR`.

Every broker advertises an address of this process, which passes bytes on to it, unless the way is cut. It is a process
of its own so that the test, which holds Python's lock much of the time, does not slow the brokers down, and neither the
other way round. The descriptor is a Unix socket with one JSON object a message:

    {"listen": node, "target": [host, port]}  with a listening socket   connections to it go to that node
    {"cut": [[sender, receiver], …]}          these ways are cut, all others open; answered with {}
    {"gossip": node, "target": [host, port]}  with a UDP and a listening socket: the same for gossip
    {"gossip_cut": […], "loss": share}        these ways of gossip are cut, that share of datagrams is lost; answered
    {"guard": [pid, …]}                       these processes are killed, each with its group, when the test is gone
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import Any

import orjson
import uvloop

from raftlog.testing.gossip_ways import GossipWays
from raftlog.testing.link import Link, Side

_MESSAGE_BYTES_MAX = 1 << 16


class Proxy:
    """All links of a cluster, and what is cut."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._cut: frozenset[tuple[int, int]] = frozenset()
        self._links: dict[Link, None] = {}
        self._servers: list[asyncio.Server] = []
        self._gossip = GossipWays()
        self._guarded: list[int] = []
        self._orders: asyncio.Queue[tuple[dict[str, Any], list[int]]] = asyncio.Queue()

    def is_cut(self, sender: int | None, receiver: int) -> bool:
        return (sender, receiver) in self._cut

    async def run(self) -> None:
        """Until the other end of the control socket is closed."""
        self._control.setblocking(False)
        asyncio.get_running_loop().add_reader(self._control, self._read)
        while True:
            order, descriptors = await self._orders.get()
            if not order:
                self._kill_guarded()
                return
            await self._obey(order, descriptors)

    def _read(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._control, _MESSAGE_BYTES_MAX, 2)
        if not message:
            asyncio.get_running_loop().remove_reader(self._control)
        self._orders.put_nowait((orjson.loads(message) if message else {}, descriptors))

    async def _obey(self, order: dict[str, Any], descriptors: list[int]) -> None:
        if "listen" in order:
            host, port = order["target"]
            await self._listen(socket.socket(fileno=descriptors[0]), order["listen"], (host, port))
        elif "gossip" in order:
            host, port = order["target"]
            udp, tcp = (socket.socket(fileno=descriptor) for descriptor in descriptors)
            await self._gossip.add(order["gossip"], (host, port), udp, tcp)
        elif "gossip_cut" in order:
            cut = frozenset((sender, receiver) for sender, receiver in order["gossip_cut"])
            self._gossip.set_faults(cut, order["loss"])
            self._control.send(b"{}")
        elif "cut" in order:
            self._cut = frozenset((sender, receiver) for sender, receiver in order["cut"])
            for link in list(self._links):
                link.renew()
            self._control.send(b"{}")
        else:
            self._guarded = order["guard"]

    async def _listen(self, listening: socket.socket, node: int, target: tuple[str, int]) -> None:
        def accept() -> Side:
            link = Link(self, node, target, lambda link: self._links.pop(link, None))
            self._links[link] = None
            return link.front

        self._servers.append(await asyncio.get_running_loop().create_server(accept, sock=listening))

    def _kill_guarded(self) -> None:
        for pid in self._guarded:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


async def _main(descriptor: int) -> None:
    # Ctrl-C is for the test, which then closes the control socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    await Proxy(socket.socket(fileno=descriptor)).run()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
