"""Large JSON parsed in slices: the results equal those of one parser call for any size of slices."""

import gc
import itertools
import json
import random
import time

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.records import json_slices
from raftlog.records.json_slices import NESTED_MAX, check_json, split_items
from raftlog.topic_config import MIB

TEXTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.text('"\\[]{},:\n', max_size=12),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text('a",[}\\é', max_size=4), inner, max_size=6),
    max_leaves=40,
)


@pytest.fixture(params=[1, 3, 7, 20, 64])
def slices(request, monkeypatch):
    """Make slices so small that every position is the end of one."""
    monkeypatch.setattr(json_slices, "SLICE_BYTES", request.param)
    monkeypatch.setattr(json_slices, "_STRING_SLICE_BYTES", max(8, request.param))


def is_json(text):
    try:
        for _ in check_json(text):
            pass
    except ValueError:
        return False
    return True


def is_json_by_orjson(text):
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def write_json(value, chance):
    """Write the value as text, with white space and escapes."""
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1]))
    return text.encode()


def mutate(text, chance):
    """Remove, double or replace a few bytes of the text."""
    found = bytearray(text)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(found) + 1)
        match chance.randrange(3):
            case 0:
                del found[at : at + chance.randint(1, 4)]
            case 1:
                found[at:at] = found[at : at + chance.randint(1, 4)]
            case _:
                found[at : at + 1] = bytes([chance.choice(b'"\\[]{},:0 u\xc3\xa9')])
    return bytes(found)


@pytest.mark.usefixtures("slices")
@given(TEXTS, st.randoms(use_true_random=False))
@settings(max_examples=20)  # for each size of slices
def test_text_is_json_if_a_parser_accepts_it(value, chance):
    text = write_json(value, chance)
    assert is_json(text)
    for _ in range(5):
        other = mutate(text, chance)
        assert is_json(other) == is_json_by_orjson(other), other


@pytest.mark.usefixtures("slices")
@given(st.lists(TEXTS, max_size=8) | st.dictionaries(st.text(max_size=3), TEXTS, max_size=8), st.randoms())
@settings(max_examples=20)  # for each size of slices
def test_split_items_equal_those_of_the_list_or_object(value, chance):
    text = write_json(value, chance)
    first, last = (b"[", b"]") if type(value) is list else (b"{", b"}")
    spans = [span for span in split_items(text, 1, len(text) - 1) if span is not None]
    parts = [orjson.loads(first + text[start:end] + last) for start, end in spans]
    if type(value) is list:
        assert [item for part in parts for item in part] == orjson.loads(text)
    else:
        assert {name: item for part in parts for name, item in part.items()} == orjson.loads(text)
    between = [text[end:start] for (_, end), (start, _) in itertools.pairwise(spans)]
    assert set(between) <= {b","}


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize(
    "text", [b"[1,]", b"[,1]", b"[1,,2]", b'{"a":1,}', b'{"a",}', b'{"a":[1}]', b'["\\ud83d",1]', b"1,2", b""]
)
def test_nearly_valid_json_is_refused(text):
    assert not is_json(text)


@pytest.mark.usefixtures("slices")
def test_characters_are_not_split_between_slices():
    assert is_json(b'["' + b"\\ud83d\\ude00" * 20 + b'"]')
    assert is_json(('["' + "\N{GRINNING FACE}é" * 20 + '"]').encode())
    assert not is_json(b'["' + "\N{GRINNING FACE}".encode()[:3] * 20 + b'"]')


def test_nesting_is_bounded():
    assert is_json(b"[" * NESTED_MAX + b"]" * NESTED_MAX)
    for opening, closing in ((b"[", b"]"), (b'{"":', b"}")):
        deep = opening * 100_000 + b"0" + closing * 100_000
        assert not is_json(deep)


@pytest.mark.parametrize(
    "unit", [b"[],", b"{},", b'{"":0},', b'"a",', b'"\\"",', b"0,", b"[[],{}],", b'{"a":{"b":[1,2,3]}},']
)
def test_each_step_is_short(unit):
    """A parse of 4 MiB at once takes a few hundred milliseconds; each step must be a small part of it."""
    text = b"[" + unit * (4 * MIB // len(unit)) + b"0]"
    gc.collect()
    gc.disable()
    try:
        steps, began = [], time.thread_time()
        for _ in check_json(text):
            now = time.thread_time()
            steps.append(now - began)
            began = now
    finally:
        gc.enable()
    assert len(steps) >= len(text) // json_slices.SLICE_BYTES
    assert max(steps) < max(0.05, sum(steps) / 4)


def test_long_strings_are_checked_in_pieces():
    long = "é\\u00e9\\n".encode() * 500_000
    assert len(list(check_json(b'{"a":"' + long + b'","b":["' + long + b'"]}'))) > 20
    assert not is_json(b'{"a":"' + long + b"\xff" + b'"}')
    assert not is_json(b'{"a":"' + long)


def test_large_items_are_split_off_alone():
    chance = random.Random(1)
    sizes = [chance.choice([3, 20, 5_000, 100_000, 300_000]) for _ in range(60)]
    items = [["x" * (size // 2), {"b": ["y"] * (size // 8)}] for size in sizes]
    text = orjson.dumps(items)
    spans = [span for span in split_items(text, 1, len(text) - 1) if span is not None]
    parts = [orjson.loads(b"[" + text[start:end] + b"]") for start, end in spans]
    assert [item for part in parts for item in part] == items
    assert all(
        len(part) == 1
        for part, (start, end) in zip(parts, spans, strict=True)
        if end - start > 2 * json_slices.SLICE_BYTES
    )
