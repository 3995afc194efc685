"""TLS between processes: both sides show a certificate of the same authority.

The certificate says that a process belongs to the cluster; which node it is, its handshake says.
"""

import ssl
from typing import NamedTuple

from raftlog.errors import InvalidArgument


class TlsFiles(NamedTuple):
    """Paths of PEM files. `check_names`: the certificate of whom we connect to must name the host of its address."""

    certificate: str
    key: str
    authority: str
    check_names: bool = True


class TlsContexts(NamedTuple):
    """For the accepting and for the connecting side."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def load_tls(files: TlsFiles) -> TlsContexts:
    """Read the files; raises `InvalidArgument` that names the one that cannot be used."""
    contexts = TlsContexts(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    contexts.client.check_hostname = files.check_names
    for context in contexts:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(files.certificate, files.key)
        except (OSError, ValueError) as error:
            raise InvalidArgument(
                f"the certificate {files.certificate} with the key {files.key} cannot be used: {error}"
            ) from None
        try:
            context.load_verify_locations(files.authority)
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"the certificate authority {files.authority} cannot be used: {error}") from None
    return contexts
