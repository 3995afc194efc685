"""Reading lines from files: all of them, unchanged, with any size of chunks."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raftlog.cli.outcome import CommandFailed
from raftlog.cli.produce.source import InputSource


async def read_lines(paths: list[Path], chunk_bytes: int, limit: int = 1 << 20) -> list[bytes]:
    source = InputSource([str(path) for path in paths], chunk_bytes, limit)
    return [line async for lines in source.lines() for line in lines]


@given(content=st.binary(max_size=200).map(lambda raw: raw.replace(b"\x01", b"\n")), chunk_bytes=st.integers(1, 50))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
async def test_lines_are_the_text_between_newlines(tmp_path: Path, content: bytes, chunk_bytes: int) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    expected = content.split(b"\n")
    assert await read_lines([path], chunk_bytes) == (expected if expected[-1] else expected[:-1])


async def test_files_are_read_one_after_another(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a\nb")
    second.write_bytes(b"c\n")
    source = InputSource([str(first), str(second)], 100, 100)
    assert source.size_bytes == 5
    assert [line async for lines in source.lines() for line in lines] == [b"a", b"b", b"c"]


async def test_an_endless_line_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"ok\n" + b"x" * 10_000)
    with pytest.raises(CommandFailed, match=r"input, line 2: .* longer than .* 500"):
        await read_lines([path], 100, 500)
