"""Histories without Spark: files cut into pieces, entries as rows, and entries found again."""

import gzip
from pathlib import Path

import pytest

from raftlog.checkers import Op, read_lines, write_lines
from raftlog.errors import InvalidArgument
from raftlog.pipeline.histories import files
from raftlog.pipeline.histories.files import Count, Piece, count, cut, find, lines_of, needs_counting, numbered, packed
from raftlog.pipeline.histories.parts import ARROW_SCHEMA, batches_of, rows_of
from raftlog.pipeline.histories.proofs import proofs_of, wanted_of
from raftlog.pipeline.histories.verdict import HistoryAnomaly, HistoryVerdict
from tests.checkers.model_log import clean_history

HISTORY = clean_history(7, 150)
LINES = [*write_lines(HISTORY[:40]), b"\n", b"  \n", *write_lines(HISTORY[40:])]
"""Empty lines do not count as entries."""


def told(pieces: list[Piece]) -> list[Piece]:
    return numbered(pieces, list(count(pieces)))


def entries(pieces: list[Piece]) -> list[tuple[int, str, str, int]]:
    """Of each entry that pieces give: sequence, type, kind, process."""
    rows = [row for piece in pieces for row in rows_of(piece)]
    assert [row[-1] for row in rows if row[-1]] == []
    return [(row[1], row[4], row[5], row[3]) for row in rows if row[2] == 0]


def expected(history: list[Op]) -> list[tuple[int, str, str, int]]:
    return [(op.sequence, op.type, op.kind, op.process) for op in history if op.kind != "nemesis"]


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 1000, 1 << 20])
def test_wherever_a_file_is_cut_its_entries_are_the_same(tmp_path: Path, piece_bytes: int) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(LINES).removesuffix(b"\n"))
    pieces = cut(find(0, str(path)), piece_bytes)
    assert b"".join(line for piece in pieces for line in lines_of(piece)) == path.read_bytes()
    assert entries(told(pieces)) == expected(HISTORY)


def test_a_directory_is_one_history_in_the_order_of_names_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_bytes(b"".join(LINES[:30]))
    (tmp_path / "2.jsonl.gz").write_bytes(gzip.compress(b"".join(LINES[30:70])))
    (tmp_path / "3.jsonl").write_bytes(b"".join(LINES[70:]))
    (tmp_path / "results.json").write_text("{}")
    pieces = cut(find(3, str(tmp_path)), 500)
    assert needs_counting(pieces)
    assert {piece.start for piece in pieces if piece.is_compressed} == {0}
    assert entries(told(pieces)) == expected(HISTORY)
    assert entries(told(cut(find(3, f"file://{tmp_path}"), 500))) == expected(HISTORY)


def test_small_files_are_put_together_into_tasks() -> None:
    pieces = [Piece(run, f"{run}.jsonl", 0, 10) for run in range(5)]
    assert [len(task) for task in packed(pieces, 20)] == [2, 2, 1]
    assert not needs_counting(pieces)
    assert packed([]) == []


def test_each_run_is_numbered_by_itself() -> None:
    pieces = [Piece(0, "a", 0, 5), Piece(0, "a", 5, 9), Piece(0, "b", 0, 5), Piece(1, "c", 0, 5)]
    counts = [Count(3, 2, 70), Count(2, 2, None), Count(1, 1, 90), Count(4, 4, 10)]
    assert [(p.lines, p.sequence, p.time) for p in numbered(pieces, counts)] == [
        (0, 0, 0),
        (3, 2, 70),
        (0, 4, 70),
        (0, 0, 0),
    ]


def test_what_is_no_history_is_said_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no such file or directory"):
        find(0, str(tmp_path / "nothing"))
    with pytest.raises(InvalidArgument, match=r"no file there ends with \.jsonl"):
        find(0, str(tmp_path))


SEND = '{"time":5,"process":1,"type":"ok","kind":"send","value":{"partition":"t/0","values":[7],"offsets":[%s]}}'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not an entry of a history: JSONDecodeError"),
        ('{"time":5,"process":1,"type":"ok","kind":"dance"}', "not an entry of a history: KeyError"),
        ('{"time":0,"process":1,"type":"info","kind":"crash"}', "in the order of time"),
        ('{"time":"5","process":1,"type":"info","kind":"crash"}', "whole numbers"),
        ('{"time":5,"process":1,"type":"ok","kind":"poll"}', "does not say what"),
        (SEND % "", "1 values were acknowledged with 0 offsets"),
        (SEND % '"9"', "offsets are whole numbers"),
        (SEND % str(1 << 63), "offsets are whole numbers"),
        (SEND.replace('"ok"', '"invoke"').replace("[7]", "[]") % "", "a send has no value"),
        (SEND.replace('"ok"', '"invoke"').replace("[7]", "[7,7]") % "", "sent twice"),
        (SEND.replace('"ok"', '"invoke"').replace("[7]", "[7.5]") % "", "values whole numbers or strings"),
        (
            '{"time":5,"process":1,"type":"ok","kind":"poll","value":[{"partition":"t/0","offsets":[1,2],"values":[7]}]}',
            "a poll has 2 offsets and 1 values",
        ),
    ],
)
def test_a_line_that_is_no_entry_ends_its_piece_and_is_named(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "history.jsonl"
    good = '{"time":3,"process":1,"type":"info","kind":"crash"}\n'
    path.write_text(f"{good}\n{line}\n{good}")
    rows = list(rows_of(cut(find(0, str(path)))[0]))
    assert len(rows) == 2
    assert rows[1][1] == 1
    assert rows[1][-1].startswith(f"{path} line 3: ")
    assert why in rows[1][-1]


def test_what_is_not_compressed_as_its_name_says_is_named(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl.gz"
    whole = gzip.compress(b"".join(LINES))
    for content in (b"{}\n", whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert "cannot be unpacked" in [*rows_of(cut(find(0, str(path)))[0])][-1][-1]


def test_a_line_longer_than_any_entry_is_not_taken_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"x" * 1000)
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 999)
    with pytest.raises(InvalidArgument, match="a line of more than 999 bytes"):
        list(lines_of(cut(find(0, str(path)))[0]))


def test_rows_come_in_batches_of_the_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(LINES))
    monkeypatch.setattr("raftlog.pipeline.histories.parts.ROWS_MAX", 25)
    batches = list(batches_of(cut(find(0, str(path)))))
    assert {batch.schema for batch in batches} == {ARROW_SCHEMA}
    assert {batch.num_rows for batch in batches[:-1]} == {25}
    assert sum(batch.num_rows for batch in batches) >= len(expected(HISTORY))


def test_entries_are_found_again_and_read_as_reports_show_them(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(LINES))
    pieces = told(cut(find(2, str(path)), 1000))
    chosen = [0, 1, 39, 40, 41, len(HISTORY) - 1]
    proofs = [proof for task in wanted_of(pieces, {2: chosen, 5: [1]}) for proof in proofs_of(task)]
    assert [(proof.run, proof.sequence) for proof in proofs] == [(2, sequence) for sequence in chosen]
    assert [proof.text for proof in proofs] == [str(list(read_lines(LINES))[sequence]) for sequence in chosen]
    assert [LINES[proof.line - 1] for proof in proofs] == list(write_lines(HISTORY[each] for each in chosen))


def test_a_verdict_is_clean_only_when_nothing_was_left_to_others() -> None:
    clean = HistoryVerdict((), {}, 9)
    assert clean.is_clean()
    assert str(clean) == "9 operations, no anomaly"
    left = clean._replace(unjudged=("lost-key",))
    assert not left.is_clean()
    assert left.is_sound
    assert left.is_clean(["lost-key"])
    assert str(left).splitlines()[1] == "not judged, raftlog.checkers can: lost-key"
    anomaly = HistoryAnomaly("gap", "t/0: a hole", (4,), ("#4 entry",))
    found = clean._replace(anomalies=(anomaly,), counts={"gap": 1})
    assert not found.is_clean()
    assert str(found) == "9 operations: 1 gap\ngap: t/0: a hole\n    #4 entry"
    assert found.as_json() == {
        "operations": 9,
        "is_sound": False,
        "kinds": [{"kind": "gap", "found": 1}],
        "problems": ["gap: t/0: a hole\n    #4 entry"],
    }
