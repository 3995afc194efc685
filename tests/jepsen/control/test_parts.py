"""Parts of the control: the relay, the worst prefix of a stream, and the repaired journal."""

import socket
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from pysyncobj import pickle

from jepsen.control.journal import count_entries
from jepsen.control.messages import Part, Stream
from jepsen.control.relay import Relay
from jepsen.control.repaired import DeferredCutJournal
from raftlog.testing.ports import address_of, listen_on_free_port


def frame(message: Any) -> bytes:
    data = zlib.compress(pickle.dumps(message))
    return struct.pack("i", len(data)) + data


def append_entries(previous: int, count: int) -> bytes:
    entries = [(b"command", previous + 1 + number, 1) for number in range(count)]
    return frame({"type": "append_entries", "prevLogIdx": previous, "entries": entries})


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("passed", [0, 3, 30, 61])
def test_the_worst_prefix_ends_after_the_message_that_leaves_the_shortest_log(passed: int, step: int) -> None:
    first, again, rest = append_entries(90, 30), append_entries(100, 5), append_entries(105, 15)
    said = first + again + rest + frame({"type": "request_vote"})
    stream = Stream()
    for at in range(0, len(said), step):
        stream.feed(said[at : at + step])
    stream.record_delivered(passed)
    assert stream.find_shortest_log_part() == Part(len(first) + len(again) - passed, 105)
    stream.record_delivered(len(first) + len(again) - passed)
    assert stream.find_shortest_log_part() == Part(len(rest), 120)


def test_an_acknowledgement_counts_once_it_was_forwarded() -> None:
    stream, answer = Stream(), frame({"type": "next_node_idx", "next_node_idx": 8, "success": True})
    stream.feed(answer)
    stream.record_delivered(len(answer) - 1)
    assert stream.acknowledged == 0
    stream.record_delivered(1)
    assert stream.acknowledged == 7
    assert stream.find_shortest_log_part() is None


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[DeferredCutJournal]:
    """Open a journal with entries 1 to 5 of term 1."""
    journal = DeferredCutJournal(str(tmp_path / "journal"))
    for index in range(1, 6):
        journal.add(b"command", index, 1)
    yield journal
    journal._destroy()


def test_a_deferred_cut_journal_keeps_matching_entries(journal: DeferredCutJournal, tmp_path: Path) -> None:
    journal.deleteEntriesFrom(1)
    journal.add(b"command", 2, 1)
    journal.settle()
    assert [entry[1] for entry in journal] == [1, 2, 3, 4, 5]
    journal.add(b"next", 6, 1)
    assert count_entries(tmp_path / "journal") == 6


def test_a_deferred_cut_journal_is_truncated_where_the_terms_differ(
    journal: DeferredCutJournal, tmp_path: Path
) -> None:
    journal.deleteEntriesFrom(1)
    journal.add(b"command", 2, 1)
    journal.add(b"other", 3, 2)
    journal.settle()
    assert [entry[1:] for entry in journal] == [(1, 1), (2, 1), (3, 2)]
    assert count_entries(tmp_path / "journal") == 3


class Wire:
    """Relay with a connection from node 1 to node 2."""

    def __init__(self) -> None:
        self._listening = listen_on_free_port()
        self.relay = Relay({1: "127.0.0.1:1", 2: address_of(self._listening)})
        self.caller = socket.create_connection(("127.0.0.1", self.relay.ports[1, 2]), 10)
        self.called, _ = self._listening.accept()
        self.called.settimeout(10)

    def close(self) -> None:
        self.relay.close()
        for each in (self.caller, self.called, self._listening):
            each.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    with closing(Wire()) as wire:
        yield wire


def receive_all(called: socket.socket) -> bytes:
    """Receive until the end of the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := called.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_bytes_and_the_end_are_forwarded_in_both_directions(wire: Wire) -> None:
    wire.called.sendall(b"back")
    assert wire.caller.recv(100) == b"back"
    wire.caller.sendall(b"to and ")
    wire.relay.set_delay(0.05)
    wire.caller.sendall(b"fro")
    wire.caller.close()
    assert receive_all(wire.called) == b"to and fro"


def test_messages_in_flight_at_a_crash_arrive_in_part(wire: Wire) -> None:
    wire.relay.set_delay(30)
    first, rest = append_entries(100, 5), append_entries(105, 15)
    wire.caller.sendall(first + rest)
    while wire.relay.bytes_under_way((1, 2)) < len(first + rest):
        pass
    assert f"{len(first)} arrived" in wire.relay.crash(1)
    assert receive_all(wire.called) == first
    assert receive_all(wire.caller) == b""


def test_a_cut_link_drops_bytes_and_its_connections_end_with_the_cut(wire: Wire) -> None:
    wire.relay.cut([(1, 2)])
    wire.caller.sendall(b"lost")
    while not (lost := wire.relay.take_lost()):
        pass
    assert lost == {(1, 2): 4}
    wire.called.sendall(b"the other way is open")
    assert wire.caller.recv(100) == b"the other way is open"
    wire.relay.cut([])
    assert receive_all(wire.called) == b""


def test_a_crash_with_a_wait_time_waits_until_others_lack_acknowledged_entries(wire: Wire) -> None:
    wire.called.sendall(frame({"type": "next_node_idx", "next_node_idx": 200, "success": True}))
    assert wire.caller.recv(1000)
    wire.relay.set_delay(30)
    first = append_entries(100, 5)
    wire.caller.sendall(first + append_entries(105, 15))
    assert f"{len(first)} arrived" in wire.relay.crash(1, wait_s=1000)
    assert receive_all(wire.called) == first
