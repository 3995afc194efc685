"""Output formats of `consume`, and their import by `produce`."""

from types import SimpleNamespace
from typing import Any

import click
import pytest

from raftlog.cli.consume.formatting import format_printer, format_values, json_printer, keyed_printer
from raftlog.cli.json_lines import read_json_line
from raftlog.cli.produce.routing import RecordLayout, make_router
from raftlog.records import NewRecord


def make_record(value: bytes | None, key: bytes | None = None, offset: int = 0, **more: Any) -> Any:
    fields = {"timestamp": 5, "headers": [], **more}
    return SimpleNamespace(value=value, key=key, offset=offset, **fields)


def test_values_are_printed_one_a_line() -> None:
    assert format_values(0, [make_record(b"a"), make_record(None), make_record(b"b", b"k")]) == b"a\n\nb\n"


@pytest.mark.parametrize("line", [b"k:v", b":v", b"k:", b"k:v:w", b"plain", b"", b"\xff:\x00"])
def test_lines_with_a_key_separator_are_restored_exactly(line: bytes) -> None:
    for _partition, records in make_router(RecordLayout(1, key_separator=b":")).route([line]):
        stored = records[0]
        assert not isinstance(stored, bytes)
        assert keyed_printer(b":")(0, [make_record(stored.value, stored.key)]) == line + b"\n"


@pytest.mark.parametrize(
    "stored",
    [
        NewRecord(b"v", b"k", 7, [("h", b"x"), ("n", None)]),
        NewRecord(None, None, 7, []),
        NewRecord(b"\xff\xfe", b"\x80", 7, []),
        NewRecord(b'{"a": 1}', b"", 7, []),
    ],
    ids=["plain", "nothing", "not text", "json text"],
)
def test_json_lines_are_restored_exactly(stored: NewRecord) -> None:
    shown = make_record(stored.value, stored.key, 9, timestamp=stored.timestamp, headers=list(stored.headers))
    line = json_printer("t")(3, [shown])
    assert line.endswith(b"\n")
    assert read_json_line(line[:-1], 1) == (stored, 3)


def test_a_custom_format_is_printed() -> None:
    printer = format_printer("t", r"%t/%p@%o %d [%k]=%v %h 100%%\n")
    shown = make_record(b"v", None, 12, headers=[("a", b"1"), ("b", None), ("c", b"\xff")])
    assert printer(4, [shown]) == b"t/4@12 5 []=v a=1,b=,c=base64:/w== 100%\n"


def test_an_unknown_letter_in_a_format_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="%z is not a placeholder"):
        format_printer("t", "%z")
