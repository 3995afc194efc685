"""Private certificate authority, which issues certificates of brokers and clients. Used by `raftlog tls create`.

    {directory}/authority.pem, authority.key           the authority, created with the first certificate
    {directory}/node-{id}.pem, node-{id}.key           a broker: TLS server and client
    {directory}/client-{name}.pem, client-{name}.key   a client, whose principal is `CN={name}`

Keys are of the curve P-256; their files can be read by their owner only. The certificate of a broker has as subject
alternative names (RFC 5280, 4.2.1.6) its hosts and the URI `raftlog:node:{id}`, which proves the node id to other
brokers; worker processes of one node share its certificate.
Existing files are never changed."""

import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from raftlog.errors import InvalidArgument

AUTHORITY_DAYS: Final = 3_650
CERTIFICATE_DAYS: Final = 825
DAYS_MAX: Final = 3_650
NODE_ID_MAX: Final = (1 << 31) - 1
HOSTS_MAX: Final = 64
LOCAL_HOSTS: Final = ("127.0.0.1", "::1", "localhost")
"""Hosts that are in every certificate of a broker."""
_CLOCK_SKEW: Final = timedelta(minutes=5)
"""Time by which the clock of another machine may be late when it checks a new certificate."""
_CLIENT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HOST_NAME: Final = re.compile(r"(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_-]{1,63}\.?")
_HOST_BYTES_MAX: Final = 253
_AUTHORITY: Final = "authority"


class IssuedCertificate(NamedTuple):
    """Files of a new certificate and its private key. `names`: its subject alternative names; `expires`: in UTC."""

    subject: str
    certificate: str
    key: str
    names: tuple[str, ...]
    expires: datetime


class PrivateAuthority:
    """Certificate authority in a directory, created there if it is missing. Raises `InvalidArgument`."""

    def __init__(self, directory: str) -> None:
        """Load the authority in the directory; create it if neither certificate nor key exists."""
        self._directory = directory
        self.certificate, self._key_file = self._paths(_AUTHORITY)
        self.is_new = not os.path.lexists(self.certificate) and not os.path.lexists(self._key_file)
        """Whether this object created the authority."""
        if self.is_new:
            self._create()
        self._own, self._key = self._load()

    @property
    def key(self) -> str:
        """Path of the authority's private key, which brokers do not need."""
        return self._key_file

    def issue(
        self,
        nodes: Iterable[int] = (),
        hosts: Sequence[str] = (),
        clients: Iterable[str] = (),
        days: int = CERTIFICATE_DAYS,
        processes: Callable[[int], Iterable[int]] = lambda node: (node,),
    ) -> list[IssuedCertificate]:
        """Issue a certificate for each node, with all `hosts`, and for each client; return the certificates.

        `processes` returns the ids of the processes that share the certificate of a node. Raises `InvalidArgument`
        before anything is written if a name is invalid or a file exists."""
        node_ids, names = list(dict.fromkeys(nodes)), list(dict.fromkeys(clients))
        node_hosts = list(dict.fromkeys(_general_name(host) for host in (*hosts, *LOCAL_HOSTS)))
        if len(node_hosts) > HOSTS_MAX:
            raise InvalidArgument(f"a certificate with {len(node_hosts)} hosts: give at most {HOSTS_MAX}")
        for node in node_ids:
            if not 0 <= node <= NODE_ID_MAX:
                raise InvalidArgument(f"{node} is not a node id: give a number from 0 to {NODE_ID_MAX}")
        for name in names:
            if not _CLIENT_NAME.fullmatch(name):
                raise InvalidArgument(
                    f"{name!r} cannot be the name of a client certificate: use at most 64 letters, digits and . _ @ -"
                )
        if not 1 <= days <= DAYS_MAX:
            raise InvalidArgument(f"a certificate for {days} days: give 1 to {DAYS_MAX}")
        for stem in (*(f"node-{node}" for node in node_ids), *(f"client-{name}" for name in names)):
            self._check_new(stem)
        both = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        issued = []
        for node in node_ids:
            uris = [x509.UniformResourceIdentifier(f"raftlog:node:{each}") for each in processes(node)]
            issued.append(self._issue(f"node-{node}", f"raftlog node {node}", [*node_hosts, *uris], both, days))
        for name in names:
            issued.append(self._issue(f"client-{name}", name, [], both[1:], days))
        return issued

    def _create(self) -> None:
        """Create the key and the self-signed certificate of the authority."""
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"{self._directory} cannot be created: {error.strerror}") from None
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "raftlog"),
                x509.NameAttribute(NameOID.COMMON_NAME, f"raftlog authority {os.urandom(4).hex()}"),
            ]
        )
        builder = _builder(name, name, key.public_key(), datetime.now(UTC) + timedelta(days=AUTHORITY_DAYS))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(is_authority=True), critical=True)
        _write(self._key_file, _key_pem(key), 0o600)
        _write(self.certificate, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), 0o644)

    def _load(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Return certificate and key of the authority. Raises `InvalidArgument`."""
        try:
            with open(self.certificate, "rb") as file:
                own = x509.load_pem_x509_certificate(file.read())
            with open(self._key_file, "rb") as file:
                key = serialization.load_pem_private_key(file.read(), None)
        except (OSError, ValueError, TypeError) as error:
            raise InvalidArgument(
                f"the authority in {self._directory} cannot be used: {error}; both {self.certificate} and "
                f"{self._key_file} are needed to issue certificates"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != own.public_key():
            raise InvalidArgument(f"{self._key_file} is not the key of {self.certificate}, from `raftlog tls create`")
        if own.not_valid_after_utc <= datetime.now(UTC):
            raise InvalidArgument(
                f"the authority {self.certificate} expired on {own.not_valid_after_utc:%Y-%m-%d}; "
                "create another one in a new directory"
            )
        return own, key

    def _issue(
        self,
        stem: str,
        common_name: str,
        names: Sequence[x509.GeneralName],
        usages: Sequence[x509.ObjectIdentifier],
        days: int,
    ) -> IssuedCertificate:
        """Issue a certificate with a new key, write both files, and return their description."""
        certificate, key_file = self._paths(stem)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        expires = min(datetime.now(UTC) + timedelta(days=days), self._own.not_valid_after_utc)
        builder = _builder(subject, self._own.subject, key.public_key(), expires)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(is_authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        _write(key_file, _key_pem(key), 0o600)
        _write(certificate, signed.public_bytes(serialization.Encoding.PEM), 0o644)
        shown = tuple(str(name.value) for name in names)
        return IssuedCertificate(subject.rfc4514_string(), certificate, key_file, shown, signed.not_valid_after_utc)

    def _paths(self, stem: str) -> tuple[str, str]:
        """Return the paths of a certificate and its key; `stem`: name of both files without the extension."""
        at = os.path.join(self._directory, stem)
        return f"{at}.pem", f"{at}.key"

    def _check_new(self, stem: str) -> None:
        """Raise `InvalidArgument` if a certificate or key with this name exists."""
        for path in self._paths(stem):
            if os.path.lexists(path):
                raise InvalidArgument(f"{path} exists already; move it away to issue another one")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, expires: datetime
) -> x509.CertificateBuilder:
    """Return a certificate builder with subject, issuer, key, random serial number and validity."""
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    builder = builder.not_valid_before(datetime.now(UTC) - _CLOCK_SKEW).not_valid_after(expires)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    """Return the usages of a key: signing certificates for an authority, else signatures."""
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    """Return the subject alternative name of a host. Raises `InvalidArgument`."""
    text = host.strip().removeprefix("[").removesuffix("]")
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    if len(text) > _HOST_BYTES_MAX or not _HOST_NAME.fullmatch(text):
        raise InvalidArgument(f"{host!r} is not a host, such as broker-1.example.com or 10.0.0.7; it has no port")
    return x509.DNSName(text.removesuffix(".").lower())


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the private key in PEM, without encryption."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: str, content: bytes, mode: int) -> None:
    """Write a new file durably. Raises `InvalidArgument`."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise InvalidArgument(f"{path} exists already; move it away to issue another one") from None
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from None
