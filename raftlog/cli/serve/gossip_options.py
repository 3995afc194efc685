"""Options of `raftlog serve` about gossip between brokers, and their conversion to settings."""

import logging
from collections.abc import Collection, Set
from typing import Any, Final

import click

from raftlog.cli.options import broker_option, combine_decorators, split_address
from raftlog.cli.serve.workers import GOSSIP_OFF
from raftlog.cluster_secret import ClusterSecret
from raftlog.partitions.gossip.settings import GossipSettings

_logger = logging.getLogger(__name__)

GOSSIP_PORT_STEP: Final = 1
"""Distance of the default gossip port from the RPC port."""
_PORT_MAX: Final = 65_535


gossip_options = combine_decorators(
    broker_option(
        "--gossip",
        metavar="HOST:PORT|off",
        help="Address to listen on for gossip, UDP and TCP; port 0: any free port. [default: the host of --rpc and the "
        "port above it, or a free port; off without --rpc or --cluster-secret-file, which signs it]",
    ),
    broker_option(
        "--advertise-gossip",
        metavar="HOST:PORT",
        help="Gossip address that other brokers are given, if they cannot use the address of --gossip. [default: the "
        "host of --advertise-rpc, the port of --gossip]",
    ),
    broker_option(
        "--rack",
        default="",
        show_default="none",
        help="Location of the machine, shown to operators; at most 64 bytes.",
    ),
)
"""Options whose values `gossip_settings_from` takes."""


def gossip_settings_from(
    arguments: dict[str, Any],
    rpc: tuple[str, int] | None,
    advertise_rpc: tuple[str, int] | None,
    seeds: Collection[tuple[str, int]],
    secret: ClusterSecret | None,
) -> dict[str, Any]:
    """Remove the values of `gossip_options` from `arguments`; return fields of `BrokerSettings`.

    Raises `UsageError`."""
    gossip, advertised, rack = (arguments.pop(name) for name in ("gossip", "advertise_gossip", "rack"))
    is_wanted = gossip not in (None, GOSSIP_OFF)
    if is_wanted and rpc is None:
        raise click.UsageError("--gossip needs --rpc HOST:PORT: a broker without --rpc is a cluster of one")
    if is_wanted and secret is None:
        raise click.UsageError(
            "--gossip needs --cluster-secret-file, whose secret signs its messages; "
            "`raftlog cluster secret create` makes one"
        )
    if not is_wanted and (gossip == GOSSIP_OFF or rpc is None):
        return {"gossip": None, "rack": rack}
    if secret is None:
        _logger.warning("gossip is off without a cluster secret to sign its messages; give --cluster-secret-file")
        return {"gossip": None, "rack": rack}
    if is_wanted:
        address = split_address(gossip, "--gossip")
    else:
        assert rpc is not None, "without --rpc there is no gossip unless it was asked for"
        address = _default_gossip_address(rpc, {port for _, port in seeds})
    settings = GossipSettings(
        host=address[0],
        port=address[1],
        advertise=None if advertised is None else split_address(advertised, "--advertise-gossip"),
        advertise_host="" if advertise_rpc is None else advertise_rpc[0],
        is_required=is_wanted,
    )
    return {"gossip": settings, "rack": rack}


def _default_gossip_address(rpc: tuple[str, int], others: Set[int]) -> tuple[str, int]:
    """Return the address with the port above the RPC port, or with port 0 if another local broker may use that port.

    Another broker may use it if `others` has a neighbouring port, since local brokers often use ports in a row."""
    host, port = rpc
    is_in_a_row = not others.isdisjoint((port - GOSSIP_PORT_STEP, port + GOSSIP_PORT_STEP))
    return host, port + GOSSIP_PORT_STEP if 0 < port < _PORT_MAX and not is_in_a_row else 0
