"""Operators' verbs against three real brokers and one that joins later; each verb sends to another broker."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftlog.testing import Cluster
from raftlog.types import FEATURE_LEVEL_KNOWN
from tests.cli.conftest import Command

SECONDS = "60"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, with_cuts=False) as brokers:
        yield brokers


@pytest.fixture
def ask(cluster: Cluster, command: Command) -> Callable[..., Any]:
    """Return a function that runs a verb and returns its JSON, or with `expect` its error output."""
    turns = itertools.count()

    def run_verb(*args: str, expect: int = 0) -> Any:
        first = next(turns) % len(cluster.addresses)
        bootstrap = ",".join(cluster.addresses[first:] + cluster.addresses[:first])
        done = command(*args, "--json", bootstrap=bootstrap, expect=expect)
        return json.loads(done.out) if expect == 0 else done.err

    return run_verb


def leader_ids(rows: list[dict[str, Any]]) -> set[int]:
    return {row["leader_id"] for row in rows}


def replica_nodes(partition: dict[str, Any]) -> list[int]:
    return [replica["node_id"] for replica in partition["replicas"]]


def test_verbs_of_operators_work_on_a_cluster(cluster: Cluster, ask: Callable[..., Any]) -> None:
    ask("cluster", "config", "set", "balancer.mode=off", "leaders.balance=false")  # only what is ordered here
    ask("topic", "create", "orders", "--partitions", "3")
    assert [row["node_id"] for row in ask("broker", "list")] == [1, 2, 3]
    assert ask("broker", "show", "2")["membership_status"] == "active"
    assert "`raftlog broker list`" in ask("broker", "show", "9", expect=1)
    _check_maintenance(cluster, ask)
    _check_leadership(ask)
    _check_moves(ask)
    _check_settings(ask)
    _check_decommission(cluster, ask)


def _check_maintenance(cluster: Cluster, ask: Callable[..., Any]) -> None:
    for _ in range(2):
        assert ask("broker", "maintenance", "enable", "1", "--wait", "--timeout", SECONDS)["finished"]
    assert [row["draining"] for row in ask("broker", "maintenance", "status")] == [True, False, False]
    assert ask("cluster", "health")["nodes_in_maintenance"] == [1]
    assert 1 not in leader_ids([ask("partition", "show", f"orders/{number}") for number in range(3)])
    assert "maintenance" in ask("broker", "maintenance", "enable", "2", expect=1)
    for _ in range(2):
        ask("broker", "maintenance", "disable", "1")
    assert not any(row["draining"] for row in ask("broker", "maintenance", "status"))


def _check_leadership(ask: Callable[..., Any]) -> None:
    for node in (1, 2, 2):
        assert ask("partition", "transfer-leadership", "orders/0", "--to", str(node)) == {"leader_id": node}
    assert ask("partition", "transfer-leadership", "orders/0")["leader_id"] in (1, 3)
    assert "9" in ask("partition", "transfer-leadership", "orders/0", "--to", "9", expect=1)


def _check_moves(ask: Callable[..., Any]) -> None:
    ask("partition", "move", "orders/0", "--to", "2", "--wait", "--timeout", SECONDS)
    alone = ask("partition", "show", "orders/0")
    assert (replica_nodes(alone), alone["leader_id"]) == ([2], 2)
    ask("partition", "move", "orders/0", "--to", "3,1,2", "--wait", "--timeout", SECONDS)
    stale = ("--expected-version", str(alone["version"]))
    assert "repeat the command with the present version" in ask(
        "partition", "move", "orders/0", "--to", "1", *stale, expect=1
    )
    ask("partition", "move", "orders/0", "--to", "1,1", expect=1)
    ask("partition", "move", "orders/9", "--to", "1", expect=1)
    assert replica_nodes(ask("partition", "show", "orders/0")) == [3, 1, 2]
    assert ask("partition", "moves") == []
    assert ask("partition", "cancel-move", "--all") == []


def _check_settings(ask: Callable[..., Any]) -> None:
    version = ask("cluster", "config", "set", "balancer.moves.max=4")["config_version"]
    assert ask("cluster", "config", "get", "balancer.moves.max") == 4
    assert "repeat the command with the present version" in ask(
        "cluster", "config", "unset", "balancer.moves.max", "--expected-version", "1", expect=1
    )
    assert "balancer.mode" in ask("cluster", "config", "set", "none=1", expect=1)
    ask("cluster", "config", "unset", "balancer.moves.max", "--expected-version", str(version))
    assert ask("cluster", "config", "list")["balancer.moves.max"] == 16
    assert ask("cluster", "balancer", "status")["mode"] == "off"
    assert ask("cluster", "balance")["partitions_to_move"] >= 0
    assert ask("cluster", "log-level", "raftlog.partitions", "debug", "--node", "3")["level"] == "debug"
    assert ask("cluster", "upgrade")["feature_level"] == FEATURE_LEVEL_KNOWN


def _check_decommission(cluster: Cluster, ask: Callable[..., Any]) -> None:
    stuck = ask("broker", "decommission", "3")
    assert (stuck["finished"], len(stuck["allocation_failures"])) == (False, 3)
    assert "hosts" in stuck["reason"]
    ask("broker", "recommission", "3")
    cluster.add_node()
    done = ask("broker", "decommission", "3", "--wait", "--timeout", SECONDS)
    assert (done["finished"], done["replicas_left"]) == (True, 0)
    assert [row["node_id"] for row in ask("broker", "list")] == [1, 2, 4]
    assert ask("broker", "decommission", "3")["finished"]
    assert "no broker 3" in ask("broker", "recommission", "3", expect=1)
    assert all(sorted(replica_nodes(row)) == [1, 2, 4] for row in ask("partition", "list", "--topic", "orders"))
