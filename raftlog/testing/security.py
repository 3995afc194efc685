"""Security of a cluster on one machine: certificates and a superuser with its password, created once per directory.

{directory}/tls               private authority, and a certificate for each node
{directory}/admin.password    password of the superuser `admin`; only its owner can read the file

Used by `Cluster(secure=True)` and `raftlog dev --secure`."""

import importlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from raftlog.errors import InvalidArgument

SECURITY_FIELDS: Final = ("ca", "user", "password_file")
"""Fields that clients need, with the names that they have in `BrokerAddresses`."""
USER: Final = "admin"
_PASSWORD_BYTES: Final = 18
_VARIABLE: Final = "RAFTLOG_BOOTSTRAP_USER"


class ClusterSecurity(NamedTuple):
    """Files of a cluster with TLS and users; all paths are absolute."""

    directory: Path
    ca: str
    user: str
    password_file: str

    def flags(self, node_id: int) -> list[str]:
        """Return the flags of `raftlog serve` for a node."""
        at = str(self.directory / f"node-{node_id}")
        files = ["--tls-certificate", f"{at}.pem", "--tls-key", f"{at}.key", "--tls-authority", self.ca]
        return [*files, "--client-certificates", "optional", "--authentication", "required", "--authorization", "acl"]

    def password(self) -> str:
        """Return the password of the superuser."""
        return Path(self.password_file).read_text(encoding="ascii").strip()

    def environment(self) -> dict[str, str]:
        """Return the environment variables of a node, which create the superuser when the cluster is founded."""
        return {_VARIABLE: f"{self.user}:{self.password()}"}

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SECURITY_FIELDS}


def prepare_security(
    directory: Path, nodes: Iterable[int], processes: Callable[[int], Iterable[int]] = lambda node: (node,)
) -> ClusterSecurity:
    """Create the missing files of these nodes, and return the paths of all files. Raises `InvalidArgument`.

    `processes` returns the ids of the processes that share the certificate of a node."""
    own = directory.absolute() / "tls"
    issuing = importlib.import_module("raftlog.security.authority")  # clients do not need its library
    authority = issuing.PrivateAuthority(str(own))
    missing = [node for node in nodes if not (own / f"node-{node}.pem").exists()]
    authority.issue(missing, processes=processes)
    password_file = directory.absolute() / f"{USER}.password"
    try:
        descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        raise InvalidArgument(f"{password_file} cannot be written: {error.strerror}") from None
    else:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(_PASSWORD_BYTES)}\n")
    return ClusterSecurity(own, authority.certificate, USER, str(password_file))
