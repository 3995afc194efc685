"""Proxy process between the brokers of a cluster: `python -m raftlog.testing.proxy DESCRIPTOR`.

Every broker advertises an address of this process, which forwards bytes to the broker, unless the way is cut. It is a
separate process so that the test, which holds the GIL much of the time, does not slow down the brokers, nor they the
test. The descriptor is a Unix socket with one JSON object a message; ways are [sender, receiver]:

    {"listen": node, "target": [host, port]}   with a listening socket   forward its connections to that node
    {"clients": node, "target": [host, port]}  the same for connections of clients
    {"gossip": node, "target": [host, port]}   with a UDP and a listening socket: the same for gossip
    {"cut": ways, "gossip_cut": ways,          cut exactly these ways, set exactly this weather (the fields of
     "weather": [[fields, ways], …],           `Weather` in their order), and lose that share of gossip's datagrams
     "gossip_weather": …, "gossip_loss": share}
    {"reset": ways}                            reset the connections over these ways
    {"seen": true}                             report the counts of each way
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

from raftlog.testing.gossip_ways import GossipIntroduction, GossipWays
from raftlog.testing.introduction import Introduction, KnownCaller
from raftlog.testing.lane import Lanes, Way
from raftlog.testing.link import Introducing, Link
from raftlog.testing.side import Side
from raftlog.testing.weather import CLIENTS, Weather

MESSAGE_BYTES_MAX: Final = 1 << 17


class Proxy:
    """Links of a cluster, and the faults injected into them."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        random = Random()  # noqa: S311 - no secret
        self._rpc, self._gossip = Lanes(random), Lanes(random)
        self._datagrams = GossipWays(self._gossip, random)
        self._links: dict[Link, None] = {}
        self._servers: list[asyncio.Server] = []
        self._guarded: list[int] = []
        self._orders: asyncio.Queue[tuple[dict[str, Any], list[int]]] = asyncio.Queue()

    async def run(self) -> None:
        """Run until the other end of the control socket is closed."""
        self._control.setblocking(False)
        asyncio.get_running_loop().add_reader(self._control, self._read)
        while True:
            order, descriptors = await self._orders.get()
            if not order:
                self._kill_guarded()
                return
            await self._obey(order, [socket.socket(fileno=descriptor) for descriptor in descriptors])

    def _read(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES_MAX, 2)
        if not message:
            asyncio.get_running_loop().remove_reader(self._control)
        self._orders.put_nowait((orjson.loads(message) if message else {}, descriptors))

    async def _obey(self, order: dict[str, Any], sockets: list[socket.socket]) -> None:
        if "target" in order:
            await self._open(order, (order["target"][0], order["target"][1]), sockets)
        elif "cut" in order:
            self._change(order)
            self._answer({})
        elif "reset" in order:
            ways = _ways(order["reset"])
            self._answer({"reset": sum(link.reset(ways) for link in list(self._links))})
        elif "seen" in order:
            self._answer({"rpc": self._rpc.seen(), "gossip": self._gossip.seen()})
        else:
            self._guarded = order["guard"]

    def _answer(self, answer: dict[str, Any]) -> None:
        self._control.send(orjson.dumps(answer))

    async def _open(self, order: dict[str, Any], target: tuple[str, int], sockets: list[socket.socket]) -> None:
        if "listen" in order:
            await self._listen(sockets[0], order["listen"], target, self._rpc, Introduction)
        elif "clients" in order:
            await self._listen(sockets[0], order["clients"], target, self._rpc, lambda: KnownCaller(CLIENTS))
        else:
            udp, tcp = sockets
            await self._datagrams.add(order["gossip"], target, udp)
            await self._listen(tcp, order["gossip"], target, self._gossip, GossipIntroduction)

    def _change(self, order: dict[str, Any]) -> None:
        changed = self._rpc.change(_ways(order["cut"]), _weather(order["weather"]))
        changed |= self._gossip.change(_ways(order["gossip_cut"]), _weather(order["gossip_weather"]))
        self._datagrams.loss = order["gossip_loss"]
        for link in list(self._links):
            link.renew(changed)

    async def _listen(
        self,
        listening: socket.socket,
        node: int,
        target: tuple[str, int],
        lanes: Lanes,
        introduce: Callable[[], Introducing],
    ) -> None:
        def accept() -> Side:
            link = Link(lanes, introduce(), node, target, lambda link: self._links.pop(link, None))
            self._links[link] = None
            return link.front

        self._servers.append(await asyncio.get_running_loop().create_server(accept, sock=listening))

    def _kill_guarded(self) -> None:
        for pid in self._guarded:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def _ways(given: list[list[int]]) -> set[Way]:
    return {(sender, receiver) for sender, receiver in given}


def _weather(given: list[list[Any]]) -> dict[Way, Weather]:
    return {way: Weather(*fields) for fields, ways in given for way in _ways(ways)}


async def _main(descriptor: int) -> None:
    # The test handles Ctrl-C, and then closes the control socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    await Proxy(socket.socket(fileno=descriptor)).run()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
