"""Small histories of handlers: records without a handler below a committed offset, and keys out of order."""

from jepsen.checkers import GroupOffsets, Handle, Op, Send, check_history, read_lines, write_lines
from jepsen.checkers.handler_order import HandlerOrder
from raftlog.types import Offset
from tests.checkers.written_history import T0, WrittenHistory


class Handlers(WrittenHistory):
    """History with keyed records and handlers of the group `g`."""

    def send_keyed(self, offset: int, key: str = "k") -> Op:
        send = Send(T0, (offset,), keys=(key,))
        return self.recorder.ok(self.recorder.invoke(1, "send", send), send._replace(offsets=(Offset(offset),)))

    def begin(self, process: int, offset: int, key: str = "k") -> Op:
        return self.recorder.invoke(process, "handle", Handle("g", T0, key, Offset(offset), offset))

    def handle(self, process: int, offset: int, key: str = "k") -> Op:
        return self.recorder.ok(self.begin(process, offset, key))


def test_records_handled_in_order_and_repeatedly_are_clean() -> None:
    history = Handlers()
    for offset in range(3):
        history.send_keyed(offset)
    history.recorder.info(history.begin(2, 0))
    history.handle(2, 0)
    history.recorder.info(history.begin(2, 1))
    history.handle(3, 0)
    history.handle(3, 1)
    history.read_committed(4, 2)
    history.handle(3, 2)
    assert history.kinds(HandlerOrder()) == []
    assert list(read_lines(write_lines(history.ops))) == history.ops


def test_handlers_of_different_keys_may_overlap() -> None:
    history = Handlers()
    history.send_keyed(0, "a")
    history.send_keyed(1, "b")
    slow = history.begin(2, 0, "a")
    history.handle(3, 1, "b")
    history.recorder.ok(slow)
    assert history.kinds(HandlerOrder()) == []


def test_a_record_handled_before_an_earlier_one_of_its_key_is_detected() -> None:
    history = Handlers()
    history.send_keyed(0)
    history.send_keyed(1)
    slow = history.begin(2, 0)
    fast = history.begin(3, 1)
    returned = history.recorder.ok(slow)
    history.recorder.ok(fast)
    assert "offset 1 began before" in history.check_single(HandlerOrder(), "handled-out-of-order", fast, returned)


def test_a_committed_record_without_a_handler_is_detected() -> None:
    history = Handlers()
    history.send_keyed(0)
    lost = history.send_keyed(1)
    history.handle(2, 0)
    history.read_committed(3, 1)
    read = history.read_committed(3, 2)
    assert "offset 1" in history.check_single(HandlerOrder(), "unhandled", lost, read)


def test_a_handler_that_returns_after_the_commit_is_detected() -> None:
    history = Handlers()
    sent = history.send_keyed(0)
    late = history.begin(2, 0)
    read = history.read_committed(3, 1)
    returned = history.recorder.ok(late)
    history.check_single(HandlerOrder(), "unhandled", sent, read, returned)


def test_groups_without_handlers_are_not_checked() -> None:
    history = Handlers()
    history.send_keyed(0)
    history.complete(3, "committed", GroupOffsets("other"), GroupOffsets("other", ((T0, Offset(1)),)))
    assert history.kinds(HandlerOrder()) == []


def test_commits_of_handlers_are_not_phantoms() -> None:
    history = Handlers()
    history.send_keyed(0)
    history.handle(2, 0)
    history.read_committed(3, 1)
    assert check_history(history.ops).counts.keys() <= {"unseen"}
