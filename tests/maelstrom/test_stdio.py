"""Lines from pieces, within bounds; directories of processes that have ended."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.api.maelstrom import stdio
from raftlog.api.maelstrom.temporary import LEFT_AFTER_S, remove_abandoned, temporary_directory


@given(st.lists(st.binary(max_size=9).map(lambda data: data.replace(b"x", b"\n")), max_size=20))
def test_lines_do_not_depend_on_the_sizes_of_reads(pieces: list[bytes]) -> None:
    whole: list[bytes] = []
    lines = stdio.Lines(whole.append, lambda size: None)
    for piece in pieces:
        lines.feed(piece)
    lines.end()
    text = b"".join(pieces)
    assert whole == (text.removesuffix(b"\n").split(b"\n") if text else [])


def test_only_a_line_that_is_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "LINE_BYTES_MAX", 10)
    whole: list[bytes] = []
    dropped: list[int] = []
    lines = stdio.Lines(whole.append, dropped.append)
    for piece in (b"0123456789\n01234", b"56789", b"0", b"12\nnext\n", b"last but long one"):
        lines.feed(piece)
    lines.end()
    assert whole == [b"0123456789", b"next"]
    assert dropped == [13, 17]


async def test_read_and_write_errors_are_fatal(tmp_path: Path) -> None:
    folder, full = os.open(tmp_path, os.O_RDONLY), os.open("/dev/full", os.O_WRONLY)
    try:
        ended = asyncio.Event()
        stdio.Input(folder, stdio.Lines(lambda line: None, lambda size: None), ended.set)
        async with asyncio.timeout(10):
            await ended.wait()
        lost: list[bool] = []
        output = stdio.Output(full, lambda: lost.append(True))
        await output.open()
        output.write(b"nobody takes this\n")
        output.write(b"nor this\n")
        assert lost == [True]
    finally:
        os.close(folder)
        os.close(full)


def test_leftovers_of_a_killed_process_are_deleted_and_files_in_use_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, young, foreign = (tmp_path / f"raftlog-maelstrom-{name}" for name in ("left", "young", "file"))
    (left / "n1").mkdir(parents=True)
    young.mkdir()
    foreign.write_text("x")
    before = os.stat(left).st_mtime - 2 * LEFT_AFTER_S
    os.utime(left, (before, before))
    with temporary_directory() as path:
        assert not left.exists()
        assert young.exists()
        assert foreign.exists()
        os.utime(path, (before, before))
        assert not remove_abandoned(Path(path)), "its process lives"
        assert Path(path).exists()
    assert not Path(path).exists()
