"""Options of `raftlog serve` that make its broker one of a cluster, and the settings that they stand for."""

import ipaddress
import logging
from typing import Any

import click

from raftlog.cli.options import all_of, broker_option, split_address
from raftlog.cluster_secret import ClusterSecret, read_secret
from raftlog.runtime.rpc.tcp_transport import NO_PROOF
from raftlog.runtime.rpc.tls import TlsContexts, TlsFiles, check_host, load_tls

_logger = logging.getLogger(__name__)

_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - to listen on; others connect to one that is known later
_TLS = ("rpc_certificate", "rpc_key", "rpc_authority")


cluster_options = all_of(
    broker_option(
        "--rpc",
        metavar="HOST:PORT",
        help="Where other brokers reach this one; without it the broker is alone. Port 0 takes a free one.",
    ),
    broker_option(
        "--advertise-rpc",
        metavar="HOST:PORT",
        help="The address that other brokers are told, where it is another one than this broker listens on.",
    ),
    broker_option(
        "--seeds",
        default="",
        metavar="HOST:PORT,…",
        help="RPC addresses of the first brokers, the same list for each of them; or any brokers of a cluster "
        "that this one shall join.",
    ),
    broker_option(
        "--cluster-id",
        metavar="UUID",
        help="The cluster to found or to belong to; without it a new one is named, or the seeds say.",
    ),
    broker_option(
        "--host-label",
        default="",
        help="The machine or rack: replicas of a partition are never on the same one. Default: node-{node id}.",
    ),
    broker_option(
        "--cluster-secret-file",
        type=click.Path(),
        help="The secret that all brokers of the cluster share, from `raftlog cluster secret create`; needed "
        "with --rpc unless the certificate names the node (URI name raftlog:node:<node id>).",
    ),
    broker_option(
        "--rpc-certificate",
        type=click.Path(),
        help="This broker's certificate (PEM) for connections between brokers.",
    ),
    broker_option("--rpc-key", type=click.Path(), help="Its private key (PEM)."),
    broker_option(
        "--rpc-authority",
        type=click.Path(),
        help="The authority (PEM) that signed the certificates of all brokers.",
    ),
)
"""Options that become keyword arguments of `cluster_settings_from`."""


def cluster_settings_from(arguments: dict[str, Any], insecure: bool) -> dict[str, Any]:
    """Take the options out of `arguments`; fields of `BrokerSettings`. Raises `UsageError`, `InvalidArgument`."""
    rpc, advertised, seeds = (arguments.pop(name) for name in ("rpc", "advertise_rpc", "seeds"))
    cluster_id, host_label = arguments.pop("cluster_id"), arguments.pop("host_label")
    secret = _secret_from(arguments.pop("cluster_secret_file"))
    files = [arguments.pop(name) for name in _TLS]
    if rpc is None and (seeds or advertised):
        raise click.UsageError("--seeds and --advertise-rpc need --rpc, where the other brokers reach this one")
    if any(files) and not all(files):
        raise click.UsageError("--rpc-certificate, --rpc-key and --rpc-authority belong together")
    address = None if rpc is None else split_address(rpc, "--rpc")
    if address is not None and not insecure and not all(files) and not is_loopback(address[0]):
        raise click.UsageError(
            f"--rpc {rpc} can be reached by other machines: give certificates (--rpc-certificate, --rpc-key, "
            "--rpc-authority), listen on 127.0.0.1, or give --insecure"
        )
    tls = load_tls(TlsFiles(*files)) if all(files) else None
    advertised_address = None if advertised is None else split_address(advertised, "--advertise-rpc")
    if tls is not None:
        _check_host(tls, advertised_address or address)
    if address is not None and secret is None and not (tls is not None and tls.certified):
        raise click.UsageError(f"--rpc {rpc}: {NO_PROOF}")
    return {
        "rpc": address,
        "advertise_rpc": advertised_address,
        "seeds": tuple(split_address(seed, "--seeds") for seed in seeds.split(",") if seed.strip()),
        "cluster_id": cluster_id,
        "host_label": host_label,
        "secret": secret,
        "tls": tls,
        "insecure": insecure,
    }


def _check_host(tls: TlsContexts, address: tuple[str, int] | None) -> None:
    if address is not None and address[0] not in _EVERY_ADDRESS:
        check_host(tls, address[0])


def _secret_from(path: str | None) -> ClusterSecret | None:
    if path is None:
        return None
    secret, warning = read_secret(path)
    if warning:
        _logger.warning("%s", warning)
    return secret


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
