"""Logical messages are counted one by one and by kind, regardless of frames and writes."""

import asyncio

from raftlog.raft.messages import Heartbeat
from raftlog.runtime.rpc.calls import Call
from raftlog.runtime.transport import Envelope
from tests.rpc.messages import append, heartbeat
from tests.rpc.processes import Process, envelopes_of, heartbeat_of, identity_of, run_cluster


def heartbeat_without_answer(number: int) -> Envelope:
    """Return a heartbeat that needs no answer."""
    envelope = heartbeat(number)
    assert isinstance(envelope.message, Heartbeat)
    return envelope._replace(message=envelope.message._replace(sequence=0))


async def test_sent_and_received_messages_are_counted_by_kind() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    turn = [heartbeat(1), append(2, 10, 100_000), heartbeat(3), heartbeat_without_answer(4), append(5, 7)]
    async with run_cluster(one, two):
        one.transport.send(two.node, turn)
        assert len(envelopes_of(await two.turns.next())) == len(turn)
        one.transport.send_heartbeat(two.node, heartbeat_of(1, 1, 9))
        await two.beats.next()
        await asyncio.gather(*(one.transport.call(two.node, Call("echo", number)) for number in range(3)))
        sent, received = one.transport.traffic(), two.transport.traffic()
    expected = {"heartbeat": 2, "append_request": 2, "commit_notice": 1, "beat": 1, "request": 3}
    assert sent.messages_out == expected == received.messages_in
    assert sent.messages_in == {"answer": 3} == received.messages_out
    assert sent.bytes_out["raft"] == received.bytes_in["raft"] > 100_000
    assert 1 <= sent.writes["raft"] <= 5, "messages of a turn share a write"
    assert sent.bytes_out["bulk"] == 0
