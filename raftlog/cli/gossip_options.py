"""Options of `raftlog serve` about gossip between brokers, and the settings that they stand for."""

import logging
from collections.abc import Collection, Set
from typing import Any, Final

import click

from raftlog.cli.cluster_options import is_loopback
from raftlog.cli.options import option, split_address
from raftlog.cli.workers import GOSSIP_OFF
from raftlog.membership.keys import GossipKeys, read_keys
from raftlog.partitions.gossip.settings import GossipSettings

_logger = logging.getLogger(__name__)

GOSSIP_PORT_STEP: Final = 1
"""The gossip port where none is given: this much above that of RPC."""
_PORT_MAX: Final = 65_535


def gossip_options(function: Any) -> Any:
    """They become keyword arguments, which `gossip_settings_from` takes."""
    for decorate in reversed(
        (
            option(
                "--gossip",
                envvar="RAFTLOG_GOSSIP",
                metavar="HOST:PORT|off",
                help="Where brokers gossip about who is there, UDP and TCP; port 0 takes a free one. "
                "Default: the host of --rpc and the port above it, or any other; off without --rpc.",
            ),
            option(
                "--advertise-gossip",
                envvar="RAFTLOG_ADVERTISE_GOSSIP",
                metavar="HOST:PORT",
                help="The gossip address that other brokers are told, where it is another one than this broker "
                "listens on. Default: the host of --advertise-rpc, the port that it listens on.",
            ),
            option(
                "--gossip-key-file",
                envvar="RAFTLOG_GOSSIP_KEY_FILE",
                type=click.Path(),
                help="Keys that sign gossip, one a line in hex or base64, 32 bytes or more; the first one signs, all "
                "are accepted. Needed where other machines can reach --gossip.",
            ),
            option(
                "--rack",
                envvar="RAFTLOG_RACK",
                default="",
                help="Where the machine stands, for people and for placement; at most 64 bytes.",
            ),
        )
    ):
        function = decorate(function)
    return function


def gossip_settings_from(
    arguments: dict[str, Any],
    rpc: tuple[str, int] | None,
    advertise_rpc: tuple[str, int] | None,
    seeds: Collection[tuple[str, int]],
    insecure: bool,
) -> dict[str, Any]:
    """Take the options out of `arguments`; fields of `BrokerSettings`. Raises `UsageError` and `InvalidArgument`."""
    gossip, advertised, key_file, rack = (
        arguments.pop(name) for name in ("gossip", "advertise_gossip", "gossip_key_file", "rack")
    )
    is_wanted = gossip not in (None, GOSSIP_OFF)
    if is_wanted and rpc is None:
        raise click.UsageError("--gossip needs --rpc: a broker alone has nobody to gossip with")
    if not is_wanted and (gossip == GOSSIP_OFF or rpc is None):
        return {"gossip": None, "rack": rack}
    keys = None if key_file is None else _keys_from(key_file)
    if is_wanted:
        address = split_address(gossip, "--gossip")
        _check_keys(gossip, address[0], keys, insecure)
    else:
        assert rpc is not None, "without --rpc there is no gossip unless it was asked for"
        address = _beside(rpc, {port for _, port in seeds})
        if keys is None and not insecure and not is_loopback(address[0]):
            _logger.warning(
                "gossip is off: give --gossip-key-file, for %s can be reached by other machines", address[0]
            )
            return {"gossip": None, "rack": rack}
    settings = GossipSettings(
        host=address[0],
        port=address[1],
        advertise=None if advertised is None else split_address(advertised, "--advertise-gossip"),
        advertise_host="" if advertise_rpc is None else advertise_rpc[0],
        keys=keys,
        is_required=is_wanted,
    )
    return {"gossip": settings, "rack": rack}


def _beside(rpc: tuple[str, int], others: Set[int]) -> tuple[str, int]:
    """The port above. Any, where that may be another broker's on this machine: the seeds have it, or ports in a row, of
    which a later broker would have the next."""
    host, port = rpc
    is_in_a_row = not others.isdisjoint((port - GOSSIP_PORT_STEP, port + GOSSIP_PORT_STEP))
    return host, port + GOSSIP_PORT_STEP if 0 < port < _PORT_MAX and not is_in_a_row else 0


def _check_keys(gossip: str, host: str, keys: GossipKeys | None, insecure: bool) -> None:
    if keys is None and not insecure and not is_loopback(host):
        raise click.UsageError(
            f"--gossip {gossip} can be reached by other machines, and whoever reaches it can pretend to be any broker: "
            "give --gossip-key-file (`openssl rand -hex 32` makes a key), listen on 127.0.0.1, or give --insecure"
        )


def _keys_from(path: str) -> GossipKeys:
    keys, warning = read_keys(path)
    if warning:
        _logger.warning("%s", warning)
    return keys
