"""Order of the requests and answers of one connection.

A request begins when all earlier ones have ended, unless it and those are pipelined. Answers are sent in the order of
the requests, although requests may end in another order. If a request fails without an answer, the connection is closed
before later answers: the client would take one of them for the missing answer. Pure; used by `connection`."""

import asyncio
from collections.abc import Callable
from typing import Final

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.dispatcher import Answer, KafkaRoute
from raftlog.api.kafka.wire.headers import answer_head
from raftlog.partitions.caller import Caller
from raftlog.runtime.histogram import stopwatch
from raftlog.types import Buffer

_CANCELLED_AT_DISCONNECT: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests that can wait long for records or other clients; all others end soon, also after a disconnect."""


class Exchange:
    """Request of a Kafka connection and its answer.

    The memory of the request is in the connection's allowance (`own_bytes`), or taken from the budget by `owner`."""

    __slots__ = (
        "answer",
        "began",
        "body",
        "caller",
        "correlation_id",
        "is_done",
        "is_failed",
        "own_bytes",
        "owner",
        "route",
        "task",
    )

    def __init__(
        self, route: KafkaRoute, correlation_id: int, body: memoryview, caller: Caller, own_bytes: int, owner: object
    ) -> None:
        """Begin an exchange for a received request.

        `owner` holds budgeted memory for the request, which is released with the answer."""
        self.route, self.correlation_id, self.body, self.caller = route, correlation_id, body, caller
        self.own_bytes = own_bytes
        """Bytes of the request in the connection's own allowance; 0 when `owner` holds budgeted memory for them."""
        self.owner = owner
        self.began = stopwatch()
        self.answer: Answer = None
        self.is_done = False
        self.is_failed = False
        """Whether the request failed without an answer; the connection is closed after all earlier answers."""
        self.task: asyncio.Task[None] | None = None


class AnswerOrder:
    """Requests of a connection that have begun and whose answers were not sent yet, in their order.

    It is the `RequestConnection` that handlers receive."""

    __slots__ = ("_is_pipelined", "lost_callbacks", "opened_at", "pending")

    def __init__(self, opened_at: float) -> None:
        self.opened_at = opened_at
        """Loop time at which the connection was opened."""
        self.pending: list[Exchange] = []
        """Requests without a sent answer; the first one is not done, or is failed."""
        self._is_pipelined = True
        """Whether all pending requests are pipelined."""
        self.lost_callbacks: list[Callable[[], None]] = []
        """Functions to call once the connection is lost."""

    def may_begin(self, route: KafkaRoute) -> bool:
        """Return whether a further request may begin beside the pending ones."""
        return not self.pending or (route.is_pipelined and self._is_pipelined)

    def begin(self, exchange: Exchange) -> None:
        """Add a request; its answer is sent after those of all earlier requests."""
        self.pending.append(exchange)
        self._is_pipelined = exchange.route.is_pipelined

    def end(self) -> None:
        """Cancel the requests of a lost connection that may wait for long, and call `lost_callbacks`."""
        for each in self.pending:
            if each.task is not None and each.route.key in _CANCELLED_AT_DISCONNECT:
                each.task.cancel()
        callbacks, self.lost_callbacks = self.lost_callbacks, []
        for callback in callbacks:
            callback()

    @property
    def is_broken(self) -> bool:
        """Whether the oldest pending request failed, so that no further answer can be sent."""
        return bool(self.pending) and self.pending[0].is_failed

    def take_ready(self) -> list[Buffer]:
        """Remove the ended requests at the front; return their answers with headers."""
        done = 0
        ready: list[Buffer] = []
        for each in self.pending:
            if not each.is_done or each.is_failed:
                break
            done += 1
            if each.answer is not None:
                size = sum(map(len, each.answer))
                route = each.route
                head = answer_head(each.correlation_id, size, is_tagged=route.is_answer_tagged)
                ready.append(size.to_bytes(4, "big") if route.is_raw else head)
                ready.extend(each.answer)
        del self.pending[:done]
        return ready
