"""Settings that result from the gossip flags of `raftlog serve`, and combinations that are refused."""

from typing import Any

import click
import pytest

from raftlog.cli.serve.gossip_options import gossip_settings_from
from raftlog.cluster_secret import ClusterSecret
from raftlog.partitions.gossip import GossipSettings
from tests.cluster_secret import SECRET

LOOPBACK = ("127.0.0.1", 8094)


def settings_of(
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


def test_a_broker_alone_does_not_gossip() -> None:
    assert settings_of(None) is None


def test_beside_rpc_it_is_on_one_port_above_and_may_be_missing() -> None:
    settings = settings_of(LOOPBACK)
    assert settings is not None
    assert (settings.host, settings.port, settings.is_required) == ("127.0.0.1", 8095, False)
    assert settings_of(("127.0.0.1", 0)).port == 0


def test_the_port_of_another_broker_is_left_to_it() -> None:
    assert settings_of(LOOPBACK, seeds=(LOOPBACK, ("127.0.0.1", 8095))).port == 0
    assert settings_of(LOOPBACK, seeds=(LOOPBACK, ("127.0.0.1", 8093))).port == 0, "the next in a row"
    assert settings_of(LOOPBACK, seeds=(LOOPBACK, ("127.0.0.1", 8104))).port == 8095


def test_gossip_advertises_the_host_that_rpc_advertises() -> None:
    assert settings_of(LOOPBACK, advertise_rpc=("outside", 7)).advertise_host == "outside"


def test_off_is_off() -> None:
    assert settings_of(LOOPBACK, gossip="off") is None
    assert settings_of(None, gossip="off") is None


def test_configured_gossip_is_required() -> None:
    settings = settings_of(LOOPBACK, gossip="127.0.0.1:9", advertise_gossip="outside:10")
    assert settings is not None
    assert (settings.port, settings.advertise, settings.is_required) == (9, ("outside", 10), True)


def test_without_rpc_it_cannot_be_asked_for() -> None:
    with pytest.raises(click.UsageError, match="--rpc"):
        settings_of(None, gossip="127.0.0.1:9")


def test_without_the_secret_that_signs_it_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """Certificates can take the secret's place between brokers, but not for datagrams."""
    with pytest.raises(click.UsageError, match="--cluster-secret-file"):
        settings_of(LOOPBACK, secret=None, gossip="127.0.0.1:9")
    assert settings_of(LOOPBACK, secret=None) is None
    assert "gossip is off" in caplog.text
    assert "--cluster-secret-file" in caplog.text
    assert settings_of(None, secret=None) is None
    assert settings_of(LOOPBACK, secret=None, gossip="off") is None
