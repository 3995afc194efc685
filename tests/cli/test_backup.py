"""`raftlog backup` and `restore` as processes: under writes, with the leader killed, twice at once, and stopped."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raftlog.testing import Cluster
from tests.cli.conftest import Run
from tests.integration.cluster_load import Ledger, Writer, create_topic
from tests.waiting import block_until


def consume(run: Run, topic: str, at: str) -> dict[tuple[int, int], bytes]:
    """Return the values of a topic by partition and offset."""
    lines = run("consume", topic, "--no-follow", "--json", "--bootstrap", at).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    return {(row["partition"], row["offset"]): row["value"] for row in rows}


def test_a_backup_under_writes_and_a_killed_leader_is_restored_in_a_new_cluster(run: Run, tmp_path: Path) -> None:
    store, ledger = str(tmp_path / "backup"), Ledger("orders")
    with Cluster(3, with_cuts=False) as old:
        at = ",".join(old.addresses)
        create_topic(old.addresses[0], "orders", partitions=2)
        writers = [Writer(ledger, old.addresses, 2, number, 0.002) for number in range(2)]
        for writer in writers:
            writer.start()
        ledger.wait_for_more(200)
        first = json.loads(run("backup", store, "--json", "--bootstrap", at).stdout)
        assert first["records"] >= 200
        ledger.wait_for_more(100)
        acknowledged = dict(ledger.acknowledged)
        leader = old.leader("orders", 0)
        old.nodes[leader].kill()
        second = json.loads(run("backup", store, "--json", "--bootstrap", at).stdout)
        assert second["records"] >= 100
        for writer in writers:
            writer.end()
        content = consume(run, "orders", at)
    assert b"checked:" in run("restore", store, "--check").stdout
    with Cluster(1, with_cuts=False) as new:
        at = new.addresses[0]
        done = json.loads(run("restore", store, "--json", "--bootstrap", at).stdout)
        assert (done["topics"], done["records"]) == (1, first["records"] + second["records"])
        restored = consume(run, "orders", at)
        assert acknowledged.keys() <= restored.keys()
        assert restored == {place: value for place, value in content.items() if place in restored}
        assert b"exists" in run("restore", store, "--bootstrap", at, expect=1).stderr


def test_a_run_that_was_stopped_for_long_loses_its_claim(
    run: Run, spawn: Callable[..., Any], broker: Any, topic: str, tmp_path: Path
) -> None:
    store, at = tmp_path / "backup", ("--bootstrap", broker.address)
    run("produce", topic, *at, stdin=b"first\n")
    run("backup", str(store), *at)
    run("produce", topic, *at, stdin=b"".join(b"%d\n" % number for number in range(100_000)))
    process = spawn("backup", str(store), *at, "--file-mib", "1", "--parallel", "1")
    block_until(lambda: process.poll() is not None or list(store.glob("runs/*")))
    assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGSTOP)
    after = json.loads(run("backup", str(store), *at, "--json").stdout)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 1
    assert b"another run" in process.stderr.read()
    checked = json.loads(run("restore", str(store), "--check", "--json").stdout)
    assert (checked["records"], after["topics"]) == (100_001, 1)


def test_wrong_places_and_options_are_one_line(run: Run, broker: Any, tmp_path: Path) -> None:
    at = ("--bootstrap", broker.address)
    assert b"holds no backup" in run("restore", str(tmp_path), "--check", expect=1).stderr
    assert b"holds no backup" in run("restore", str(tmp_path / "none"), *at, expect=1).stderr
    (tmp_path / "file").write_text("")
    assert b"file" in run("backup", str(tmp_path / "file" / "x"), *at, expect=1).stderr
    assert b"is no backup, and not empty" in run("backup", str(tmp_path), *at, expect=1).stderr
    assert b"cannot be used" in run("backup", "ftpp://x/y", *at, expect=1).stderr
    for verb in ("backup", "restore"):
        assert b"'' names no place" in run(verb, "", *at, expect=1).stderr
    twice = ("restore", "s", "--rename", "a=b", "--rename", "a=c")
    assert b"topic 'a' gets two names, 'b' and 'c'" in run(*twice, *at, expect=2).stderr
    assert b"'a=' is not NAME=NEW" in run("restore", "s", "--rename", "a=", *at, expect=2).stderr
    assert b"--before" in run("restore", "s", "--before", "yesterday", *at, expect=2).stderr
    assert b"start the broker" in run("backup", str(tmp_path / "b"), "--bootstrap", "127.0.0.1:1", expect=1).stderr
