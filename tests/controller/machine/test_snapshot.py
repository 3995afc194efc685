"""Snapshots: bounded pieces, one map, and nothing that is not what it should be gets through."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no annotations
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import FormatError
from raftlog.partitions.controller import machine as control
from raftlog.partitions.controller.machine import (
    AlterClusterConfig,
    ControllerState,
    DeleteTopic,
    SetAssignment,
    SetMaintenance,
    SnapshotReader,
    UpdateBroker,
    snapshot_payloads,
)
from raftlog.partitions.controller.machine.snapshot import HEADER, _parts
from raftlog.types import Index, NodeId
from tests.controller.machine.fleet import Scribe, cluster, contents, create, disk, register, replica, topic_id
from tests.layouts import layout


def busy() -> Scribe:
    scribe = cluster()
    scribe.tell(create("t", 1, (1, 2, 3), (2, 3, 4), configs={"retention.ms": "5"}))
    scribe.tell(create("u", 2))
    scribe.tell(SetAssignment(topic_id(1), 1, (replica(5), replica(1)), Index(7)))
    scribe.tell(DeleteTopic("u", topic_id(2)))
    scribe.tell(UpdateBroker(NodeId(2), disk(2), True))
    scribe.tell(register(3, 33, replaces=3))
    scribe.refused(create("t", 3))
    scribe.tell(SetMaintenance(NodeId(1), disk(1), True))
    scribe.tell(AlterClusterConfig((("balancer.mode", "off"),)))
    return scribe


def whole(payloads: list[bytes]) -> dict[str, object]:
    fields: dict[str, object] = msgpack.unpackb(b"".join(payload[HEADER.size :] for payload in payloads))
    return fields


def read(fields: object) -> ControllerState:
    """Return the state of a map in one piece."""
    restoration = SnapshotReader().take(HEADER.pack(1, 1, 1, 0, 9) + bytes(msgpack.packb(fields)))
    assert restoration is not None
    return restoration.finish()


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 1 << 16])
def test_pieces_are_bounded_and_come_back(piece_bytes: int) -> None:
    scribe = busy()
    payloads = list(snapshot_payloads(scribe.state, Index(77), piece_bytes))
    table = layout("snapshot")
    assert table.size == HEADER.size
    for number, payload in enumerate(payloads):
        assert len(payload) <= HEADER.size + piece_bytes
        head = table.decode(payload)
        is_last = number == len(payloads) - 1
        assert head == {"version": 1, "subject": 1, "is_last": is_last, "piece": number, "roll_index": 77}
    reader = SnapshotReader()
    restorations = [reader.take(payload) for payload in payloads]
    assert restorations[:-1] == [None] * (len(payloads) - 1)
    assert restorations[-1] is not None
    state = restorations[-1].finish()
    assert state.state_hash() == scribe.state.state_hash()
    assert contents(state) == contents(scribe.state)


def test_pieces_show_the_state_as_it_was_when_they_were_asked_for() -> None:
    scribe = busy()
    expected = b"".join(snapshot_payloads(scribe.state, Index(1), 50))
    payloads = snapshot_payloads(scribe.state, Index(1), 50)
    taken = [next(payloads)]
    scribe.tell(DeleteTopic("t", topic_id(1)))
    scribe.tell(register(9))
    assert b"".join([*taken, *payloads]) == expected


def test_a_large_state_is_restored_in_steps() -> None:
    scribe = busy()
    [payload] = snapshot_payloads(scribe.state, Index(1))
    restoration = SnapshotReader().take(payload)
    assert restoration is not None
    steps = 1
    while (state := restoration.step(rows=1)) is None:
        steps += 1
    assert steps == 1 + sum(map(len, state.tables()))
    assert state.state_hash() == scribe.state.state_hash()


def test_a_run_that_begins_again_replaces_an_unfinished_one() -> None:
    scribe = busy()
    old = list(snapshot_payloads(scribe.state, Index(5), 100))
    scribe.tell(register(9))
    new = list(snapshot_payloads(scribe.state, Index(9), 100))
    reader = SnapshotReader()
    for payload in [*old[:-1], *new[:-1]]:
        assert reader.take(payload) is None
    restoration = reader.take(new[-1])
    assert restoration is not None
    assert restoration.finish().state_hash() == scribe.state.state_hash()


def test_pieces_that_do_not_follow_are_refused() -> None:
    scribe = busy()
    one = list(snapshot_payloads(scribe.state, Index(5), 100))
    other = list(snapshot_payloads(scribe.state, Index(9), 100))
    for wrong in ([one[0], one[2]], [one[1]], [one[0], one[0], one[2]], [one[0], other[1]]):
        reader = SnapshotReader()
        with pytest.raises(FormatError):
            [reader.take(payload) for payload in wrong]
        with pytest.raises(FormatError, match="has to follow"):
            reader.take(one[1])


def test_headers_of_another_kind_are_refused() -> None:
    for head in ((2, 1, 1, 0, 1), (1, 2, 1, 0, 1), (1, 1, 2, 0, 1)):
        with pytest.raises(FormatError):
            SnapshotReader().take(HEADER.pack(*head))
    with pytest.raises(FormatError, match="no header"):
        SnapshotReader().take(b"\x01\x01")


def test_a_map_that_is_not_what_it_should_be_is_refused() -> None:
    [payload] = snapshot_payloads(busy().state, Index(9))
    good = whole([payload])
    topics = good["topics"]
    assert isinstance(topics, list)
    twice = [topics[0], [[*topics[0][0][:1], topic_id(9).bytes, *topics[0][0][2:]], *topics[0][1:]]]
    changes: list[dict[str, Any]] = [
        {"version": 2},
        {"applied_index": -1},
        {"feature_level": 3},
        {"feature_level": 0},
        {"maintenance": []},
        {"next_producer_id": 1},
        {"state_hash": b"x" * 16},
        {"brokers": {}},
        {"brokers": list(reversed(good["brokers"]))},  # type: ignore[call-overload]
        {"topics": []},
        {"topics": twice},
        {"requests": []},
        {"bootstrap": None},
        {"bootstrap": [1]},
        {"more": 1},
    ]
    for change in changes:
        with pytest.raises(FormatError):
            read({**good, **change})
    others: list[object] = [[], None, {name: value for name, value in good.items() if name != "topics"}]
    for fields in others:
        with pytest.raises(FormatError):
            read(fields)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_piece_never_becomes_another_state(data: st.DataObject) -> None:
    scribe = busy()
    [payload] = snapshot_payloads(scribe.state, Index(9))
    damaged = bytearray(payload)
    damaged[data.draw(st.integers(HEADER.size, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        restoration = SnapshotReader().take(bytes(damaged))
        assert restoration is not None
        assert restoration.finish().state_hash() == scribe.state.state_hash()
    except FormatError:
        return


_TELL = """
from random import Random
from raftlog.partitions.controller.machine import PlacementCandidate, place, snapshot_payloads
from raftlog.types import Index
from tests.controller.machine.fleet import replica
from tests.controller.machine.test_snapshot import busy
state = busy().state
print(state.state_hash().hex(), b"".join(snapshot_payloads(state, Index(1))).hex())
print(place(9, 2, [PlacementCandidate(replica(node), f"h{node % 3}") for node in range(6)], Random(1)))
"""


def test_hash_seeds_make_no_difference() -> None:
    root = Path(__file__).parents[3]
    told = {
        subprocess.run(
            [sys.executable, "-c", _TELL],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_the_room_imports_nothing_with_a_clock_a_socket_or_a_file() -> None:
    impure = {"asyncio", "socket", "os", "time", "datetime", "threading", "pathlib", "io", "secrets"}
    sources = sorted(Path(control.__file__).parent.glob("*.py"))
    assert len(sources) > 10
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not impure & {name.split(".")[0] for name in names}, source.name


def test_a_map_of_any_number_of_fields_can_be_read() -> None:
    """Fifteen fit the short header; the sixteenth must not make an empty map of it."""
    for count in (1, 15, 16, 300):
        fields = {f"field {number}": number for number in range(count)}
        assert msgpack.unpackb(b"".join(_parts(fields))) == fields
