"""Options of `raftlog serve` about TLS of its listeners, and their conversion to contexts.

--tls-certificate FILE          for all listeners: http, rpc, and the Kafka listeners
--tls-certificate kafka=FILE    for the listener of this name, in place of the file for all
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import click

from raftlog.cli.options import broker_option, combine_decorators
from raftlog.cli.serve.cluster_options import is_loopback
from raftlog.events import event
from raftlog.security.tls_files import ClientCertificates, ServerTls, ServerTlsFiles, mode_readable_by_others

_logger = logging.getLogger(__name__)

HTTP: Final = "http"
RPC: Final = "rpc"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_RPC_FLAGS: Final = {"rpc_certificate": "tls_certificate", "rpc_key": "tls_key", "rpc_authority": "tls_authority"}


tls_options = combine_decorators(
    broker_option(
        "--tls-certificate",
        metavar="[NAME=]FILE",
        multiple=True,
        help="Certificate (PEM, with its chain) for TLS of all listeners, or of the listener NAME: http, rpc, or a "
        "name of --kafka; may be repeated. Changed files are used within 2 s, and at SIGHUP.",
    ),
    broker_option("--tls-key", metavar="[NAME=]FILE", multiple=True, help="Private key of the certificate (PEM)."),
    broker_option(
        "--tls-authority",
        metavar="[NAME=]FILE",
        multiple=True,
        help="Certificates (PEM) of the authorities that sign the certificates of clients, and with rpc of brokers.",
    ),
    broker_option(
        "--plaintext",
        metavar="NAME",
        multiple=True,
        help="Listener without TLS though certificates are given for all; may be repeated.",
    ),
    broker_option(
        "--client-certificates",
        metavar="[NAME=]none|optional|required",
        multiple=True,
        help="Whether HTTP and Kafka listeners ask clients for a certificate; its distinguished name is the principal. "
        "[default: none]",
    ),
)
"""Options whose values `tls_plan_from` takes."""


def tls_plan_from(arguments: dict[str, Any], kafka: Collection[str]) -> dict[str, ServerTls]:
    """Remove the values of `tls_options` from `arguments`; return the TLS of listeners by name.

    `kafka`: names of the Kafka listeners. Files that hold for the listener `rpc` become its options
    `--rpc-certificate`, `--rpc-key` and `--rpc-authority`, unless these are given. Raises `UsageError` and
    `InvalidArgument`."""
    names = (HTTP, RPC, *kafka)
    files = {name: split_by_listener(arguments.pop(name), name, names) for name in _RPC_FLAGS.values()}
    wanted = split_by_listener(arguments.pop("client_certificates"), "client_certificates", names)
    plain = arguments.pop("plaintext")
    for name in plain:
        if name not in names:
            raise click.UsageError(f"--plaintext {name}: no listener has this name; {_list_names(names)}")
    if RPC not in plain:
        _set_rpc_files(arguments, files)
    return {name: tls for name in (HTTP, *kafka) if name not in plain and (tls := _load_listener(name, files, wanted))}


def check_reach(flag: str, host: str, tls: ServerTls | None, *, insecure: bool) -> None:
    """Raise `UsageError` if other machines can reach a listener of clients without TLS, unless `insecure` allows it."""
    if insecure or tls is not None or is_loopback(host):
        return
    raise click.UsageError(
        f"other machines can reach {flag} without TLS: give a certificate (--tls-certificate, --tls-key; `raftlog tls "
        "create` makes one), listen on 127.0.0.1, or give --insecure"
    )


def _load_listener(name: str, files: Mapping[str, Mapping[str, str]], wanted: Mapping[str, str]) -> ServerTls | None:
    """Return the TLS configuration of one listener; None without files.

    Logs an event if other users can read the key. Raises `click.UsageError` if flags contradict each other."""
    certificate, key, authority = (_file_of(name, each) for each in files.values())
    text = _file_of(name, wanted)
    try:
        client_certificates = ClientCertificates(text or "none")
    except ValueError:
        raise click.UsageError(f"--client-certificates {text!r} is not none, optional or required") from None
    if certificate is None or key is None:
        if certificate is not None or key is not None:
            raise click.UsageError(
                f"the listener {name} needs both --tls-certificate and --tls-key, or --plaintext {name}"
            )
        if text is not None and name in wanted:
            raise click.UsageError(f"--client-certificates {name}={text} needs --tls-certificate and --tls-key")
        return None
    mode = mode_readable_by_others(key)
    if mode is not None:
        event(_logger, "private_key_readable", path=key, mode=f"{mode:o}")
    return ServerTls(ServerTlsFiles(certificate, key, authority, client_certificates))


def _set_rpc_files(arguments: dict[str, Any], files: Mapping[str, Mapping[str, str]]) -> None:
    """Set the `--rpc-…` options to the TLS files that hold for RPC, unless any of these options is given."""
    if arguments.get("rpc") is None or any(arguments.get(flag) for flag in _RPC_FLAGS):
        return
    found = {flag: _file_of(RPC, files[name]) for flag, name in _RPC_FLAGS.items()}
    if not any(found.values()):
        return
    if not all(found.values()):
        raise click.UsageError(
            "TLS between brokers needs --tls-certificate, --tls-key and --tls-authority; --plaintext rpc leaves it out"
        )
    arguments.update(found)


def _file_of(name: str, by_listener: Mapping[str, str]) -> str | None:
    """Return the value for a listener, else the value for all listeners, else None."""
    return by_listener.get(name, by_listener.get(""))


def split_by_listener(texts: Sequence[str], option: str, names: Collection[str]) -> dict[str, str]:
    """Return the values of a repeated option `[NAME=]VALUE` by name of listener; an empty name: all listeners."""
    flag = f"--{option.replace('_', '-')}"
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name):  # a path may have an equals sign
            name, value = "", text
        elif name not in names:
            raise click.UsageError(f"{flag} {text}: no listener has the name {name!r}; {_list_names(names)}")
        if not value:
            raise click.UsageError(f"{flag} {text!r} has no value")
        if name in found:
            raise click.UsageError(f"{flag} is given twice for {name or 'all listeners'}; give it once")
        found[name] = value
    return found


def _list_names(names: Collection[str]) -> str:
    """Return the sentence that names the listeners."""
    return f"the listeners are {', '.join(names)}"
