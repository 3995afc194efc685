"""Switchboard of a simulated network: opens streams, carries their messages over links, and breaks them.

It implements the rules of `streams`. All random times and choices come from the network's generator. Invariant: an end
that was severed delivers nothing more, so a stream never has a gap."""

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import NamedTuple, Protocol, TypeAlias

from jepsen.simulation.network.links import MILLISECOND_NS, SECOND_NS, Link, freeze, size_of
from jepsen.simulation.network.streams import Stream
from jepsen.simulation.node import Node, Process
from jepsen.simulation.virtual_time.loop import VirtualLoop

Accept: TypeAlias = Callable[[Stream], object]


class StreamTimes(NamedTuple):
    """Delay until an end detects a break without a reset, drawn evenly between the bounds, and timeout of `connect`."""

    notice_min_ns: int = 50 * MILLISECOND_NS
    notice_max_ns: int = 2 * SECOND_NS
    connect_ns: int = 3 * SECOND_NS
    """Timeout of `connect`, in nanoseconds."""


class StreamNetwork(Protocol):
    """Interface of the network that the switchboard needs."""

    def link(self, source: Node, destination: Node) -> Link:
        """Return the link in this direction."""
        ...

    def record_delivery(self, source: Node, destination: Node) -> None:
        """Add a delivery to the digest of the run."""
        ...

    def drop(self, source: Node, destination: Node, service: str, reason: str) -> None:
        """Count a dropped message."""
        ...


class Switchboard:
    """Simulated TCP connections of a network: listeners, open ends, and the events on them."""

    def __init__(self, network: StreamNetwork, loop: VirtualLoop, random: Random, times: StreamTimes) -> None:
        self._network, self._loop, self._random, self._times = network, loop, random, times
        self._listeners: dict[tuple[int, str], tuple[Process, Accept]] = {}
        self._ends: dict[Stream, None] = {}  # living ends in the order of their opening

    def listen(self, process: Process, service: str, accept: Accept) -> None:
        """Pass streams to the service on the process's node to `accept`, until the process ends."""
        self._listeners[process.node.number, service] = process, accept

    # Opening

    async def connect(self, source: Process, destination: Node, service: str) -> Stream:
        """Open a stream to a service.

        Raises `ConnectionRefusedError` when no process listens there, and `TimeoutError` without an answer."""
        opened: asyncio.Future[Stream] = self._loop.create_future()
        link = self._network.link(source.node, destination)
        if link.is_cut:
            self._network.drop(source.node, destination, service, "cut, no stream opens")
        else:
            arrival_ns = self._loop.now_ns + link.retransmit_delay_ns() + link.delay_ns()
            args = (source, destination, service, opened, link.ticket())
            self._loop.call_at_ns(arrival_ns, self._on_request_arrival, *args)
        timeout = self._loop.call_at_ns(
            self._loop.now_ns + self._times.connect_ns,
            self._answer,
            source,
            opened,
            _timeout_error(destination, service),
        )
        try:
            return await opened
        finally:
            timeout.cancel()

    def _on_request_arrival(
        self, source: Process, destination: Node, service: str, opened: "asyncio.Future[Stream]", ticket: int
    ) -> None:
        """Accept a request to open a stream if a process listens, and send the answer back."""
        if not source.is_alive or opened.done():
            return
        if not self._network.link(source.node, destination).passes(ticket):
            self._network.drop(source.node, destination, service, "cut under way, no stream opens")
            return
        back = self._network.link(destination, source.node)
        arrival_ns = self._loop.now_ns + back.retransmit_delay_ns() + back.delay_ns()
        process, accept = self._listeners.get((destination.number, service), (None, None))
        if process is None or accept is None or not process.is_alive:
            answer: Stream | Exception = _refused_error(destination, service)
        else:
            answer = self._open(source, process, service)
            process.call_soon(accept, answer.peer)
        self._loop.call_at_ns(arrival_ns, self._on_answer_arrival, source, destination, opened, answer, back.ticket())

    def _open(self, source: Process, accepting: Process, service: str) -> Stream:
        """Create both ends of a stream; return the end of `source`, whose `peer` is the other one."""
        near = Stream(self, source, accepting.node, service)
        far = Stream(self, accepting, source.node, service)
        near.peer, far.peer = far, near
        self._ends[near] = self._ends[far] = None
        return near

    def _on_answer_arrival(
        self,
        source: Process,
        destination: Node,
        opened: "asyncio.Future[Stream]",
        answer: Stream | Exception,
        ticket: int,
    ) -> None:
        """Complete the attempt with the stream or the refusal; break a stream that is no longer wanted."""
        service = answer.service if isinstance(answer, Stream) else "refusal"
        if not self._network.link(destination, source.node).passes(ticket):
            self._network.drop(destination, source.node, service, "cut under way, no stream opens")
            if isinstance(answer, Stream):
                self._break_both(answer)
        elif opened.done():
            if isinstance(answer, Stream):
                self._break_both(answer)
        else:
            self._answer(source, opened, answer)

    def _answer(self, source: Process, opened: "asyncio.Future[Stream]", answer: Stream | Exception) -> None:
        """Complete the connection attempt with a stream or an error, in the connecting process."""
        source.call_soon(self._complete_attempt, opened, answer)

    def _complete_attempt(self, opened: "asyncio.Future[Stream]", answer: Stream | Exception) -> None:
        """Set the result of the attempt, unless it has timed out; then break the stream."""
        if opened.done():
            if isinstance(answer, Stream):
                self._break_both(answer)
        elif isinstance(answer, Stream):
            opened.set_result(answer)
        else:
            opened.set_exception(answer)

    # Sending

    def transmit(self, end: Stream, message: object, size_bytes: int | None) -> None:
        """Send a message over the link of this end, in order; without `size_bytes` the size is computed."""
        size = size_of(message) if size_bytes is None else size_bytes
        link = self._network.link(end.process.node, end.peer_node)
        sent_ns = link.sent_ns(self._loop.now_ns, size)
        arrival_ns = end.arrival_ns(sent_ns + link.retransmit_delay_ns() + link.delay_ns())
        end.pending_bytes += size
        if link.is_cut or end.is_severed:
            self._drop_message(end, "cut" if link.is_cut else "stream broken")
        else:
            self._loop.call_at_ns(arrival_ns, self._arrive, end, freeze(message), size, link.ticket())

    def _arrive(self, end: Stream, message: object, size_bytes: int, ticket: int) -> None:
        """Deliver a stream's message to the peer's process, or drop it with the reason."""
        source, destination = end.process.node, end.peer_node
        if end.is_severed:
            self._drop_message(end, "stream broken")
        elif not self._network.link(source, destination).passes(ticket):
            self._drop_message(end, "cut under way")
        elif not end.peer.process.is_alive:
            self._drop_message(end, "no process there")
        else:
            self._network.record_delivery(source, destination)
            end.peer.process.call_soon(end.peer.take, message, size_bytes)

    def _drop_message(self, end: Stream, reason: str) -> None:
        """Count a dropped message of this end, after which nothing more from this end may arrive."""
        end.sever()
        self._network.drop(end.process.node, end.peer_node, end.service, reason)

    def refuse(self, end: Stream) -> None:
        """Reset a stream whose other end no longer exists; otherwise this end would stay open for ever."""
        self._network.drop(end.process.node, end.peer_node, end.service, "the other end is gone")
        back = self._network.link(end.peer_node, end.process.node)
        self._loop.call_at_ns(self._loop.now_ns + back.delay_ns(), self._on_refusal_arrival, end, back.ticket())

    def _on_refusal_arrival(self, end: Stream, ticket: int) -> None:
        """Break the refused end, unless the refusal was lost by a cut."""
        if self._network.link(end.peer_node, end.process.node).passes(ticket):
            self._break(end)

    def finish(self, end: Stream) -> None:
        """Send the end of the stream to the peer, after all messages."""
        link = self._network.link(end.process.node, end.peer_node)
        arrival_ns = end.arrival_ns(self._loop.now_ns + link.retransmit_delay_ns() + link.delay_ns())
        self._loop.call_at_ns(arrival_ns, self._on_finish_arrival, end, link.ticket())

    def _on_finish_arrival(self, end: Stream, ticket: int) -> None:
        """End the peer's stream with `EOFError`; if the end or earlier data was lost, break it later."""
        if self._network.link(end.process.node, end.peer_node).passes(ticket) and not end.is_severed:
            end.peer.process.call_soon(end.peer.fail, EOFError(f"{end.peer}: closed by the peer"))
        else:
            self._break_later(end.peer)

    def forget(self, end: Stream) -> None:
        """Remove the end from the open ones."""
        self._ends.pop(end, None)

    # Breaking

    def on_cut(self, source: Node, destination: Node) -> None:
        """Let each end of the streams between the nodes check later whether its stream is broken."""
        for end in self._ends_between(source, destination):
            self._loop.call_at_ns(self._draw_detection_time(), self._notice_cut, end)

    def _notice_cut(self, end: Stream) -> None:
        """Break the end if data was lost or a link is still cut; otherwise the stream continues."""
        out = self._network.link(end.process.node, end.peer_node)
        back = self._network.link(end.peer_node, end.process.node)
        if out.is_cut or back.is_cut or end.is_severed or end.peer.is_severed:
            self._break(end)

    def reset(self, a: Node, b: Node) -> None:
        """Break both ends of all streams between the two nodes, each at a random time; data in flight is lost."""
        for end in self._ends_between(a, b):
            end.sever()
            self._break_later(end)

    def on_process_crash(self, process: Process) -> None:
        """Break the streams of a crashed process.

        A part of its sent data still arrives; then peers get a reset, or detect the crash by a timeout."""
        for end in [end for end in self._ends if end.process is process]:
            self.forget(end)
            link = self._network.link(process.node, end.peer_node)
            reset_ns = self._loop.now_ns + link.delay_ns()
            sends_reset = self._random.random() < 0.5
            detected_ns = self._draw_detection_time()
            self._loop.call_at_ns(reset_ns, self._on_reset_arrival, end, sends_reset and not link.is_cut, detected_ns)

    def _on_reset_arrival(self, end: Stream, sends_reset: bool, detected_ns: int) -> None:
        """Drop the rest of a crashed process's data; break the peer now by a reset, or at `detected_ns`."""
        end.sever()
        if sends_reset and not self._network.link(end.process.node, end.peer_node).is_cut:
            self._break(end.peer)
        else:
            self._loop.call_at_ns(max(detected_ns, self._loop.now_ns), self._break, end.peer)

    def _break_both(self, end: Stream) -> None:
        """Break this end now and its peer later."""
        self._break(end)
        end.peer.sever()
        self._break_later(end.peer)

    def _break_later(self, end: Stream) -> None:
        """Break the end at the random time at which its process detects the loss."""
        self._loop.call_at_ns(self._draw_detection_time(), self._break, end)

    def _break(self, end: Stream) -> None:
        """End the stream at this end with `ConnectionResetError`."""
        end.process.call_soon(end.fail, ConnectionResetError(errno.ECONNRESET, f"{end} broke"))

    def _ends_between(self, a: Node, b: Node) -> list[Stream]:
        """Return the open ends of all streams between the two nodes."""
        nodes = ((a, b), (b, a))
        return [end for end in self._ends if (end.process.node, end.peer_node) in nodes]

    def _draw_detection_time(self) -> int:
        """Return the random time, in nanoseconds, at which a process detects that its peer is unreachable."""
        times = self._times
        return self._loop.now_ns + self._random.randint(times.notice_min_ns, times.notice_max_ns)


def _refused_error(node: Node, service: str) -> Exception:
    """Return the error of a connection to a service without a listening process."""
    return ConnectionRefusedError(errno.ECONNREFUSED, f"no process listens to {service} on {node.name}")


def _timeout_error(node: Node, service: str) -> Exception:
    """Return the error of a connection attempt without an answer."""
    return TimeoutError(errno.ETIMEDOUT, f"no answer from {service} on {node.name}")
