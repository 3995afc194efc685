"""Faults as drawn or scripted (`Fault`), and as injected (`InjectedFault`)."""

from typing import Final, Literal, NamedTuple, get_args

FaultKind = Literal[
    "kill", "power", "pause", "stall", "cut", "packet", "clock", "damage", "full", "sync", "roll", "members"
]
KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)
Link = tuple[int, int]
"""Sender and receiver."""
Plane = Literal["", "rpc", "gossip"]


class Fault(NamedTuple):
    """Planned fault; times in seconds from the beginning of the load."""

    kind: FaultKind
    begin_s: float
    end_s: float
    nodes: tuple[int, ...]
    """Victims, in order. For a cut these are the nodes that lose most links, the first one the most."""
    shape: str = ""
    """Variant of the kind: shape of a cut, course of a clock, request of an operator."""
    links: tuple[Link, ...] = ()
    """Links affected by a cut or a packet fault."""
    of_leader: int | None = None
    """Number of the partition whose leader is the victim; of a membership change: of the partition to change."""
    plane: Plane = ""
    """Traffic affected by a cut or a packet fault; empty: all of it."""
    seed: int = 0
    """Seed of draws inside of the fault: lost pages, flipped bits, size of a clock's jump."""
    amount: float | None = None
    """Seconds of a clock's jump, of a sync or of a stall, or factor of a clock's drift; None: it is drawn."""
    files: tuple[str, ...] = ()
    """Kinds of files that are damaged, as `jepsen.damage` names them; empty: all kinds."""

    def with_leader(self, leader: int) -> "Fault":
        """Return the same fault with that node in place of the first one."""
        return self.with_swapped(self.nodes[0], leader)

    def with_swapped(self, first: int, second: int) -> "Fault":
        """Return the same fault with these two nodes exchanged."""
        swapped = {first: second, second: first}
        nodes = tuple(swapped.get(node, node) for node in self.nodes)
        links = tuple((swapped.get(a, a), swapped.get(b, b)) for a, b in self.links)
        return self._replace(nodes=nodes, links=links)

    def postpone_to(self, begin_s: float) -> "Fault":
        """Return the same fault with the same duration at another time."""
        return self._replace(begin_s=begin_s, end_s=begin_s + self.end_s - self.begin_s)

    def __str__(self) -> str:
        """Return the text of the fault: kind, shape, and nodes or links."""
        names = ", ".join(map(str, self.nodes))
        if self.kind == "members":
            return f"order to {self.shape}, node {names}, partition {self.of_leader}"
        if self.links:
            only = f" of {self.plane} only" if self.plane else ""
            return f"{self.kind}, {self.shape}{only}: " + ", ".join(f"{a}→{b}" for a, b in self.links)
        how = f", {self.shape}:" if self.shape else ""
        return f"{self.kind}{how} {'nodes' if len(self.nodes) > 1 else 'node'} {names}"


class InjectedFault(NamedTuple):
    """Injected fault, in seconds from the beginning of the load; `proof` is its observed effect, empty for none.

    `served_s` is the time at which every process that the end of the fault started served, or was killed again; the end
    of the fault if it started none.
    """

    kind: str
    what: str
    begin_s: float
    end_s: float
    proof: str
    served_s: float
    leaves: tuple[int, ...] = ()
    """Nodes that do not belong to the cluster any more since the fault began."""
