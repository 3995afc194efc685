"""Cases of the negative control: a fault each, the records that the library loses by it, and the cause.

Each is the shortest run in which a known loss occurs every time; `repaired` names the build without its cause.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from jepsen.nemeses.fault import Fault, FaultKind


class Case(NamedTuple):
    """Case of the negative control: faults against the library pysyncobj.

    `down_s` is the time for which the victims stay down."""

    repaired: str
    """Name of the build without the cause of the loss."""
    why: str
    """Description of the failure, for the report."""
    cure: str
    """Behaviour of the repaired build."""
    hits: tuple[float, ...]
    """Times of the faults, in seconds after the beginning of the load."""
    down_s: float
    kind: FaultKind
    takes_all: bool
    """Whether the fault hits all machines at once; otherwise it hits the leader's."""
    delay_ms: float
    """Delay of one direction between nodes."""
    seconds: float
    """Duration of the load."""
    rate: float

    def schedule(self, nodes: tuple[int, ...], seconds: float) -> tuple[Fault, ...]:
        """Return the faults that fit into `seconds` of load."""
        victims = nodes if self.takes_all else nodes[:1]
        of_leader = None if self.takes_all else 0
        return tuple(
            Fault(self.kind, at, at + self.down_s, victims, of_leader=of_leader)
            for at in self.hits
            if at + self.down_s < seconds
        )


CASES: Final[Mapping[str, Case]] = {
    "power": Case(
        repaired="synced",
        why=(
            "The library writes its journal, term and vote and never syncs them, so an acknowledged write is in the "
            "page caches of a majority and nowhere else. When all machines lose power at once, every write since the "
            "last sync is lost on all of them, though it was acknowledged. The journals come back empty, and "
            "new writes get the offsets of the lost ones."
        ),
        cure=(
            "Repaired: journal, term and vote are synced before a message leaves a node, so before an answer of a "
            "follower can count."
        ),
        hits=(2.5,),
        down_s=0.5,
        kind="power",
        takes_all=True,
        delay_ms=0,
        seconds=7,
        rate=150,
    ),
    "heartbeat": Case(
        repaired="cut-on-conflict",
        why=(
            "A follower that gets an AppendEntries cuts off all that it holds behind the message's previous index, "
            "also what matches and what it has applied, before it adds what the message brings. A leader that gets an "
            "answer for less than it has sent by then begins again behind the answer, in pieces of 64 KiB. Between "
            "the first of these pieces and the last one a follower lacks entries that it had acknowledged and that "
            "count as committed. When the leader's machine dies in that moment, the other pieces die with it; the "
            "followers elect one of themselves, and acknowledged writes are in no log any more, while some state "
            "machines have applied them: replicas differ for good."
        ),
        cure=(
            "Repaired: a follower cuts only where an entry of another term stands in the place of one that the "
            "message brings, and commits no further than the message vouches for."
        ),
        hits=(3.0,),
        down_s=4.5,
        kind="kill",
        takes_all=False,
        delay_ms=200,
        seconds=10,
        rate=300,
    ),
}
