"""Principal of a client certificate: its distinguished name (RFC 4514), such as `CN=alice,OU=data,O=example`."""

import importlib
import ssl


def certificate_principal(connection: ssl.SSLObject | None) -> str | None:
    """Return the distinguished name of the other side's verified certificate; None without certificate or name."""
    der = None if connection is None else connection.getpeercert(binary_form=True)
    if not der:
        return None
    x509 = importlib.import_module("cryptography.x509")
    name: str = x509.load_der_x509_certificate(der).subject.rfc4514_string()
    return name or None
