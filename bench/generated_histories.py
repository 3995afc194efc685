"""Generator of long histories, as `jepsen` would record them with a correct log under faults.

The frequencies are taken from real runs with kills, pauses and network partitions: of 100 operations 59 are sends of
one to five values (a quarter of them refused, a seventh unknown), 33 are polls that return 40 records each, the rest
lists, commits and reads of committed offsets. At the end three readers read everything. One seed gives one history."""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random

from jepsen.checkers import Fetched, GroupOffsets, ListOffsets, OffsetRange, Poll, Send
from jepsen.checkers.history import ASSIGN, COMMIT, COMMITTED, LIST, POLL, SEND, Assign, Kind, Op, Payload
from jepsen.workloads.client.recording import HistoryWriter
from raftlog.types import Offset, TopicPartition

PARTITIONS = tuple(TopicPartition(topic, number) for topic in ("narrow", "wide", "rolling") for number in range(3))
CLIENTS = 6
READERS = 12
DRAINS = 3
BETWEEN_NS = 2_000_000
"""Time between the begins of two operations: 500 operations a second."""
TOOK_NS = (2_000_000, 5_000_000, 20_000_000)
EPOCH_OPERATIONS = 5_000
"""Number of operations after which there is a fault, and every partition has a new leader."""
FETCHED_MAX = 1_500
_CLIENT_VALUES = 10**9
_KINDS: tuple[tuple[Kind, int], ...] = ((SEND, 590), (POLL, 330), (LIST, 50), (COMMIT, 13), (COMMITTED, 13))


class _Log:
    """Model of a partition: its records, and the leader epoch of each batch."""

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.values: list[int] = []
        self.bases: list[int] = []
        self.epochs: list[int] = []

    def append(self, values: Sequence[int], epoch: int) -> int:
        """Append values in a leader epoch; return the offset of the first one."""
        base = len(self.values)
        self.values += values
        self.bases.append(base)
        self.epochs.append(epoch)
        return base

    def fetch(self, offset: int) -> tuple[Fetched, list[tuple[int, int]]]:
        """Return up to `FETCHED_MAX` values from `offset` on, and the base offset and epoch of each batch."""
        end = min(len(self.values), offset + FETCHED_MAX)
        first, last = bisect_left(self.bases, offset), bisect_left(self.bases, end)
        epochs = list(zip(self.bases[first:last], self.epochs[first:last], strict=True))
        return Fetched(self.place, tuple(map(Offset, range(offset, end))), tuple(self.values[offset:end])), epochs


class HistoryGenerator:
    """Generator of concurrent operations that begin in turn and take effect and end later, from a heap."""

    def __init__(self, path: Path, seed: int) -> None:
        self.now_ns = 0
        self._random = Random(seed)
        self._history = HistoryWriter(path, lambda: self.now_ns)
        self._logs = [_Log(place) for place in PARTITIONS]
        self._values = [count(client * _CLIENT_VALUES) for client in range(1, CLIENTS + 1)]
        self._positions = [dict.fromkeys(range(len(PARTITIONS)), 0) for _ in range(READERS)]
        self._committed: dict[TopicPartition, int] = {}
        self._epoch = 1
        self._free: dict[Kind, list[int]] = {
            SEND: [client * 1000 + number for client in range(1, CLIENTS + 1) for number in range(64)],
            POLL: list(range(READERS)),
            LIST: list(range(101, 119)),
            COMMIT: list(range(201, 207)),
            COMMITTED: list(range(301, 307)),
        }
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def write(self, operations: int) -> None:
        """Write a history of about so many operations, and let each reader read all logs at the end."""
        for reader in range(READERS):
            self._assign(reader)
        kinds, weights = zip(*_KINDS, strict=True)
        begin = {
            SEND: self._send,
            POLL: self._poll,
            LIST: self._list,
            COMMIT: self._commit,
            COMMITTED: self._read_committed,
        }
        for number in range(operations - READERS):
            self._advance_to(self.now_ns + BETWEEN_NS)
            if number % EPOCH_OPERATIONS == EPOCH_OPERATIONS - 1:
                self._epoch += 1
                self._history.nemesis("kill node 1", fault="kill", phase="begins", nodes=[1])
            kind = self._random.choices(kinds, weights)[0]
            if self._free[kind]:
                begin[kind](self._free[kind].pop(self._random.randrange(len(self._free[kind]))))
        self._advance_to(self.now_ns + 10**9)
        for reader in range(DRAINS):
            self._drain(reader)
        self._history.close()

    # time

    def _advance_to(self, until_ns: int) -> None:
        """Run all scheduled effects up to `until_ns`, and set the clock to that time."""
        while self._due and self._due[0][0] <= until_ns:
            self.now_ns, _, what = heapq.heappop(self._due)
            what()
        self.now_ns = until_ns

    def _schedule(self, what: Callable[[], None]) -> None:
        """Run `what` after a random time."""
        took_ns = self._random.choice(TOOK_NS) + self._random.randrange(1_000_000)
        heapq.heappush(self._due, (self.now_ns + took_ns, next(self._order), what))

    def _is_ok(self, invocation: Op, ok: float) -> bool:
        """Return whether the operation succeeds, at random; otherwise complete it as failed."""
        is_ok = self._random.random() < ok
        if not is_ok:
            self._history.fail(invocation, "Unavailable: node 1 is starting or stopping; ask another one, or again")
        self._free[invocation.kind].append(invocation.process)
        return is_ok

    def _begin(self, process: int, kind: Kind, payload: Payload, end: Callable[[Op], None]) -> None:
        invocation = self._history.invoke(process, kind, payload, node=self._random.randrange(3))
        self._schedule(lambda: end(invocation))

    # operations

    def _send(self, process: int) -> None:
        """Begin a send of random values; a part of the sends fails or has an unknown outcome."""
        log = self._random.choice(self._logs)
        numbers = self._values[process // 1000 - 1]
        values = tuple(next(numbers) for _ in range(self._random.choice((1, 1, 1, 2, 3, 4, 5))))
        send = Send(log.place, values)
        invocation = self._history.invoke(process, SEND, send, node=self._random.randrange(3), acks="all")
        outcome = self._random.choices(("ok", "fail", "info"), (61, 25, 14))[0]
        base, epoch = None, 0

        def take_effect() -> None:
            """Append the values, and schedule the answer."""
            nonlocal base, epoch
            base, epoch = log.append(values, self._epoch), self._epoch
            self._schedule(end)

        def end() -> None:
            self._free[SEND].append(process)
            if outcome == "fail":
                self._history.fail(invocation, "Unavailable: no leader answered before the deadline", acks="all")
            elif outcome == "info" or base is None:
                self._history.info(invocation, "DeadlineExceeded: it may have been stored", acks="all")
            else:
                offsets = tuple(map(Offset, range(base, base + len(values))))
                more = {"acks": "all", "leader_epoch": epoch, "high_watermark": base + len(values)}
                self._history.ok(invocation, send._replace(offsets=offsets), **more)

        is_stored = outcome == "ok" or (outcome == "info" and self._random.random() < 0.7)
        self._schedule(take_effect if is_stored else end)

    def _assign(self, reader: int) -> None:
        positions = tuple((PARTITIONS[at], Offset(offset)) for at, offset in self._positions[reader].items())
        self._history.ok(self._history.invoke(reader, ASSIGN, Assign(positions)))

    def _poll(self, reader: int) -> None:
        """Begin a poll of a random partition, sometimes from an earlier position."""
        at = self._random.randrange(len(PARTITIONS))
        if self._random.random() < 0.01:
            self._positions[reader][at] -= min(self._positions[reader][at], self._random.choice((0, 1000, 5000)))
            self._assign(reader)
        self._begin(reader, POLL, Poll(), lambda invocation: self._end_poll(invocation, at))

    def _end_poll(self, invocation: Op, at: int) -> None:
        """Complete a poll of the partition with index `at`."""
        if self._is_ok(invocation, 0.96):
            fetched, epochs = self._logs[at].fetch(self._positions[invocation.process][at])
            self._positions[invocation.process][at] += len(fetched.offsets)
            poll = Poll((fetched,) if fetched.offsets else ())
            self._history.ok(invocation, poll, leader_epochs=epochs)

    def _list(self, process: int) -> None:
        """Begin a request for the offsets of a log."""
        log, is_linearizable = self._random.choice(self._logs), self._random.random() < 0.5

        def end(invocation: Op) -> None:
            if self._is_ok(invocation, 0.9):
                listed = OffsetRange(log.place, Offset(0), Offset(len(log.values)))
                self._history.ok(invocation, ListOffsets((listed,), is_linearizable))

        self._begin(process, LIST, ListOffsets((), is_linearizable), end)

    def _commit(self, process: int) -> None:
        """Begin a commit of a reader's position in a random partition."""
        at = self._random.randrange(len(PARTITIONS))
        offset = Offset(self._positions[self._random.randrange(READERS)][at])
        place = PARTITIONS[at]

        def end(invocation: Op) -> None:
            if self._is_ok(invocation, 0.9):
                self._committed[place] = max(self._committed.get(place, 0), offset)
                self._history.ok(invocation)

        self._begin(process, COMMIT, GroupOffsets("group-a", ((place, offset),)), end)

    def _read_committed(self, process: int) -> None:
        """Begin a read of the committed offsets."""

        def end(invocation: Op) -> None:
            if self._is_ok(invocation, 0.9):
                offsets = tuple((place, Offset(offset)) for place, offset in self._committed.items())
                self._history.ok(invocation, GroupOffsets("group-a", offsets))

        self._begin(process, COMMITTED, GroupOffsets("group-a"), end)

    def _drain(self, reader: int) -> None:
        """Read all logs from their beginning to their end with one reader."""
        self._positions[reader] = dict.fromkeys(range(len(PARTITIONS)), 0)
        self._assign(reader)
        for at, log in enumerate(self._logs):
            while self._positions[reader][at] < len(log.values):
                invocation = self._history.invoke(reader, POLL, Poll(), node=reader)
                self.now_ns += BETWEEN_NS
                fetched, epochs = log.fetch(self._positions[reader][at])
                self._positions[reader][at] += len(fetched.offsets)
                self._history.ok(invocation, Poll((fetched,)), leader_epochs=epochs)


def generate_history(path: Path, operations: int, seed: int = 1) -> None:
    """Write a history of about `operations` operations that passes all checkers."""
    HistoryGenerator(path, seed).write(operations)
