"""Offline tools on files that are valid, damaged, in use, or no log at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from raftlog import Log
from raftlog.records import NewRecord
from raftlog.testing import BrokerProcess
from tests.waiting import block_until

FILE = f"{0:020d}.log"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Create a log of three batches with ten records each."""
    with Log.open(str(tmp_path / "log")) as log:
        for batch in range(3):
            log.append([NewRecord(b"value %d" % number, b"key", 5) for number in range(10 * batch, 10 * batch + 10)])
            log.flush()
    return tmp_path / "log"


def damage(path: Path, value: bytes) -> None:
    content = bytearray((path / FILE).read_bytes())
    content[content.index(value)] ^= 0xFF
    (path / FILE).write_bytes(content)


def test_dump_prints_batches(run: Any, path: Path) -> None:
    lines = [json.loads(line) for line in run("log", "dump", str(path / FILE), "--json").stdout.splitlines()]
    assert lines[0]["control"]["kind"] == "roll"
    assert [(line["base_offset"], line["last_offset"]) for line in lines[1:]] == [(0, 9), (10, 19), (20, 29)]
    records = run("log", "dump", str(path / FILE), "--json", "--records").stdout.splitlines()
    values = [json.loads(line)["value"] for line in records if b'"value"' in line]
    assert values == [f"value {number}" for number in range(30)]
    assert b"offsets 10 to 19" in run("log", "dump", str(path / FILE)).stdout


def test_dump_refuses_other_files(run: Any, tmp_path: Path) -> None:
    (tmp_path / "other.log").write_text("hello")
    assert b"is not a segment file" in run("log", "dump", str(tmp_path / "other.log"), expect=1).stderr
    run("log", "dump", str(tmp_path / "missing"), expect=2)


def test_verify_accepts_a_valid_log(run: Any, path: Path) -> None:
    (found,) = json.loads(run("log", "verify", str(path), "--json").stdout)["logs"]
    assert found["sound"] is True
    assert (found["records"], found["end_offset"], found["problems"]) == (30, 30, [])
    assert str(path).encode() in run("log", "verify", str(path)).stdout


def test_damage_is_reported_and_repaired_only_with_accept_loss(run: Any, path: Path) -> None:
    damage(path, b"value 15")
    before = (path / FILE).read_bytes()
    done = run("log", "verify", str(path), expect=1)
    assert FILE.encode() in done.stderr
    assert b"offset 10" in done.stderr
    assert b"1 damaged batch" in run("log", "dump", str(path / FILE), expect=1).stderr
    done = run("log", "recover", str(path), expect=1)
    assert b"would lose offsets 10 to 19" in done.stdout
    assert b"--accept-loss" in done.stderr
    assert (path / FILE).read_bytes() == before
    done = run("log", "recover", str(path), "--accept-loss")
    assert b"lost offsets 10 to 19; the bytes are kept in" in done.stdout
    run("log", "verify", str(path))
    with Log.open(str(path)) as log:
        assert [record.offset for record in log.read(0)] == [*range(10), *range(20, 30)]
        assert log.append([b"goes on"]) == 30
    assert b"nothing to do" in run("log", "recover", str(path)).stdout


def test_damage_before_batches_with_index_rows_is_not_a_torn_tail(run: Any, path: Path) -> None:
    """Row and header of the second batch are bad, but a later batch was written, so the second was complete once."""
    with (path / FILE).open("r+b") as log:
        first = log.read().index((10).to_bytes(8), 100)
        log.seek(first + 8)
        log.write(b"\x7f")
    index = path / f"{0:020d}.index"
    with index.open("r+b") as rows:
        rows.seek(2 * 44 + 20)
        rows.write(b"\x7f")
    (path / ".raftlog" / "checkpoint").unlink()
    done = run("log", "verify", str(path), "--json", expect=1)
    (found,) = json.loads(done.stdout)["logs"]
    assert found["tail_bytes"] == 0
    assert "offset 10" in found["problems"][0]


def test_recover_refuses_an_open_log(run: Any, path: Path) -> None:
    with Log.open(str(path)):
        assert b"another process" in run("log", "recover", str(path), expect=1).stderr


@pytest.mark.parametrize("verb", ["verify", "recover"])
def test_a_directory_without_a_log_is_refused(run: Any, tmp_path: Path, verb: str) -> None:
    assert b"holds no log" in run("log", verb, str(tmp_path), expect=1).stderr
    run("log", verb, str(tmp_path / "missing"), expect=2)
    run("log", verb, expect=2)


def test_a_log_without_segments_is_refused(run: Any, path: Path) -> None:
    for file in path.glob("0*"):
        file.unlink()
    assert b"ends here, and its checkpoint at offset 30" in run("log", "verify", str(path), expect=1).stderr


def test_a_data_directory_can_be_verified_only_while_the_broker_is_stopped(
    run: Any, own_broker: BrokerProcess, tmp_path: Path
) -> None:
    at = ("--bootstrap", own_broker.address)
    run("topic", "create", "t", "-p", "2", *at)
    run("produce", "t", *at, stdin=b"a\nb\nc\n")

    def verify() -> dict[str, Any]:
        """Return the logs by path, once the files have all records: those answered are in the journal before."""
        logs = json.loads(run("log", "verify", str(tmp_path / "data"), "--json").stdout)["logs"]
        found = {log["path"]: log for log in logs}
        has_all = sum(found[str(tmp_path / "data" / "t" / number)]["records"] for number in "01") == 3
        return found if has_all else {}

    found = block_until(verify)
    assert str(tmp_path / "data" / ".raftlog" / "controller") in found
    assert len(found) == 3
    dumped = run("log", "dump", str(tmp_path / "data" / "t" / "0" / FILE), "--json").stdout.splitlines()
    (voter,) = json.loads(dumped[0])["control"]["voters"]
    assert voter["node_id"] == 1
