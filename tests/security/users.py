"""Users for tests of logins, without a controller."""

from raftlog.security.credentials import ScramCredential, ScramMechanism, from_password


class FakeUsers:
    """Users in memory; a version rises with each change."""

    secret = b"secret of the cluster"

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, dict[ScramMechanism, ScramCredential]]] = {}
        self._version = 0

    def put(self, name: str, password: str) -> None:
        self._version += 1
        self._rows[name] = self._version, {each: from_password(each, password) for each in ScramMechanism}

    def delete(self, name: str) -> None:
        del self._rows[name]

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return self._rows[name][1][mechanism] if name in self._rows else None

    def any_credential(self, name: str) -> ScramCredential | None:
        return self.credential(name, ScramMechanism.SHA_256)

    def version_of(self, name: str) -> int:
        return self._rows[name][0] if name in self._rows else 0
