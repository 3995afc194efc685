"""One connection of a Kafka client: splits received bytes into frames, and sends answers in request order.

    begun requests without an answer ≤ pipelined_requests_max,   requests that were read and may not begin yet ≤ 1
    uncharged bytes of requests ≤ UNCHARGED_TOTAL_MAX,           larger ones hold memory of the shared budget

A request begins when all earlier ones of the connection have ended, unless it and those are pipelined. Nothing is read
while no request may begin, the budget has no memory, or the client reads no answers. If the requests of one read take
long, the further ones begin in later turns of the loop (`turns`). Created by `connections`."""

import asyncio
from typing import Final

from raftlog.api.kafka.answer_order import AnswerOrder, Exchange
from raftlog.api.kafka.connection_owner import ConnectionOwner
from raftlog.api.kafka.dispatcher import ConnectionRefused
from raftlog.api.kafka.first_step import start
from raftlog.api.kafka.frame_protocol import FrameProtocol
from raftlog.api.kafka.incoming_frame import FRAME_BYTES_PER_S_MIN, IncomingFrame
from raftlog.api.kafka.login import KafkaLogin
from raftlog.api.kafka.progress import STALL_S, UNCHARGED_ANSWER_BYTES_MAX, ProgressWatch, SweepFinding
from raftlog.api.kafka.wire.errors import MalformedRequest
from raftlog.api.kafka.wire.headers import HEAD_BYTES, body_position, decode_client_id, read_head
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.types import Buffer

FAILED_LOGIN_S: Final = 0.1
"""Time between the answer to a failed login and the end of its connection, the default of Kafka's
`connection.failed.authentication.delay.ms` (KIP-306): a client that finds both at once may not read the answer."""


class KafkaConnection(FrameProtocol):
    """Protocol of one Kafka connection: reads requests, runs them, and sends the answers in order."""

    __slots__ = (
        "_client_id",
        "_is_muted",
        "_is_refused_login",
        "_is_splitting",
        "_is_unread",
        "_is_waiting_for_turn",
        "_next",
        "_order",
        "_out",
        "_out_bytes",
        "_progress",
        "_sent",
        "_turn_end",
        "caller",
        "is_ending",
        "login",
    )

    def __init__(self, owner: "ConnectionOwner[KafkaConnection]", loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(owner, loop)
        self.caller = Caller(ANONYMOUS, "", "", owner.name)
        self._client_id: bytes | None = None
        """Client id of the last request, as received bytes."""
        self._next: Exchange | None = None
        """Request that waits for the end of earlier ones."""
        self._order = AnswerOrder(loop.time())
        self._is_muted = False
        """Whether no request begins for a while, because the client exceeded a quota."""
        self._is_unread = False
        """Whether answers wait in the transport, because the client reads too slowly."""
        self.is_ending = False
        """Whether the connection reads no more, and is closed after the answers to the requests that have begun."""
        self._is_refused_login = False
        """Whether a timer closes the connection, after the answer to a failed login."""
        self._is_splitting = False
        self._turn_end = 0.0
        """Time after which the split ends: requests among its further bytes begin in a later turn of the loop."""
        self._is_waiting_for_turn = False
        """Whether no request begins before a later turn of the loop, because those of this one took long."""
        self._out: list[Buffer] = []
        """Answers that are written once all read bytes are split, or once they are large."""
        self._out_bytes = 0
        self._sent = 0
        """Bytes of answers that were passed to the transport so far."""
        self._progress = ProgressWatch(loop.time())
        self.login: KafkaLogin | None = None
        """State of the login; None where the listener requires none."""

    # ---- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transport has the methods without the class
        self.caller, self.login = self._owner.identify(transport)
        if not self._owner.register(self):
            transport.abort()  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.is_ending = True
        requests = self._owner.requests
        if self._frame is not None:
            requests.release(self._frame)
            self._frame = None
        self._owner.answers.release(self)
        if self._next is not None:
            self._release_memory(self._next)
            self._next = None
        self._rest = None
        self._order.end()
        self._owner.remove(self)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_unread = True

    def resume_writing(self) -> None:
        self._is_unread = False
        self._owner.answers.release(self)
        self._resume()

    def buffer_updated(self, nbytes: int) -> None:
        """Process `nbytes` received bytes, which are where `get_buffer` said."""
        if self.is_ending:
            return
        self._progress.is_active = True
        self._owner.dispatcher.counters.bytes_in += nbytes
        frame = self._frame
        if frame is None or not frame.has_much_room:
            self._split(self._owner.scratch, nbytes)
            return
        frame.note_filled(nbytes)
        if frame.filled == frame.capacity:
            self._continue_frame(frame)

    # ---- frames

    @property
    def _may_read(self) -> bool:
        """Whether one more request may be read from the socket."""
        return (
            self._next is None
            and not self._is_unread
            and not self._is_muted
            and not self._is_waiting_for_turn
            and not self.is_ending
            and len(self._order.pending) < self._owner.settings.pipelined_requests_max
        )

    def _frame_bounds(self) -> tuple[int, int]:
        high = self._owner.settings.request_bytes_max
        return (HEAD_BYTES, high) if self.login is None else self.login.frame_bounds(high)

    def _split(self, data: memoryview, end: int) -> None:
        """Process the complete frames in `data[:end]`, keep the incomplete rest, and write answers that are ready."""
        self._is_splitting = True
        turns = self._owner.turns
        self._turn_end = turns.next_end()
        if turns.is_over:
            self._wait_for_turn()
        self._take_frames(data, end)
        self._is_splitting = False
        self._flush()
        if self._owner.is_stopping and self.is_idle:
            self.finish()

    def _resume(self) -> None:
        """Begin the waiting request, process kept bytes, and resume reading, each if it is allowed now."""
        waiting = self._next
        is_open = not (self._is_unread or self._is_muted or self.is_ending)
        if waiting is not None and self._order.may_begin(waiting.route) and is_open:
            self._next = None
            self._begin(waiting)
        while self._rest is not None and not self._is_waiting_for_memory and self._may_read:
            rest, self._rest = self._rest, None
            self._split(memoryview(rest), len(rest))
        if self._is_read_paused and self._rest is None and not self._is_waiting_for_memory and self._may_read:
            self._is_read_paused = False
            if self._transport is not None:
                self._transport.resume_reading()

    # ---- requests

    def _take(self, frame: memoryview, uncharged: int, owner: IncomingFrame | None) -> None:
        """Process a complete frame: begin its request, or keep it until earlier requests have ended."""
        dispatcher = self._owner.dispatcher
        try:
            if self.login is not None and self.login.is_raw:
                assert dispatcher.raw_login is not None, "a login without its route"
                route, correlation_id, body = dispatcher.raw_login, 0, frame
            else:
                key, version, correlation_id, client_id = read_head(frame)
                route = dispatcher.route(key, version)
                if client_id != self._client_id:
                    self.caller = self.caller._replace(client_id=decode_client_id(client_id))
                    self._client_id = client_id
                body = frame[body_position(frame, client_id, is_tagged=route.is_request_tagged) :]
        except (MalformedRequest, ConnectionRefused) as error:
            if owner is not None:
                self._owner.requests.release(owner)
            self._refuse(str(error))
            return
        dispatcher.counters.requests[route.name] += 1
        self._uncharged += uncharged
        exchange = Exchange(route, correlation_id, body, self.caller, uncharged, owner)
        if not self._order.may_begin(route):
            self._next = exchange
            return
        self._begin(exchange)
        if self._is_splitting and self._owner.turns.clock() >= self._turn_end:
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        """Begin no further request before a later turn of the loop."""
        if not self._is_waiting_for_turn:
            self._is_waiting_for_turn = True
            self._owner.turns.wait(self)

    def begin_kept_requests(self) -> None:
        """Process kept bytes in a later turn of the loop, unless the client has disconnected."""
        self._is_waiting_for_turn = False
        if self._transport is not None and not self._transport.is_closing():
            self._resume()

    def _begin(self, exchange: Exchange) -> None:
        """Begin a request, unless the state of the login forbids it."""
        if self.login is not None:
            if why := self.login.describe_refusal(exchange.route.key):
                self._release_memory(exchange)
                self._refuse(f"{exchange.route!r}: {why}")
                return
            exchange.caller = self.caller
        self._order.begin(exchange)
        run = self._run(exchange)
        # A pipelined handler waits for a commit anyway, and a task is the cheaper way to wait.
        exchange.task = self._loop.create_task(run) if exchange.route.is_pipelined else start(run, self._loop)

    async def _run(self, exchange: Exchange) -> None:
        """Answer one request; raises only `CancelledError`."""
        try:
            login, dispatcher = self.login, self._owner.dispatcher
            order = self._order
            exchange.answer = await dispatcher.answer(exchange.route, exchange.body, exchange.caller, login, order)
            if login is not None:
                self._follow_login(login)
            if dispatcher.rates.is_on and (delay_s := dispatcher.throttle_s(exchange.route, exchange.caller)):
                self._mute(delay_s)
        except ConnectionRefused as error:
            exchange.is_failed = True
            self._refuse(str(error))
        except Exception as error:  # noqa: BLE001 - an error of one handler ends its connection only
            exchange.is_failed = True
            self._owner.dispatcher.report_failure(exchange.route, error)
            self._refuse(f"{exchange.route!r} failed: {type(error).__name__}")
        finally:
            exchange.route.times.observe_since(exchange.began)
            self._end_exchange(exchange)

    def _mute(self, delay_s: float) -> None:
        """Begin no further request for a time (KIP-219)."""
        if not self._is_muted:
            self._is_muted = True
            self._pause_reading()
            self._loop.call_later(delay_s, self._unmute)

    def _unmute(self) -> None:
        self._is_muted = False
        self._resume()

    def _follow_login(self, login: KafkaLogin) -> None:
        """Set the caller after a successful login; after a failed one, close the connection after its answer."""
        if login.failure:
            self._is_refused_login = True
            self._loop.call_later(FAILED_LOGIN_S, self._close)
            self._refuse(login.failure)
        elif login.principal not in (None, self.caller.principal):
            self.caller = self.caller._replace(principal=login.principal)

    def check_login(self, now: float) -> None:
        """Close the connection at once if its login was late, its user was changed, or its token has expired."""
        if self.login is not None and not self.is_ending and (why := self.login.describe_end(now)):
            self._owner.log_closed(self, why)
            self.abort()

    def _release_memory(self, exchange: Exchange) -> None:
        """Release the memory of a request."""
        self._uncharged -= exchange.own_bytes
        if exchange.owner is not None:
            self._owner.requests.release(exchange.owner)

    def _end_exchange(self, exchange: Exchange) -> None:
        """Send the answers that can be sent in order after this request ended; then close or resume the connection."""
        exchange.is_done = True
        exchange.task = None
        exchange.body = memoryview(b"")
        self._release_memory(exchange)
        ready = self._order.take_ready()
        self._out += ready
        self._out_bytes += sum(map(len, ready))
        if not self._is_splitting or self._out_bytes > UNCHARGED_ANSWER_BYTES_MAX:
            self._flush()  # during a split too: nothing else bounds the answers to the requests of one read
        if self._order.is_broken:
            self._close()
        elif not self._order.pending:
            if self.is_ending:
                if not self._is_refused_login:
                    self._close()
            elif self._owner.is_stopping and self.is_idle and not self._is_splitting:
                self.finish()
        if self._is_read_paused or self._next is not None:
            self._loop.call_soon(self._resume)

    def _flush(self) -> None:
        """Write all answers that are ready, in one write; discard them if the client has disconnected."""
        out = self._out
        if not out or self._transport is None:
            return
        size = self._out_bytes
        self._out, self._out_bytes = [], 0
        if self._transport.is_closing():
            return
        self._sent += size
        self._owner.dispatcher.counters.bytes_out += size
        self._transport.writelines(out)
        if self._is_unread and size > UNCHARGED_ANSWER_BYTES_MAX:
            self._owner.answers.take_anyway(self, size)

    # ---- ends

    def _refuse(self, why: str) -> None:
        """Close the connection because of the client's fault, after the answers to the begun requests."""
        if not self.is_ending and self._transport is not None:
            self.is_ending = True
            self._owner.log_closed(self, why)
            self._pause_reading()
            if not self._order.pending:
                self._close()

    def _close(self) -> None:
        """Close the connection after the answers that are ready."""
        self.is_ending = True
        self._flush()
        if self._transport is not None:
            self._transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no request has begun, waits or is arriving."""
        return not (self._order.pending or self._next or self._rest or self._frame or self._head)

    def finish(self) -> None:
        """End an idle connection: send an end of file, and discard input until the client closes, to lose no answer."""
        if self._transport is not None and not self.is_ending:
            self.is_ending = True
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:  # TLS, where `close` sends an end and waits for the other side's
                self._transport.close()

    def abort(self) -> None:
        """Close the connection at once, without sending answers."""
        self.is_ending = True
        if self._transport is not None:
            self._transport.abort()

    def cancel(self) -> None:
        """Cancel all requests of the connection."""
        for exchange in self._order.pending:
            if exchange.task is not None:
                exchange.task.cancel()

    @property
    def transport(self) -> asyncio.Transport | None:
        """Transport of the connection; None once it is lost."""
        return self._transport

    def sweep(self, now: float) -> None:
        """Close the connection if it was idle for too long, or if the client reads or sends too slowly."""
        if self._transport is None:
            return
        unsent, frame = self._transport.get_write_buffer_size(), self._frame
        idle_s_max, is_busy = self._owner.settings.idle_ms_max / 1000, bool(self._order.pending)
        found = self._progress.sweep(now, self._sent, unsent, idle_s_max, is_busy=is_busy)
        if found is SweepFinding.STALLED:
            self._owner.log_closed(self, f"{unsent} bytes of answers are not read, or too slowly, for {STALL_S:.0f} s")
        if found is not SweepFinding.ACTIVE:
            self.abort()
        if frame is not None and frame.held:
            if self._is_read_paused:
                frame.swept_at = 0
            elif frame.is_slow(now, FRAME_BYTES_PER_S_MIN):
                self._refuse(f"a frame arrives with less than {FRAME_BYTES_PER_S_MIN} bytes in a second")
