"""Cluster settings as text and as values, and settings written by an older or newer release."""

import pytest

from raftlog.errors import InvalidArgument
from raftlog.partitions.controller.machine import AlterClusterConfig, settings_of
from raftlog.partitions.operations.cluster_settings import (
    SETTINGS,
    check_names,
    check_settings,
    current_settings,
    describe_settings,
)
from tests.controller.machine.fleet import make_cluster


def test_values_are_kept_as_text() -> None:
    wanted = {
        "balancer.mode": "node_add",
        "balancer.moves.max": 0x10,
        "catch.up.bytes.per.s": "-1",
        "leaders.balance": False,
        "replicas.repair.after.ms": "1000",
    }
    texts = {**wanted, "balancer.moves.max": "16", "leaders.balance": "false"}
    assert check_settings(wanted) == texts
    assert check_settings(texts) == texts
    assert list(SETTINGS) == sorted(SETTINGS)
    check_names(tuple(SETTINGS))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("no.such", "1", "setting 'no.such' does not exist"),
        ("balancer.mode", "on", "it can be off, node_add or continuous"),
        ("balancer.mode", True, "it can be off, node_add or continuous"),
        ("balancer.moves.max", 0, "1 to 10000"),
        ("balancer.moves.max", 1.5, "1 to 10000"),
        ("balancer.moves.max", True, "1 to 10000"),
        ("balancer.moves.max", None, "1 to 10000"),
        ("balancer.moves.max", [1], "1 to 10000"),
        ("balancer.moves.max", "1_0", "1 to 10000"),
        ("balancer.moves.max", "9" * 5_000, "1 to 10000"),
        ("replicas.repair.after.ms", 999, "-1, or 1000 to 1099511627776"),
        ("replicas.repair.after.ms", 1 << 50, "-1, or 1000 to 1099511627776"),
        ("catch.up.bytes.per.s", "fast", "-1, or"),
        ("leaders.balance", "yes", "true or false"),
        ("leaders.balance", 1, "true or false"),
    ],
)
def test_invalid_values_of_settings(name: str, value: object, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as refused:
        check_settings({name: value, "balancer.mode": "off"} if name != "balancer.mode" else {name: value})
    assert all(each in str(refused.value) for each in SETTINGS), "it lists what there is"


def test_values_unusable_by_this_release_count_as_the_default() -> None:
    scribe = make_cluster()
    defaults = current_settings(scribe.state)
    assert (defaults.balancer_mode, defaults.repair_after_ms, defaults.catch_up_bytes_per_s) == (
        "continuous",
        900_000,
        None,
    )
    later = {"balancer.mode": "dreaming", "not.yet": "7", "leaders.balance": "false", "replicas.repair.after.ms": "-1"}
    scribe.apply(AlterClusterConfig(settings_of(later)))
    assert current_settings(scribe.state) == defaults._replace(leaders_balance=False, repair_after_ms=None)
    shown = describe_settings(scribe.state)
    assert shown.version == scribe.last_index
    assert (shown.values["balancer.mode"], "balancer.mode" in shown.changed) == ("continuous", True)
    assert "not.yet" not in shown.values
