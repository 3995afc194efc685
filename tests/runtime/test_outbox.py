"""Commit notices are delayed shortly, since the next append may carry them."""

import asyncio
import uuid
from collections.abc import Sequence

from raftlog.raft import Entry, EntryId, EntryKind, Message, ReplicaId
from raftlog.raft.messages import AppendRequest, Heartbeat
from raftlog.runtime.process.outbox import Outbox
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import Index, NodeId, Term

ONE, TWO, THREE = (ReplicaId(NodeId(number), uuid.UUID(int=number)) for number in (1, 2, 3))
KEY, OTHER = uuid.UUID(int=77).bytes, uuid.UUID(int=78).bytes


class RecordingWire:
    """Fake transport that records messages."""

    def __init__(self) -> None:
        self.sent: list[tuple[NodeId, Message]] = []
        self.arrived = asyncio.Event()

    def send(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        self.sent += [(node, envelope.message) for envelope in envelopes]
        self.arrived.set()

    def send_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        raise AssertionError("no beats here")

    async def request(self, node: NodeId, request: object) -> object:
        raise AssertionError("no requests here")


def make_notice(to: ReplicaId, committed: int, term: int = 1) -> Heartbeat:
    return Heartbeat(ONE, to, Term(term), 0, Index(committed))


def make_append(to: ReplicaId, previous: int, count: int, committed: int, term: int = 1) -> AppendRequest:
    entry = Entry(Index(previous + 1), Term(term), EntryKind.DATA, 3, b"abc", None)
    last = EntryId(Index(previous), Term(term))
    return AppendRequest(ONE, to, Term(term), 9, last, (entry,) * count, Index(committed))


async def test_an_append_replaces_the_earlier_notice() -> None:
    wire = RecordingWire()
    outbox = Outbox(wire)
    outbox.post(KEY, [make_notice(TWO, 5), make_notice(THREE, 5)])
    outbox.post(OTHER, [make_notice(TWO, 5)])
    outbox.send()
    assert not wire.sent
    outbox.post(KEY, [make_append(TWO, 5, 1, 5)])
    outbox.send()
    assert wire.sent == [(2, make_append(TWO, 5, 1, 5))]
    wire.sent.clear()
    wire.arrived.clear()
    await wire.arrived.wait()
    assert wire.sent == [(3, make_notice(THREE, 5)), (2, make_notice(TWO, 5))]


async def test_an_append_without_the_commit_keeps_the_notice() -> None:
    wire = RecordingWire()
    outbox = Outbox(wire)
    outbox.post(
        KEY, [make_notice(TWO, 5), make_append(TWO, 3, 1, 5), make_notice(THREE, 5), make_append(THREE, 7, 1, 4)]
    )
    outbox.send()
    wire.arrived.clear()
    await wire.arrived.wait()
    assert wire.sent[2:] == [(2, make_notice(TWO, 5)), (3, make_notice(THREE, 5))]


async def test_the_newest_notice_replaces_earlier_ones() -> None:
    wire = RecordingWire()
    outbox = Outbox(wire)
    outbox.post(KEY, [make_notice(TWO, 5), make_notice(TWO, 6)])
    outbox.post(KEY, [make_append(TWO, 9, 1, 9, term=2)])
    outbox.send()
    wire.arrived.clear()
    await wire.arrived.wait()
    assert wire.sent[1:] == [(2, make_notice(TWO, 6))]


async def test_heartbeats_that_need_an_answer_are_sent_at_once() -> None:
    wire = RecordingWire()
    outbox = Outbox(wire)
    asked = make_notice(TWO, 5)._replace(sequence=3)
    outbox.post(KEY, [asked, make_notice(TWO, 5)])
    outbox.send()
    assert wire.sent == [(2, asked)]
    outbox.stop()
    await asyncio.sleep(0)
    assert wire.sent == [(2, asked)]
