"""Operations of a run: requests as bytes, answers as outcomes, and the state of the clients.

A client has a consumer group of its own and a position in each partition, and uses the partitions in turn. Requests of
a smart client go to the leading broker named in earlier answers (`X-Raftlog-Leader`), which is a hint."""

from collections.abc import Sequence
from itertools import count, cycle
from random import Random
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson

from raftlog.client.addresses import host_of
from raftlog.client.leaders import LeaderCache
from raftlog.loadgen.plan import LoadPlan, Targeting
from raftlog.loadgen.preparing import LoadTarget
from raftlog.loadgen.wire import LOST, NEVER_SENT, Arrival
from raftlog.records import build_batch
from raftlog.types import TopicPartition

_POLL_BYTES: Final = 1 << 16
_BATCHES: Final = 32
"""Number of different batches that a run sends repeatedly."""
_GROUP: Final = -1
"""Value in place of a partition's number: the subject is a consumer group, whose leader has its offsets."""
_JSON: Final = "application/vnd.kafka.json.v2+json"
_BATCHES_TYPE: Final = "application/vnd.raftlog.batches"


class Operation(NamedTuple):
    """Operation that is ready to be sent. `subject` is the partition or group whose leader the request goes to."""

    kind: str
    client: int
    partition: int
    address: str
    subject: TopicPartition
    request: bytes


class RequestOutcome(NamedTuple):
    """Outcome of an operation. `reason`: of a failure; empty: success. `is_unknown`: it may have had its effect."""

    reason: str
    is_unknown: bool = False


_SUCCESS: Final = RequestOutcome("")


class Work:
    """Source of the operations of all clients of one run, and interpreter of their answers."""

    def __init__(self, plan: LoadPlan, place: LoadTarget) -> None:
        """Prepare the requests of a plan to the topic of `place`."""
        self._plan, self._place = plan, place
        self._random = Random(plan.seed)  # noqa: S311 - not used for security
        self._leaders = LeaderCache()
        for partition, address in place.leaders.items():
            self._leaders.learn(TopicPartition(place.topic, partition), address)
        self._turns = cycle(place.addresses)
        self._positions = [dict(place.ends) for _ in range(plan.clients)]
        self._partitions = [cycle(_rotate(sorted(place.ends), client)) for client in range(plan.clients)]
        self._number = count()
        self._topic = quote(place.topic, safe="")
        self._batches = cycle(self._build_batches() if plan.records > 1 else [b""])

    def group_name(self, client: int) -> str:
        """Return the name of a client's consumer group."""
        return f"{self._place.topic}-{client}"

    def draw(self, client: int) -> Operation:
        """Return the next operation of a client."""
        kind = self._plan.mix.draw(self._random)
        partition = next(self._partitions[client])
        is_grouped = kind in ("commit", "list")
        subject = (
            TopicPartition(self.group_name(client), _GROUP)
            if is_grouped
            else TopicPartition(self._place.topic, partition)
        )
        address = self._choose_address(subject)
        return Operation(
            kind, client, partition, address, subject, self._make_request(kind, client, partition, address)
        )

    def _choose_address(self, subject: TopicPartition) -> str:
        """Return the known leader of the subject; without one, or for `any` targeting, the next broker in turn."""
        leader = self._leaders.address_of(subject) if self._plan.targeting is Targeting.SMART else None
        return leader or next(self._turns)

    def _head(self, address: str) -> str:
        """Return the header lines of each request to an address."""
        return f"Host: {host_of(address)}\r\n{self._place.headers}"

    # requests

    def _make_request(self, kind: str, client: int, partition: int, address: str) -> bytes:
        """Return the HTTP request of an operation as bytes."""
        timeout = self._plan.timeout_ms
        match kind:
            case "send":
                path = f"/topics/{self._topic}/partitions/{partition}?timeout={timeout}"
                return _make_post(self._head(address), path, *self._make_records())
            case "poll":
                position = self._positions[client][partition]
                query = f"offset={position}&timeout=0&max_bytes={_POLL_BYTES}"
                return _make_get(self._head(address), f"/topics/{self._topic}/partitions/{partition}/records?{query}")
            case "commit":
                row = {
                    "topic": self._place.topic,
                    "partition": partition,
                    "offset": self._positions[client][partition],
                }
                path = f"/groups/{quote(self.group_name(client), safe='')}/offsets?timeout={timeout}"
                return _make_post(self._head(address), path, "application/json", orjson.dumps({"offsets": [row]}))
            case _:
                path = f"/groups/{quote(self.group_name(client), safe='')}/offsets?timeout={timeout}"
                return _make_get(self._head(address), path)

    def _make_records(self) -> tuple[str, bytes]:
        """Return content type and body of a send."""
        if self._plan.records > 1:
            return _BATCHES_TYPE, next(self._batches)
        number = f"{next(self._number):012d}"
        value = number.rjust(self._plan.value_bytes, "x")[-self._plan.value_bytes :]
        return _JSON, f'{{"records":[{{"value":"{value}"}}]}}'.encode()

    def _build_batches(self) -> list[bytes]:
        """Return some batches with random values, which sends use in turn."""
        random, size = self._random, self._plan.value_bytes
        return [
            bytes(build_batch([random.randbytes(size) for _ in range(self._plan.records)])) for _ in range(_BATCHES)
        ]

    # answers

    def finish(self, operation: Operation, arrival: Arrival) -> RequestOutcome:
        """Return the outcome of an operation, and update leaders and positions from its answer."""
        if self._plan.targeting is Targeting.SMART:
            self._learn(operation, arrival)
        status, body = arrival.status, arrival.body
        if status == LOST:
            return RequestOutcome(f"{operation.kind}: no answer", is_unknown=True)
        if status == NEVER_SENT:
            return RequestOutcome(f"{operation.kind}: no connection")
        fields = None if status == 200 and operation.kind in ("commit", "list") else _parse_json(body)
        if status == 200:
            match operation.kind, fields:
                case "commit" | "list", _:
                    return _SUCCESS
                case "poll", list():
                    if fields:
                        self._advance(operation, fields[-1]["offset"] + 1)
                    return _SUCCESS
                case "send", {"offsets": [{"error_code": None}, *_]}:
                    return _SUCCESS
                case "send", {"offsets": [dict() as refused, *_]}:
                    fields = refused
        return _classify_refusal(operation.kind, status, fields)

    def _learn(self, operation: Operation, arrival: Arrival) -> None:
        """Update the known leader from an answer, or forget it after a failure."""
        if arrival.leader:
            self._leaders.learn(operation.subject, arrival.leader)
        elif arrival.status == 200:
            self._leaders.learn(operation.subject, operation.address)  # it would have named another leader
        else:
            self._leaders.forget(operation.subject, operation.address)

    def _advance(self, operation: Operation, after: int) -> None:
        """Advance a client's position, never backwards: answers of one client can overtake each other."""
        positions = self._positions[operation.client]
        positions[operation.partition] = max(positions[operation.partition], after)


def _rotate(partitions: Sequence[int], by: int) -> list[int]:
    """Return the partitions in another rotation, so that clients do not all begin with the same one."""
    at = by % len(partitions)
    return [*partitions[at:], *partitions[:at]]


def _make_post(head: str, path: str, content_type: str, body: bytes) -> bytes:
    """Return the bytes of a POST request; `head` has its other headers."""
    fields = f"{head}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return f"POST {path} HTTP/1.1\r\n{fields}".encode() + body


def _make_get(head: str, path: str) -> bytes:
    """Return the bytes of a GET request; `head` has its headers."""
    return f"GET {path} HTTP/1.1\r\n{head}\r\n".encode()


def _classify_refusal(kind: str, status: int, fields: Any) -> RequestOutcome:
    """Return the outcome for status and error code, without the parts of the error that differ between answers."""
    if not isinstance(fields, dict):
        return RequestOutcome(f"{kind}: HTTP {status}", is_unknown=status >= 500)
    code = fields.get("error_code")
    status_text = f"HTTP {status}" if code is None else f"HTTP {status}, code {code}"
    return RequestOutcome(f"{kind}: {status_text}", is_unknown=fields.get("outcome") == "unknown")


def _parse_json(body: bytes) -> Any:
    """Parse JSON; return None for anything else."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
