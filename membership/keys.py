"""The keys that gossip is signed with. Made by the composition root from the secret that the cluster shares."""

from typing import NamedTuple


class GossipKeys(NamedTuple):
    """`signing` is the first of `accepted`. Its representation shows none of them."""

    accepted: tuple[bytes, ...]

    @property
    def signing(self) -> bytes:
        return self.accepted[0]

    def __repr__(self) -> str:
        return f"<{len(self.accepted)} keys of gossip>"
