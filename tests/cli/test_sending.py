"""What a producer does when answers are lost, against a broker of a few lines that loses them on request."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from raftlog.cli import patience, sending
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.sending import Sender, Sending
from raftlog.client import NotListening, OffsetRange, Produced
from raftlog.errors import (
    DeadlineExceeded,
    InvalidArgument,
    LogClosed,
    OutcomeUnknown,
    Overloaded,
    RaftlogError,
    RecordTooLarge,
)
from raftlog.records import Compression, read_records, split_batches
from raftlog.types import Offset


class Broker:
    """Stores values; `plan` holds what happens to the next requests: how many records land, and the error then."""

    def __init__(self, *plan: tuple[int | None, RaftlogError | None]) -> None:
        self.plan = list(plan)
        self.stored: dict[int, list[bytes]] = {}
        self.unreachable = 0
        self.before_offsets: Callable[[], None] = lambda: None

    async def produce_batches(self, _topic: str, partition: int, body: Any, **_: Any) -> Produced:
        values = [record.value or b"" for _, batch in split_batches(body) for record in read_records(bytes(batch))]
        landing, error = self.plan.pop(0) if self.plan else (None, None)
        log = self.stored.setdefault(partition, [])
        base = len(log)
        log += values[:landing]
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return Produced(Offset(base), Offset(len(log)))

    async def offsets(self, _topic: str, partition: int) -> OffsetRange:
        if self.unreachable:
            self.unreachable -= 1
            raise NotListening("connection refused")
        self.before_offsets()
        return OffsetRange(Offset(0), Offset(len(self.stored.get(partition, []))))


def sender(broker: Broker, *, recovers: bool, partitions: int = 1, **more: Any) -> Sender:
    settings: dict[str, Any] = {
        "topic": "t",
        "compression": Compression.NONE,
        "acks": "all",
        "timeout_ms": 20,
        "give_up_after_s": 5.0,
        "lanes_under_way_max": 4,
        "max_message_bytes": 1 << 20,
    }
    zeros = [0] * partitions if recovers else None
    return Sender(broker, Sending(**{**settings, **more}), zeros, zeros)  # type: ignore[arg-type]


async def send(to: Sender, *batches: list[bytes], partition: int = 0) -> None:
    for batch in batches:
        await to.put(partition, batch, sum(map(len, batch)))
    await to.finish()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SETTLE_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(patience, "BACKOFF_SECONDS_MIN", 0.001)


LOST = OutcomeUnknown("the answer was lost")
BATCHES = ([b"a", b"b", b"c"], [b"d"], [b"e", b"f"])
ALL = [value for batch in BATCHES for value in batch]


@pytest.mark.parametrize("landing", [0, 1, 2, 3])
@pytest.mark.parametrize("gone", [0, 2])
@pytest.mark.parametrize("kind", [OutcomeUnknown, DeadlineExceeded])
async def test_a_lost_answer_is_settled_by_the_end_offset(landing: int, gone: int, kind: type[OutcomeUnknown]) -> None:
    broker = Broker((landing, kind("lost")))
    broker.unreachable = gone
    to = sender(broker, recovers=True)
    await send(to, *BATCHES)
    assert broker.stored[0] == ALL
    assert to.lanes[0].confirmed == len(ALL)


async def test_many_lost_answers() -> None:
    broker = Broker((0, LOST), (2, LOST), (1, LOST), (0, LOST), (None, LOST))
    await send(sender(broker, recovers=True), *BATCHES)
    assert broker.stored[0] == ALL


async def test_a_request_that_lands_late_is_waited_for() -> None:
    """The broker still has the request when the end offset is read first; sending it again would double it."""
    broker = Broker((0, LOST))
    looks = 0

    def land_at_the_second_look() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            broker.stored[0] += BATCHES[0]

    broker.before_offsets = land_at_the_second_look
    await send(sender(broker, recovers=True, timeout_ms=1000), *BATCHES)
    assert broker.stored[0] == ALL


async def test_without_recovery_a_lost_answer_ends_it() -> None:
    broker = Broker((None, None), (None, LOST))
    to = sender(broker, recovers=False)
    with pytest.raises(OutcomeUnknown):
        await send(to, *BATCHES)
    assert (to.lanes[0].confirmed, to.lanes[0].sent) == (3, 4)


@pytest.mark.parametrize("recovers", [True, False])
async def test_a_passing_refusal_is_repeated(recovers: bool) -> None:
    broker = Broker((0, Overloaded("slow down")), (0, NotListening("refused")))
    await send(sender(broker, recovers=recovers), *BATCHES)
    assert broker.stored[0] == ALL


@pytest.mark.parametrize("error", [LogClosed("damaged"), InvalidArgument("no")])
async def test_a_lasting_refusal_ends_it(error: RaftlogError) -> None:
    with pytest.raises(type(error)):
        await send(sender(Broker((0, error)), recovers=True), *BATCHES)


async def test_patience_ends() -> None:
    broker = Broker(*[(0, Overloaded("slow down"))] * 1000)
    with pytest.raises(Overloaded):
        await send(sender(broker, recovers=True, give_up_after_s=0.02), *BATCHES)
    broker = Broker((0, LOST))
    broker.unreachable = 1000
    with pytest.raises(NotListening):
        await send(sender(broker, recovers=True, give_up_after_s=0.02), *BATCHES)


async def test_a_stranger_is_noticed_at_the_next_answer() -> None:
    broker = Broker()
    to = sender(broker, recovers=True)
    await send(to, BATCHES[0])
    broker.stored[0].append(b"a stranger's")
    with pytest.raises(CommandFailed, match="stands at offset 4 where this producer left it at 3"):
        await send(to, BATCHES[1])


@pytest.mark.parametrize("change", [1, -1])
async def test_a_stranger_is_noticed_while_settling(change: int) -> None:
    broker = Broker((None, None), (None, LOST))

    def strange() -> None:
        broker.stored[0] = broker.stored[0][: 3 - 1] if change < 0 else [*broker.stored[0], b"a stranger's"]

    broker.before_offsets = strange
    with pytest.raises(CommandFailed, match="somebody else wrote"):
        await send(sender(broker, recovers=True), *BATCHES)


async def test_a_failed_lane_stops_the_others() -> None:
    broker = Broker((0, InvalidArgument("no")))
    to = sender(broker, recovers=False)
    await to.put(0, [b"a"], 1)
    await asyncio.wait([task for task in [to.lanes[0].task] if task])
    with pytest.raises(InvalidArgument):
        await to.put(1, [b"b"], 1)
    with pytest.raises(InvalidArgument):
        await to.finish()


async def test_batches_are_halved_until_they_fit() -> None:
    broker = Broker()
    values = [b"%d" % number * 20 for number in range(50)]
    await send(sender(broker, recovers=False, max_message_bytes=300), values)
    assert broker.stored[0] == values
    with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes of topic t is 300"):
        await send(sender(broker, recovers=False, max_message_bytes=300), [b"x" * 300])
