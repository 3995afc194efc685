"""What the flags of `raftlog serve` about gossip come to, and which of them are refused."""

from pathlib import Path
from typing import Any

import click
import pytest

from raftlog.cli.gossip_options import gossip_settings_from
from raftlog.errors import InvalidArgument
from raftlog.partitions.gossip import GossipSettings

LOOPBACK, OPEN = ("127.0.0.1", 8094), ("10.0.0.1", 8094)
KEY = "ab" * 32


def settings_of(
    rpc: tuple[str, int] | None,
    *,
    advertise_rpc: tuple[str, int] | None = None,
    seeds: tuple[tuple[str, int], ...] = (),
    insecure: bool = False,
    **given: Any,
) -> GossipSettings | None:
    arguments = {"gossip": None, "advertise_gossip": None, "gossip_key_file": None, "rack": "", "other": 1} | given
    found = gossip_settings_from(arguments, rpc, advertise_rpc, seeds, insecure)
    assert arguments == {"other": 1}, "what is not its own is left alone"
    settings: GossipSettings | None = found["gossip"]
    return settings


def key_file(tmp_path: Path) -> str:
    path = tmp_path / "keys"
    path.write_text(KEY)
    path.chmod(0o600)
    return str(path)


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


def test_others_are_told_the_host_that_they_are_told_for_rpc() -> None:
    assert settings_of(LOOPBACK, advertise_rpc=("outside", 7)).advertise_host == "outside"


def test_off_is_off() -> None:
    assert settings_of(LOOPBACK, gossip="off") is None
    assert settings_of(None, gossip="off") is None


def test_what_was_asked_for_is_required() -> None:
    settings = settings_of(LOOPBACK, gossip="127.0.0.1:9", advertise_gossip="outside:10")
    assert settings is not None
    assert (settings.port, settings.advertise, settings.is_required) == (9, ("outside", 10), True)


def test_without_rpc_it_cannot_be_asked_for() -> None:
    with pytest.raises(click.UsageError, match="--rpc"):
        settings_of(None, gossip="127.0.0.1:9")


def test_where_others_reach_it_a_key_is_needed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(click.UsageError, match="--gossip-key-file"):
        settings_of(OPEN, gossip="10.0.0.1:9")
    assert settings_of(OPEN) is None
    assert "gossip is off: give --gossip-key-file" in caplog.text
    assert settings_of(OPEN, gossip_key_file=key_file(tmp_path)).keys.signing == bytes.fromhex(KEY)
    assert settings_of(OPEN, insecure=True).keys is None


def test_a_key_file_that_is_none_is_refused_and_one_that_all_can_read_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read"):
        settings_of(LOOPBACK, gossip_key_file=str(tmp_path / "nowhere"))
    path = key_file(tmp_path)
    Path(path).chmod(0o644)
    settings_of(LOOPBACK, gossip_key_file=path)
    assert "chmod 600" in caplog.text
    assert KEY not in caplog.text
