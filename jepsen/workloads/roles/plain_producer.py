"""Producers: stored batches for one partition, and JSON requests whose records go to several partitions.

A stored batch is appended completely or not at all, and is one operation. The records of a JSON request end
independently, so each is an operation of a process of its own; the operation of a cancelled task stays open. Answers to
requests with `acks=1` and `acks=0` are recorded as `info`, with the content of the answer."""

import asyncio
import base64
import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import orjson

from jepsen.checkers.history import SEND, Op, Send, name_and_id
from jepsen.workloads.client.access import BATCHES, BINARY, TOPIC_ID, Access, parse_fields, partition_path
from jepsen.workloads.client.numbering import ProcessNumberPool
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import make_payload
from jepsen.workloads.incarnations import shorten_id
from raftlog.errors import RaftlogError
from raftlog.records import Compression, build_batch
from raftlog.types import Offset, TopicPartition

ACKS: Final = ("all",) * 17 + ("1",) * 2 + ("0",)
LONG_TIMEOUT_MS: Final = 3000
TIMEOUTS_MS: Final = (300, 1000, *(LONG_TIMEOUT_MS,) * 4)
"""Timeouts of sends, in milliseconds.

Sends with the shorter ones are marked `hasty`, and no success rate counts them."""
RECORDS_MAX: Final = 5
SPREAD_SHARE: Final = 0.3
"""Share of requests that are JSON and may name several partitions."""
SIZES: Final = (10, 30, 100, 100, 300, 1000, 10_000)


class Producer:
    """Sender of plain requests; one for each client. Calls of `send` may overlap."""

    def __init__(
        self,
        access: Access,
        history: HistoryWriter,
        partitions: Sequence[TopicPartition],
        values: Iterator[int],
        senders: ProcessNumberPool,
        random: Random,
    ) -> None:
        """Create the role. Each request is an operation of a free process of `senders`."""
        self._access, self._history, self._random = access, history, random
        self._partitions, self._values, self._senders = partitions, values, senders
        self.not_offered = 0
        """Requests that were due while no process was free."""

    async def send(self) -> None:
        """Send one request."""
        is_spread = self._random.random() < SPREAD_SHARE
        count = self._random.randint(1, RECORDS_MAX)
        with self._senders.take(count if is_spread else 1) as processes:
            if not processes:
                self.not_offered += 1
                return
            try:
                if is_spread:
                    await self._send_spread(processes)
                else:
                    await self._send_batch(processes[0], list(itertools.islice(self._values, count)))
            except asyncio.CancelledError:
                for process in processes:
                    self._history.crash(process)
                raise

    async def _send_batch(self, process: int, values: list[int]) -> None:
        """Send the values as one batch to a random partition, by random choice compressed."""
        place = self._random.choice(self._partitions)
        compression = self._random.choice((Compression.NONE, Compression.NONE, Compression.LZ4))
        body = build_batch([self._payload(value) for value in values], compression)
        node, acks, timeout_ms = self._draw_request()
        send = Send(place, tuple(values))
        await send_batch(self._access, self._history, process, node, send, body, acks, timeout_ms)

    async def _send_spread(self, processes: list[int]) -> None:
        """Send one record for each process to random partitions of one topic, in one JSON request."""
        topic = self._random.choice(self._partitions).topic
        places = [place for place in self._partitions if place.topic == topic]
        chosen = [self._random.choice(places) for _ in processes]
        node, acks, timeout_ms = self._draw_request()
        invocations, records = [], []
        for process, place in zip(processes, chosen, strict=True):
            value = next(self._values)
            invocations.append(self._history.invoke(process, SEND, Send(place, (value,)), node=node, acks=acks))
            payload = base64.b64encode(self._payload(value)).decode()
            records.append({"partition": place.partition, "value": payload})
        body = orjson.dumps({"records": records})
        try:
            answer = await self._access.post(node, f"/topics/{topic}", body, BINARY, timeout_ms, {"acks": acks})
            rows = parse_fields(answer)["offsets"]
        except RaftlogError as error:
            for invocation in invocations:
                self._history.record_refusal(invocation, error, acks=acks, **_hasty_fields(timeout_ms))
            return
        for invocation, row in zip(invocations, rows, strict=True):
            self._complete_row(invocation, row, acks, _hasty_fields(timeout_ms))

    def _complete_row(self, invocation: Op, row: dict[str, Any], acks: str, more: dict[str, Any]) -> None:
        """Record the outcome of one record by its row of the answer; `more` are further members of the entry."""
        if row["error_code"] is not None:
            complete = self._history.fail if row["outcome"] == "failed" else self._history.info
            complete(invocation, f"{row['error_code']}: {row['error']}", acks=acks, **more)
        else:
            _record_answer(self._history, invocation, row["offset"], acks, more)

    def _draw_request(self) -> tuple[int, str, int]:
        """Draw the node, `acks` and the timeout in milliseconds of a request."""
        return self._access.draw_node(self._random), self._random.choice(ACKS), self._random.choice(TIMEOUTS_MS)

    def _payload(self, value: int) -> bytes:
        """Return the payload of a value, with a random size."""
        return make_payload(value, self._random.choice(SIZES))


async def send_batch(
    access: Access,
    history: HistoryWriter,
    process: int,
    node: int,
    send: Send,
    body: bytes | bytearray,
    acks: str,
    timeout_ms: int,
) -> Op:
    """Send one stored batch, which is written completely or not at all, and return its completion."""
    place, more = send.partition, _hasty_fields(timeout_ms)
    invocation = history.invoke(process, SEND, send, node=node, acks=acks)
    try:
        answer = await access.post(node, partition_path(place), body, BATCHES, timeout_ms, {"acks": acks}, place)
        fields = parse_fields(answer)
        row = fields["offsets"][0]
    except RaftlogError as error:
        return history.record_refusal(invocation, error, acks=acks, **more)
    if row["error_code"] is not None:
        complete = history.fail if row.get("outcome") == "failed" else history.info
        return complete(invocation, f"{row['error_code']}: {row['error']}", acks=acks, **more)
    more |= {"leader_epoch": fields.get("leader_epoch"), "high_watermark": fields.get("high_watermark")}
    if name_and_id(place) is not None:
        more["topic_id"] = shorten_id(answer.headers.get(TOPIC_ID, ""))
    return _record_answer(history, invocation, row["offset"], acks, more)


def _hasty_fields(timeout_ms: int) -> dict[str, Any]:
    """Return the history fields that mark a request whose timeout is too short for a healthy cluster."""
    return {"hasty": True} if timeout_ms < LONG_TIMEOUT_MS else {}


def _record_answer(history: HistoryWriter, invocation: Op, base: int | None, acks: str, more: dict[str, Any]) -> Op:
    """Record an answered send; return the entry.

    Without `acks=all`, or without an offset (`base`), its outcome is unknown."""
    assert isinstance(invocation.payload, Send), invocation
    if acks != "all" or base is None:
        return history.info(invocation, f"answered with acks={acks}", acks=acks, offset=base, **more)
    offsets = tuple(map(Offset, range(base, base + len(invocation.payload.values))))
    return history.ok(invocation, invocation.payload._replace(offsets=offsets), acks=acks, **more)
