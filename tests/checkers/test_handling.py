"""Small histories of handlers: records left out below a committed offset, and keys out of order."""

from jepsen.checkers import GroupOffsets, Handle, Op, Send, judge_history, read_lines, write_lines
from jepsen.checkers.handling import Handling
from raftlog.types import Offset
from tests.checkers.story import T0, Story


class Handlers(Story):
    """With records of keys, and handlers of the group `g`."""

    def keyed(self, offset: int, key: str = "k") -> Op:
        send = Send(T0, (offset,), keys=(key,))
        return self.recorder.ok(self.recorder.invoke(1, "send", send), send._replace(offsets=(Offset(offset),)))

    def begin(self, process: int, offset: int, key: str = "k") -> Op:
        return self.recorder.invoke(process, "handle", Handle("g", T0, key, Offset(offset), offset))

    def handle(self, process: int, offset: int, key: str = "k") -> Op:
        return self.recorder.ok(self.begin(process, offset, key))


def test_records_in_order_and_again_are_clean() -> None:
    story = Handlers()
    for offset in range(3):
        story.keyed(offset)
    story.recorder.info(story.begin(2, 0))
    story.handle(2, 0)
    story.recorder.info(story.begin(2, 1))
    story.handle(3, 0)
    story.handle(3, 1)
    story.committed(4, 2)
    story.handle(3, 2)
    assert story.kinds(Handling()) == []
    assert list(read_lines(write_lines(story.ops))) == story.ops


def test_keys_wait_for_themselves_alone() -> None:
    story = Handlers()
    story.keyed(0, "a")
    story.keyed(1, "b")
    slow = story.begin(2, 0, "a")
    story.handle(3, 1, "b")
    story.recorder.ok(slow)
    assert story.kinds(Handling()) == []


def test_a_record_that_overtakes_an_earlier_one_of_its_key_is_found() -> None:
    story = Handlers()
    story.keyed(0)
    story.keyed(1)
    slow = story.begin(2, 0)
    fast = story.begin(3, 1)
    returned = story.recorder.ok(slow)
    story.recorder.ok(fast)
    assert "offset 1 began before" in story.only(Handling(), "handled-out-of-order", fast, returned)


def test_a_committed_record_without_a_handler_is_found() -> None:
    story = Handlers()
    story.keyed(0)
    lost = story.keyed(1)
    story.handle(2, 0)
    story.committed(3, 1)
    read = story.committed(3, 2)
    assert "offset 1" in story.only(Handling(), "unhandled", lost, read)


def test_a_handler_that_returns_behind_the_commit_is_too_late() -> None:
    story = Handlers()
    sent = story.keyed(0)
    late = story.begin(2, 0)
    read = story.committed(3, 1)
    returned = story.recorder.ok(late)
    story.only(Handling(), "unhandled", sent, read, returned)


def test_groups_without_handlers_are_not_judged() -> None:
    story = Handlers()
    story.keyed(0)
    story.do(3, "committed", GroupOffsets("other"), GroupOffsets("other", ((T0, Offset(1)),)))
    assert story.kinds(Handling()) == []


def test_commits_of_handlers_are_no_phantoms() -> None:
    story = Handlers()
    story.keyed(0)
    story.handle(2, 0)
    story.committed(3, 1)
    assert judge_history(story.ops).counts.keys() <= {"unseen"}
