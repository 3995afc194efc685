"""`raftlog dev`: where its nodes are, and what an earlier run decides."""

from pathlib import Path
from typing import Any

import pytest

from raftlog.cli.dev import plan
from raftlog.cli.dev_plan import check_plan
from raftlog.cli.outcome import CommandFailed


def test_addresses_and_directories(tmp_path: Path) -> None:
    nodes = plan(3, tmp_path, 9000, 1)
    assert [node.http for node in nodes] == ["127.0.0.1:9010", "127.0.0.1:9020", "127.0.0.1:9030"]
    assert (nodes[1].rpc, nodes[1].gossip) == ("127.0.0.1:9022", "127.0.0.1:9023")
    assert [node.data_dir for node in nodes] == [str(tmp_path / f"node-{number}") for number in (1, 2, 3)]
    command = " ".join(nodes[2].child.command)
    assert "--seeds 127.0.0.1:9012,127.0.0.1:9022,127.0.0.1:9032" in command
    assert "--node-id 3" in command


def test_workers_take_the_decades_between(tmp_path: Path) -> None:
    nodes = plan(2, tmp_path, 9000, 3)
    assert [node.http for node in nodes] == ["127.0.0.1:9010", "127.0.0.1:9040"]
    assert nodes[0].child.command[-2:] == ["--workers", "3"]


def test_a_directory_keeps_its_addresses(tmp_path: Path) -> None:
    check_plan(tmp_path, nodes=3, base_port=9000, workers=1)
    check_plan(tmp_path, nodes=3, base_port=9000, workers=1)
    with pytest.raises(CommandFailed, match="--nodes 3 --base-port 9000 --workers 1"):
        check_plan(tmp_path, nodes=3, base_port=9100, workers=1)
    (tmp_path / "dev.json").write_text("?")
    with pytest.raises(CommandFailed, match="cannot be read"):
        check_plan(tmp_path, nodes=3, base_port=9000, workers=1)


def test_ports_that_do_not_exist(run: Any, tmp_path: Path) -> None:
    done = run("dev", "--nodes", "99", "--base-port", "65000", "--data-dir", str(tmp_path / "dev"), expect=2)
    assert b"no room" in done.stderr
    assert not (tmp_path / "dev").exists()
