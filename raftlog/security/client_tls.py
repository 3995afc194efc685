"""TLS of clients, which verify the server's certificate and compare its names with the host of the address."""

import ssl
from typing import NamedTuple

from raftlog.errors import InvalidArgument
from raftlog.security.tls_files import load_authority, load_own_certificate, new_context


class ClientTlsFiles(NamedTuple):
    """Paths of a client's PEM files. Without `authority` the authorities of the system are trusted."""

    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    """Private key of `certificate`; None if it is in the same file."""


def client_context(files: ClientTlsFiles) -> ssl.SSLContext:
    """Return a client's context for TLS 1.2 or later. Raises `InvalidArgument` for an unusable file."""
    context = new_context(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificates and host names
    if files.authority is None:
        context.load_default_certs()
    else:
        load_authority(context, files.authority)
    if files.certificate is not None:
        load_own_certificate(context, files.certificate, files.key or files.certificate)
    elif files.key is not None:
        raise InvalidArgument(f"the key {files.key} needs its certificate (--client-certificate FILE)")
    return context


def describe_failure(error: ssl.SSLError) -> str:
    """Return the reason of a failed TLS handshake with a server, with the remedy if it is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = error.verify_message.rstrip(".")
        if error.verify_code in _UNTRUSTED:
            return f"its certificate is not trusted: {message}; give the authority that signed it (--ca FILE)"
        return f"its certificate was refused: {message}"
    if error.reason in _PLAIN:
        return "it does not use TLS there; leave out https://"
    return f"TLS failed: {error.reason or error}"


_UNTRUSTED = frozenset((18, 19, 20, 21))
"""OpenSSL's codes (X509_V_ERR_…) for a self-signed certificate, alone or in the chain, and for an unknown issuer."""
_PLAIN = frozenset(("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"))
