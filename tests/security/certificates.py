"""Certificates for tests: an authority per directory, and certificates that are wrong in one respect."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from raftlog.security.authority import IssuedCertificate, PrivateAuthority

DAY = datetime.timedelta(days=1)


def create(
    directory: Path, *clients: str, node: int = 1
) -> tuple[str, IssuedCertificate, dict[str, IssuedCertificate]]:
    """Return the authority's certificate, the certificate of a node, and those of clients."""
    authority = PrivateAuthority(str(directory))
    issued = authority.issue((node,), clients=clients)
    return authority.certificate, issued[0], dict(zip(clients, issued[1:], strict=True))


def create_self_signed(
    directory: Path, stem: str, *, begins_in_days: int = -1, ends_in_days: int = 1
) -> tuple[str, str]:
    """Return the paths of a self-signed certificate for localhost, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now + begins_in_days * DAY).not_valid_after(now + ends_in_days * DAY)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    certificate, key_file = directory / f"{stem}.pem", directory / f"{stem}.key"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    write_key(key_file, key)
    return str(certificate), str(key_file)


def write_key(path: Path, key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> None:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    path.chmod(0o600)
