"""Keys that sign gossip, derived by the composition root from the secret of the cluster."""

from typing import NamedTuple


class GossipKeys(NamedTuple):
    """Keys for gossip; `signing` is the first of `accepted`. `repr` shows none of them."""

    accepted: tuple[bytes, ...]

    @property
    def signing(self) -> bytes:
        return self.accepted[0]

    def __repr__(self) -> str:
        return f"<{len(self.accepted)} keys of gossip>"
