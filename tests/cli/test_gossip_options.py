"""Gossip settings that `raftlog serve` derives from its flags, and refused combinations."""

from typing import Any

import click
import pytest

from raftlog.cli.serve.gossip_options import gossip_settings_from
from raftlog.cluster_secret import ClusterSecret
from raftlog.partitions.gossip import GossipSettings
from tests.cluster_secret import SECRET

LOOPBACK = ("127.0.0.1", 8094)


def gossip_settings(
    rpc: tuple[str, int] | None,
    *,
    advertise_rpc: tuple[str, int] | None = None,
    seeds: tuple[tuple[str, int], ...] = (),
    secret: ClusterSecret | None = SECRET,
    **given: Any,
) -> GossipSettings | None:
    arguments = {"gossip": None, "advertise_gossip": None, "rack": "", "other": 1} | given
    found = gossip_settings_from(arguments, rpc, advertise_rpc, seeds, secret)
    assert arguments == {"other": 1}, "what is not its own is left alone"
    settings: GossipSettings | None = found["gossip"]
    return settings


def test_a_single_broker_does_not_gossip() -> None:
    assert gossip_settings(None) is None


def test_gossip_defaults_to_the_port_above_rpc_and_is_optional() -> None:
    settings = gossip_settings(LOOPBACK)
    assert settings is not None
    assert (settings.host, settings.port, settings.is_required) == ("127.0.0.1", 8095, False)
    assert gossip_settings(("127.0.0.1", 0)).port == 0


def test_gossip_avoids_the_port_of_another_broker() -> None:
    assert gossip_settings(LOOPBACK, seeds=(LOOPBACK, ("127.0.0.1", 8095))).port == 0
    assert gossip_settings(LOOPBACK, seeds=(LOOPBACK, ("127.0.0.1", 8093))).port == 0, "the next in a row"
    assert gossip_settings(LOOPBACK, seeds=(LOOPBACK, ("127.0.0.1", 8104))).port == 8095


def test_gossip_advertises_the_host_that_rpc_advertises() -> None:
    assert gossip_settings(LOOPBACK, advertise_rpc=("outside", 7)).advertise_host == "outside"


def test_gossip_can_be_switched_off() -> None:
    assert gossip_settings(LOOPBACK, gossip="off") is None
    assert gossip_settings(None, gossip="off") is None


def test_configured_gossip_is_required() -> None:
    settings = gossip_settings(LOOPBACK, gossip="127.0.0.1:9", advertise_gossip="outside:10")
    assert settings is not None
    assert (settings.port, settings.advertise, settings.is_required) == (9, ("outside", 10), True)


def test_gossip_without_rpc_is_refused() -> None:
    with pytest.raises(click.UsageError, match="--rpc"):
        gossip_settings(None, gossip="127.0.0.1:9")


def test_gossip_needs_the_cluster_secret(caplog: pytest.LogCaptureFixture) -> None:
    """Certificates can replace the secret between brokers, but not for datagrams."""
    with pytest.raises(click.UsageError, match="--cluster-secret-file"):
        gossip_settings(LOOPBACK, secret=None, gossip="127.0.0.1:9")
    assert gossip_settings(LOOPBACK, secret=None) is None
    assert "gossip is off" in caplog.text
    assert "--cluster-secret-file" in caplog.text
    assert gossip_settings(None, secret=None) is None
    assert gossip_settings(LOOPBACK, secret=None, gossip="off") is None
