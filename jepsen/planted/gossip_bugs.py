"""Bugs in gossip: in the view that each gossip member has of the others."""

from typing import Final

from jepsen.planted.bug import PlantedBug
from jepsen.planted.patch import replace_method
from raftlog.membership import states, view
from raftlog.membership.broadcasts import Broadcasts
from raftlog.membership.member import Claim, GossipIdentity, GossipMember
from raftlog.membership.states import Order, Verdict, compare_incarnations
from raftlog.membership.swim import Sender, Swim
from raftlog.membership.view import MembershipView
from raftlog.types import NodeId


def never_refute() -> None:
    """Plant a bug: a gossip member ignores suspicions of itself instead of refuting them."""

    def ignore_claim(self: MembershipView, claim: Claim, now: float) -> None:
        """Ignore a claim about the local member."""

    replace_method(MembershipView, "_handle_claim_about_me", ignore_claim)


def ignore_incarnations() -> None:
    """Plant a bug: a gossip member accepts the latest claim received, whatever its incarnation is."""
    find_verdict = states.find_verdict

    def accept_as_newer(known: GossipMember | None, claim: Claim) -> Verdict:
        """Return the claimed state for a claim of an older incarnation of the same disk; otherwise decide as usual."""
        if (
            known is not None
            and compare_incarnations(known, claim) is Order.OLDER
            and known.disk_uuid == claim.disk_uuid
        ):
            return claim.state
        return find_verdict(known, claim)

    replace_method(view, "find_verdict", accept_as_newer)


def retransmit_without_end() -> None:
    """Plant a bug: gossip retransmits each broadcast a hundred times as often as allowed."""
    take = Broadcasts.take

    def take_without_limit(self: Broadcasts, room: int, times_max: int, excluded: NodeId | None = None) -> list[Claim]:
        """Return claims for a datagram, with a hundred times the limit of retransmissions."""
        return take(self, room, 100 * times_max, excluded)

    replace_method(Broadcasts, "take", take_without_limit)


def overfill_datagrams() -> None:
    """Plant a bug: gossip puts all pending claims into each datagram, even beyond its size limit."""
    take = Broadcasts.take

    def take_all(self: Broadcasts, room: int, times_max: int, excluded: NodeId | None = None) -> list[Claim]:
        """Return all pending claims, as if the datagram had no limit."""
        return take(self, 1 << 30, times_max, excluded)

    replace_method(Broadcasts, "take", take_all)


def leave_outdated_claims() -> None:
    """Plant a bug: a gossip member does not correct the sender of an outdated claim about this member."""

    def ignore_outdated(self: Swim, claim: Claim, _sender: Sender, now: float) -> None:
        """Pass the claim to the view without answering its sender."""
        self._view.handle_claim(claim, now)

    replace_method(Swim, "_handle_claim", ignore_outdated)


def forget_incarnations() -> None:
    """Plant a bug: a gossip member begins with the same incarnation at every start.

    So a restart does not override the claim that the member is dead."""
    replace_method(GossipIdentity, "first_incarnation", property(lambda _identity: 1))


BUGS: Final = (
    PlantedBug(
        "never-refute",
        "a member that is suspected in error is declared dead, for it does not contradict",
        never_refute,
        ("healthy-declared-dead", "healthy-suspected", "disagreement"),
        found_within=3,
        level="gossip",
    ),
    PlantedBug(
        "ignore-incarnations",
        "old news about a member overturns newer news",
        ignore_incarnations,
        ("incarnation-back",),
        found_within=5,
        level="gossip",
    ),
    PlantedBug(
        "retransmit-without-end",
        "news is sent on long after all have received it",
        retransmit_without_end,
        ("queue-not-empty",),
        found_within=3,
        level="gossip",
    ),
    PlantedBug(
        "overfill-datagrams",
        "datagrams are larger than the network may carry in one piece",
        overfill_datagrams,
        ("datagram-too-large",),
        found_within=6,
        level="gossip",
    ),
    PlantedBug(
        "leave-outdated-claims",
        "a member that wrongly considers others dead, and is considered alive itself, is not corrected",
        leave_outdated_claims,
        ("disagreement",),
        found_within=159,
        level="gossip",
    ),
    PlantedBug(
        "forget-incarnations",
        "a new start is not newer than what was said before, so that who comes back is not known to be there",
        forget_incarnations,
        ("disagreement", "dead-not-known"),
        found_within=1,
        level="gossip",
    ),
)
