"""Options of `raftlog serve` for a broker in a cluster, and their conversion to settings."""

import ipaddress
import logging
from typing import Any

import click

from raftlog.cli.options import broker_option, combine_decorators, split_address
from raftlog.cluster_secret import ClusterSecret, read_secret
from raftlog.runtime.rpc.tcp_transport import NO_PROOF
from raftlog.runtime.rpc.tls import TlsContexts, TlsFiles, check_host, load_tls

_logger = logging.getLogger(__name__)

EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - to listen on; others connect to one that is known later
_TLS = ("rpc_certificate", "rpc_key", "rpc_authority")


cluster_options = combine_decorators(
    broker_option(
        "--rpc",
        metavar="HOST:PORT",
        help="Address to listen on for other brokers; port 0: any free port. Without it: a cluster of one broker.",
    ),
    broker_option(
        "--advertise-rpc",
        metavar="HOST:PORT",
        help="Address that other brokers are given, if they cannot use the address of --rpc. [default: the address of "
        "--rpc]",
    ),
    broker_option(
        "--seeds",
        default="",
        show_default="none",
        metavar="HOST:PORT,…",
        help="For a new cluster: RPC addresses of its first brokers, the same list on each of them. To join a cluster: "
        "RPC addresses of any of its brokers.",
    ),
    broker_option(
        "--cluster-id",
        metavar="UUID",
        help="Id of the cluster to found or to join. [default: the seeds' cluster, or a new id]",
    ),
    broker_option(
        "--host-label",
        default="",
        show_default="node-{node id}",
        help="Name of the machine or rack; two replicas of a partition never share one.",
    ),
    broker_option(
        "--cluster-secret-file",
        type=click.Path(),
        help="File with the secret that all brokers of the cluster share, from `raftlog cluster secret create`; "
        "required with --rpc unless the certificate names the node (URI name raftlog:node:<node id>).",
    ),
    broker_option(
        "--rpc-certificate",
        type=click.Path(),
        help="Certificate of this broker (PEM) for TLS between brokers, in place of --tls-certificate.",
    ),
    broker_option("--rpc-key", type=click.Path(), help="Private key of the certificate (PEM)."),
    broker_option(
        "--rpc-authority",
        type=click.Path(),
        help="Certificate (PEM) of the authority that signed the certificates of all brokers.",
    ),
)
"""Options whose values `cluster_settings_from` takes."""


def cluster_settings_from(arguments: dict[str, Any], insecure: bool) -> dict[str, Any]:
    """Remove the values of `cluster_options` from `arguments`; return fields of `BrokerSettings`.

    Raises `UsageError` and `InvalidArgument`."""
    rpc, advertised, seeds = (arguments.pop(name) for name in ("rpc", "advertise_rpc", "seeds"))
    cluster_id, host_label = arguments.pop("cluster_id"), arguments.pop("host_label")
    secret = _read_secret(arguments.pop("cluster_secret_file"))
    files = [arguments.pop(name) for name in _TLS]
    if rpc is None and (seeds or advertised):
        raise click.UsageError("--seeds and --advertise-rpc need --rpc HOST:PORT, the address for other brokers")
    if any(files) and not all(files):
        raise click.UsageError("--rpc-certificate, --rpc-key and --rpc-authority must be given together")
    address = None if rpc is None else split_address(rpc, "--rpc")
    if address is not None and not insecure and not all(files) and not is_loopback(address[0]):
        raise click.UsageError(
            f"other machines can reach --rpc {rpc} without TLS: give certificates (--tls-certificate, --tls-key, "
            "--tls-authority), listen on 127.0.0.1, or give --insecure"
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
    """Raise an error if the certificate is not valid for the advertised host."""
    if address is not None and address[0] not in EVERY_ADDRESS:
        check_host(tls, address[0])


def _read_secret(path: str | None) -> ClusterSecret | None:
    """Return the secret of a file, None without a file; log a warning if other users can read it."""
    if path is None:
        return None
    secret, warning = read_secret(path)
    if warning:
        _logger.warning("%s", warning)
    return secret


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can connect to a host name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
