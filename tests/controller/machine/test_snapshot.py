"""Snapshots: bounded pieces of one map; damaged and invalid ones are refused."""

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
from raftlog.partitions.controller.machine.snapshot import HEADER, _encode_parts
from raftlog.types import FEATURE_LEVEL_KNOWN, Index, NodeId
from tests.controller.machine.fleet import (
    CommandLog,
    create,
    disk_uuid,
    make_cluster,
    register,
    replica,
    state_contents,
    topic_id,
)
from tests.layouts import read_layout


def make_busy_cluster() -> CommandLog:
    """Return the commands of a cluster that has rows of every table."""
    scribe = make_cluster()
    scribe.apply(create("t", 1, (1, 2, 3), (2, 3, 4), configs={"retention.ms": "5"}))
    scribe.apply(create("u", 2))
    scribe.apply(SetAssignment(topic_id(1), 1, (replica(5), replica(1)), Index(7)))
    scribe.apply(DeleteTopic("u", topic_id(2)))
    scribe.apply(UpdateBroker(NodeId(2), disk_uuid(2), True))
    scribe.apply(register(3, 33, replaces=3))
    scribe.apply_refused(create("t", 3))
    scribe.apply(SetMaintenance(NodeId(1), disk_uuid(1), True))
    scribe.apply(AlterClusterConfig((("balancer.mode", "off"),)))
    return scribe


def join_payloads(payloads: list[bytes]) -> dict[str, object]:
    fields: dict[str, object] = msgpack.unpackb(b"".join(payload[HEADER.size :] for payload in payloads))
    return fields


def read_map(fields: object) -> ControllerState:
    """Return the state of a snapshot whose map is in one piece."""
    restoration = SnapshotReader().take(HEADER.pack(1, 1, 1, 0, 9) + bytes(msgpack.packb(fields)))
    assert restoration is not None
    return restoration.finish()


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 1 << 16])
def test_pieces_are_bounded_and_can_be_restored(piece_bytes: int) -> None:
    scribe = make_busy_cluster()
    payloads = list(snapshot_payloads(scribe.state, Index(77), piece_bytes))
    table = read_layout("snapshot")
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
    assert state_contents(state) == state_contents(scribe.state)


def test_pieces_show_the_state_at_the_time_of_their_request() -> None:
    scribe = make_busy_cluster()
    expected = b"".join(snapshot_payloads(scribe.state, Index(1), 50))
    payloads = snapshot_payloads(scribe.state, Index(1), 50)
    taken = [next(payloads)]
    scribe.apply(DeleteTopic("t", topic_id(1)))
    scribe.apply(register(9))
    assert b"".join([*taken, *payloads]) == expected


def test_a_large_state_is_restored_in_steps() -> None:
    scribe = make_busy_cluster()
    [payload] = snapshot_payloads(scribe.state, Index(1))
    restoration = SnapshotReader().take(payload)
    assert restoration is not None
    steps = 1
    while (state := restoration.step(rows=1)) is None:
        steps += 1
    assert steps == 1 + sum(map(len, state.tables()))
    assert state.state_hash() == scribe.state.state_hash()


def test_a_new_snapshot_replaces_an_unfinished_one() -> None:
    scribe = make_busy_cluster()
    old = list(snapshot_payloads(scribe.state, Index(5), 100))
    scribe.apply(register(9))
    new = list(snapshot_payloads(scribe.state, Index(9), 100))
    reader = SnapshotReader()
    for payload in [*old[:-1], *new[:-1]]:
        assert reader.take(payload) is None
    restoration = reader.take(new[-1])
    assert restoration is not None
    assert restoration.finish().state_hash() == scribe.state.state_hash()


def test_pieces_out_of_order_are_refused() -> None:
    scribe = make_busy_cluster()
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


def test_an_invalid_map_is_refused() -> None:
    [payload] = snapshot_payloads(make_busy_cluster().state, Index(9))
    good = join_payloads([payload])
    topics = good["topics"]
    assert isinstance(topics, list)
    twice = [topics[0], [[*topics[0][0][:1], topic_id(9).bytes, *topics[0][0][2:]], *topics[0][1:]]]
    changes: list[dict[str, Any]] = [
        {"version": 2},
        {"applied_index": -1},
        {"feature_level": FEATURE_LEVEL_KNOWN + 1},
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
            read_map({**good, **change})
    others: list[object] = [[], None, {name: value for name, value in good.items() if name != "topics"}]
    for fields in others:
        with pytest.raises(FormatError):
            read_map(fields)


@settings(max_examples=80)
@given(st.data())
def test_a_damaged_piece_never_becomes_another_state(data: st.DataObject) -> None:
    scribe = make_busy_cluster()
    [payload] = snapshot_payloads(scribe.state, Index(9))
    damaged = bytearray(payload)
    damaged[data.draw(st.integers(HEADER.size, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        restoration = SnapshotReader().take(bytes(damaged))
        assert restoration is not None
        assert restoration.finish().state_hash() == scribe.state.state_hash()
    except FormatError:
        return


_PRINT_SNAPSHOT = """
from random import Random
from raftlog.partitions.controller.machine import PlacementCandidate, place_replicas, snapshot_payloads
from raftlog.types import Index
from tests.controller.machine.fleet import replica
from tests.controller.machine.test_snapshot import make_busy_cluster
state = make_busy_cluster().state
print(state.state_hash().hex(), b"".join(snapshot_payloads(state, Index(1))).hex())
print(place_replicas(9, 2, [PlacementCandidate(replica(node), f"h{node % 3}") for node in range(6)], Random(1)))
"""


def test_hash_seeds_do_not_change_a_snapshot() -> None:
    root = Path(__file__).parents[3]
    told = {
        subprocess.run(
            [sys.executable, "-c", _PRINT_SNAPSHOT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_the_state_machine_imports_no_clock_socket_or_file() -> None:
    impure = {"asyncio", "socket", "os", "time", "datetime", "threading", "pathlib", "io", "secrets"}
    sources = sorted(Path(control.__file__).parent.glob("*.py"))
    assert len(sources) > 10
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not impure & {name.split(".")[0] for name in names}, source.name


def test_a_map_of_any_number_of_fields_can_be_read() -> None:
    """Fifteen fields fit the short header of a map; the sixteenth needs the long one."""
    for count in (1, 15, 16, 300):
        fields = {f"field {number}": number for number in range(count)}
        assert msgpack.unpackb(b"".join(_encode_parts(fields))) == fields
