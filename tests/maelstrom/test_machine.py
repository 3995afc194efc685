"""Effects of commands on keys, compared with a plain dictionary."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.api.maelstrom.errors import Code, Malformed
from raftlog.api.maelstrom.machine import ADD, CAS, COMMIT, SEND, WRITE, CommandOutcome, KeyCommand, KeyMachine, command
from raftlog.api.maelstrom.messages import NESTED_MAX, parse_value, text_of

KEYS = st.sampled_from(["a", 1, 1.0, True, None, [1]])
VALUES = st.sampled_from([0, 1, 1.0, True, False, None, "1", {"b": 1, "a": 2}])


def _apply(machine: KeyMachine, wanted: KeyCommand) -> CommandOutcome:
    record = wanted.record()
    assert record.key is not None
    assert record.value is not None
    return machine.apply(record.key.decode(), record.value)


@given(st.lists(st.tuples(KEYS, VALUES, VALUES, st.booleans())))
def test_registers_support_compare_and_set(steps: list[tuple[Any, Any, Any, bool]]) -> None:
    machine, twin = KeyMachine(), dict[str, str]()
    for key, expected, value, is_write in steps:
        name, wanted = json.dumps(key), json.dumps(value, sort_keys=True, separators=(",", ":"))
        if is_write:
            assert _apply(machine, command(key, WRITE, value)) == CommandOutcome()
            twin[name] = wanted
            continue
        outcome = _apply(machine, command(key, CAS, expected, value))
        if name not in twin:
            assert outcome.code is Code.KEY_DOES_NOT_EXIST
        elif twin[name] != json.dumps(expected, sort_keys=True, separators=(",", ":")):
            assert outcome.code is Code.PRECONDITION_FAILED
        else:
            assert outcome.code is None
            twin[name] = wanted
    assert {key: parse_value(value) for key, value in machine.registers.items()} == {
        key: json.loads(value) for key, value in twin.items()
    }


@given(st.lists(st.tuples(KEYS, st.integers(0, 5))))
def test_committed_offsets_only_rise(commits: list[tuple[Any, int]]) -> None:
    machine, twin = KeyMachine(), dict[str, int]()
    for key, offset in commits:
        _apply(machine, command(key, COMMIT, offset))
        twin[text_of(key)] = max(offset, twin.get(text_of(key), 0))
    assert machine.committed == twin


@given(st.lists(KEYS))
def test_offsets_of_a_key_have_no_gaps(keys: list[Any]) -> None:
    machine = KeyMachine()
    offsets: dict[str, list[int]] = {}
    for key in keys:
        offsets.setdefault(text_of(key), []).append(_apply(machine, command(key, SEND, key)).offset)
        _apply(machine, command(key, ADD))
    assert all(found == list(range(len(found))) for found in offsets.values())
    assert machine.messages == {key: [key] * len(found) for key, found in offsets.items()}
    assert set(machine.elements) == set(offsets)


def test_nesting_is_bounded_for_lists_and_objects() -> None:
    assert len(text_of([[]] * NESTED_MAX)) > NESTED_MAX
    for wrap in (lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: [1, {"b": inner}]):
        value: Any = 1
        while (depth := text_of(value).count("[") + text_of(value).count("{")) + 2 <= NESTED_MAX:
            value = wrap(value)
        assert depth >= NESTED_MAX - 1
        with pytest.raises(Malformed, match="200 levels"):
            text_of(wrap(wrap(value)))


def test_unknown_commands_change_nothing() -> None:
    machine = KeyMachine()
    for what in (b"", b"{", b"[]", b"7", b'["commit","x"]', b'["send"]', b'["drop",1]', b"[" * 100_000, b"\xff"):
        assert machine.apply("k", what) == CommandOutcome(Code.ABORT)
    assert not any((machine.registers, machine.messages, machine.committed, machine.elements))
