"""TLS contexts of servers, from PEM files that may change: TLS 1.2 or later, forward secrecy, authenticated ciphers.

    ServerTls.context     passed to the loop once; OpenSSL calls its server-name callback in every handshake, even
                          without a server name, and the callback sets the context of the newest files
    ServerTls.reload()    reads the files again; when one is unusable, the context in use stays

Open connections keep their certificate. Session tickets are disabled where clients show certificates, because a resumed
session would outlive an authority that was removed."""

import importlib
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from raftlog.errors import InvalidArgument

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Accepted ciphers of TLS 1.2, in OpenSSL's notation; all ciphers of TLS 1.3 are accepted."""
WARNED_BEFORE: Final = timedelta(days=14)
"""Time before the end of a certificate at which warnings to operators begin."""
_CREATE: Final = "`raftlog tls create` makes certificates"


class ClientCertificates(StrEnum):
    """Whether a listener asks clients for a certificate, and requires it."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


_VERIFY: Final = {
    ClientCertificates.NONE: ssl.CERT_NONE,
    ClientCertificates.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientCertificates.REQUIRED: ssl.CERT_REQUIRED,
}


class ServerTlsFiles(NamedTuple):
    """Paths of a listener's PEM files. `authority`: of clients' certificates."""

    certificate: str
    key: str
    authority: str | None = None
    client_certificates: ClientCertificates = ClientCertificates.NONE


class CertificatePeriod(NamedTuple):
    """Times between which a certificate is valid, in UTC."""

    begins: datetime
    ends: datetime

    @property
    def warn_from(self) -> datetime:
        """Time from which operators are warned: 14 days before the end, or the last fifth of a short period."""
        return self.ends - min(WARNED_BEFORE, (self.ends - self.begins) / 5)

    @property
    def end_text(self) -> str:
        """Time of the end, formatted for operators."""
        return f"{self.ends:%Y-%m-%d %H:%M} UTC"


class ServerTls:
    """TLS of one listener. Raises `InvalidArgument` for an unusable file."""

    def __init__(self, files: ServerTlsFiles) -> None:
        """Load certificate and key. Raises `InvalidArgument` for files that cannot be used."""
        self.files = files
        self._newest = self.context = load_server_context(files)
        """Context for the event loop; `reload` does not replace it."""
        self.period = check_dates(files.certificate)
        """Period of the certificate in use."""
        self.context.sni_callback = self._use_newest

    @property
    def paths(self) -> tuple[str, ...]:
        """Files to watch."""
        return tuple(path for path in self.files[:3] if path is not None)

    @property
    def asks_for_certificates(self) -> bool:
        """Whether clients may have certificates."""
        return self.files.client_certificates is not ClientCertificates.NONE

    def reload(self) -> None:
        """Read the files again for new connections. Raises `InvalidArgument`; then the earlier content stays in use."""
        newest, period = load_server_context(self.files), check_dates(self.files.certificate)
        self._newest, self.period = newest, period

    def _use_newest(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Set the newest context on a connection during its handshake."""
        if self._newest is not self.context:
            connection.context = self._newest


def load_server_context(files: ServerTlsFiles) -> ssl.SSLContext:
    """Return the context of a server. Raises an `InvalidArgument` with the unusable file and the reason."""
    context = new_context(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY[files.client_certificates]
    load_own_certificate(context, files.certificate, files.key)
    if files.client_certificates is not ClientCertificates.NONE:
        if files.authority is None:
            raise InvalidArgument("client certificates need the authority that signs them (--tls-authority FILE)")
        load_authority(context, files.authority)
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def new_context(side: int) -> ssl.SSLContext:
    """Return a context for one side, with the bounds on versions and ciphers."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def load_own_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate and its private key, which are read without a password. Raises `InvalidArgument`."""
    for path, what in ((certificate, "certificate"), (key, "private key")):
        check_readable(path, what)
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except ssl.SSLError as error:
        if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
            why = f"the private key {key} does not belong to the certificate {certificate}; give both of one pair"
        else:
            why = (
                f"the certificate {certificate} with the key {key} cannot be used: {error.reason or error}; both have "
                f"to be PEM files. {_CREATE}"
            )
        raise InvalidArgument(why) from None
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"the certificate {certificate} with the key {key} cannot be used: {error}") from None
    check_dates(certificate)


def load_authority(context: ssl.SSLContext, path: str) -> None:
    """Trust the authorities of a PEM file. Raises `InvalidArgument`."""
    check_readable(path, "certificate authority")
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"the certificate authority {path} cannot be used: {error}; it has to be a PEM file of certificates"
        ) from None


def check_dates(certificate: str) -> CertificatePeriod:
    """Return the period of a certificate. Raises `InvalidArgument` if the present time is outside of it."""
    x509 = importlib.import_module("cryptography.x509")  # its import takes 30 ms, and few processes need it
    with open(certificate, "rb") as file:
        found = x509.load_pem_x509_certificates(file.read())[0]
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    now = datetime.now(UTC)
    if now >= ends:
        raise InvalidArgument(f"the certificate {certificate} expired on {ends:%Y-%m-%d %H:%M} UTC; issue a new one")
    if now < begins:
        raise InvalidArgument(
            f"the certificate {certificate} is valid from {begins:%Y-%m-%d %H:%M} UTC on; check this machine's clock"
        )
    return CertificatePeriod(begins, ends)


def check_readable(path: str, label: str) -> None:
    """Raise `InvalidArgument` unless a file can be read; `label`: description of the file for the message."""
    try:
        with open(path, "rb"):
            return
    except OSError as error:
        raise InvalidArgument(f"the {label} {path} cannot be read: {error.strerror}") from None


def mode_readable_by_others(key: str) -> int | None:
    """Return the mode of a key file that users outside of its group can read; None if they cannot."""
    mode = stat.S_IMODE(os.stat(key).st_mode)
    return mode if mode & stat.S_IRWXO else None


def _refuse_password() -> str:
    """Refuse an encrypted key; without this OpenSSL asks for its password on the terminal."""
    raise ValueError("the private key is encrypted; raftlog reads it without a password, so protect its file instead")
