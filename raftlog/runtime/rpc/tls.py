"""TLS between processes: both sides show a certificate of the same authority.

A certificate names its node by the URI name `raftlog:node:<id>` (subject alternative name); the handshake compares it
with the node id (`authentication`). A certificate without that name proves only that a process belongs to the cluster,
so the cluster secret is required as well.
"""

import logging
import ssl
from typing import Any, NamedTuple

from raftlog.errors import InvalidArgument
from raftlog.events import event
from raftlog.runtime.rpc.authentication import certified_nodes
from raftlog.security.tls_files import (
    CertificatePeriod,
    check_dates,
    load_authority,
    load_own_certificate,
    mode_readable_by_others,
    new_context,
)
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)


class TlsFiles(NamedTuple):
    """Paths of the PEM files for TLS between brokers.

    `check_names`: the certificate of a node must name the host of the address at which it is reached."""

    certificate: str
    key: str
    authority: str
    check_names: bool = True


class _Loaded(NamedTuple):
    """Contexts of one version of the files."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    certified: frozenset[int]
    names: tuple[str, ...]
    period: CertificatePeriod


class TlsContexts:
    """TLS contexts of the accepting and of the connecting side, from files that may change."""

    def __init__(self, files: TlsFiles) -> None:
        """Load the certificates and keys of the files."""
        self.files = files
        self._newest = _load(files)
        self.server = self._newest.server
        """Context of the accepting side; it remains the same after `reload`."""
        self.server.sni_callback = self._use_newest

    @property
    def client(self) -> ssl.SSLContext:
        """Context of the connecting side, for the next connection."""
        return self._newest.client

    @property
    def certified(self) -> frozenset[int]:
        """Node ids that this node's certificate names."""
        return self._newest.certified

    @property
    def names(self) -> tuple[str, ...]:
        """Subject alternative names of this node's certificate, as text."""
        return self._newest.names

    @property
    def period(self) -> CertificatePeriod:
        """Period of this node's certificate."""
        return self._newest.period

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the files; after a change of one the owner calls `reload`."""
        return self.files[:3]

    def reload(self) -> None:
        """Use the present files for new connections. Raises `InvalidArgument`; then the old ones stay in use."""
        found = _load(self.files)
        if found.certified != self.certified:
            raise InvalidArgument(
                f"the certificate {self.files.certificate} names other nodes than before: "
                f"{sorted(found.certified) or 'none'} and not {sorted(self.certified) or 'none'}"
            )
        self._newest = found

    def _use_newest(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Use the newest files for a connection that is being accepted (callback of the accepting context)."""
        if self._newest.server is not self.server:
            connection.context = self._newest.server


def load_tls(files: TlsFiles) -> TlsContexts:
    """Read the PEM files; raises `InvalidArgument` with the name of an unusable one.

    Logs an event when users other than the owner and its group can read the private key."""
    contexts = TlsContexts(files)
    mode = mode_readable_by_others(files.key)
    if mode is not None:
        event(_logger, "private_key_readable", path=files.key, mode=f"{mode:o}")
    return contexts


def _load(files: TlsFiles) -> _Loaded:
    """Read the files, and check that connections in both directions can use them. Raises `InvalidArgument`."""
    server, client = (_load_context(files, side) for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    server.num_tickets = 0  # a resumed session would outlive the authority that is removed
    server.options |= ssl.OP_NO_TICKET
    certificate = _read_own_certificate(files, server, client)
    client.check_hostname = files.check_names
    names = tuple(f"{kind}:{name}" for kind, name in certificate.get("subjectAltName", ()))
    return _Loaded(server, client, certified_nodes(certificate), names, check_dates(files.certificate))


def check_certificate(tls: TlsContexts, node: NodeId) -> None:
    """Raise `InvalidArgument` if this node's certificate names another node."""
    if tls.certified and node not in tls.certified:
        named = " and ".join(str(each) for each in sorted(tls.certified))
        raise InvalidArgument(
            f"the certificate is of node {named} (URI name raftlog:node:<id>), and this is node {node}: "
            "give each broker the certificate of its own node id (workers: `raftlog tls create --workers N`)"
        )


def check_host(tls: TlsContexts, host: str) -> None:
    """Raise `InvalidArgument` if this node's certificate does not name the host at which others connect to it."""
    if not tls.client.check_hostname:
        return
    try:
        _shake_hands(tls.server, tls.client, host)
    except ssl.SSLCertVerificationError as error:
        named = f"only {', '.join(tls.names)}" if tls.names else "none"
        raise InvalidArgument(
            f"the certificate cannot be used at {host}, where other brokers connect (--advertise-rpc, or else --rpc): "
            f"{error.verify_message} It has to be among the subject alternative names, and the certificate has "
            f"{named}: make it again with them (`raftlog tls create`)"
        ) from None


def _load_context(files: TlsFiles, side: int) -> ssl.SSLContext:
    """Return the TLS context of one side; raises `InvalidArgument` with the name of an unusable file."""
    context = new_context(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    load_own_certificate(context, files.certificate, files.key)
    load_authority(context, files.authority)
    return context


def _read_own_certificate(files: TlsFiles, server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """Return this node's certificate in parsed form; raises `InvalidArgument` if peers would refuse it."""
    try:
        return _shake_hands(server, client)
    except ssl.SSLError as error:
        raise InvalidArgument(
            f"the certificate {files.certificate} cannot be used for connections in both directions with the authority "
            f"{files.authority}: {error}"
        ) from None


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str | None = None) -> dict[str, Any]:
    """Do a TLS handshake in memory between both contexts; return the certificate that the client side received."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    connecting = client.wrap_bio(to_client, to_server, server_hostname=host)
    accepting = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [connecting, accepting]
    while waiting:
        waiting = [side for side in waiting if not _has_finished(side)]
    return connecting.getpeercert() or {}


def _has_finished(side: ssl.SSLObject) -> bool:
    """Continue the handshake of one side; return whether it is complete."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
