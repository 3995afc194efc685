"""View of all members by one member: processes claims, stores the newest states, and queues new claims for gossip.

Nothing here sends or waits. The machine (`membership.swim`) passes claims from messages, from failed probes and from
expired suspicions; the table in `membership.states` decides about all of them. Only a member itself raises its
incarnation: after it refuted a claim, its incarnation is higher than every one that it received in its name."""

import math
from collections.abc import Collection
from random import Random
from typing import Final

from raftlog.membership.awareness import Awareness
from raftlog.membership.broadcasts import Broadcasts
from raftlog.membership.changes import Conflict, Conflicts, MemberChange
from raftlog.membership.config import SwimConfig
from raftlog.membership.member import INCARNATION_MAX, Announcement, Claim, GossipIdentity, GossipMember, MemberState
from raftlog.membership.roster import Roster
from raftlog.membership.rounds import Rounds
from raftlog.membership.states import Effect, find_verdict
from raftlog.membership.suspicion import Suspicion
from raftlog.types import NodeId

EXPIRY_CHECK_INTERVAL_S: Final = 0.05
"""Minimum interval between checks of all suspicions; a network partition causes many of them."""


class MembershipView:
    """View of all members: their states, suspicions, and claims to gossip.

    `suspicions` has exactly the other members in state suspect."""

    def __init__(self, me: GossipIdentity, description: bytes, config: SwimConfig, random: Random) -> None:
        """Create a view with this process as its only member."""
        self._me = me
        self._config = config
        about = Announcement(me.first_incarnation, me.address, description)
        self.roster = Roster(
            GossipMember(me.node_id, me.disk_uuid, me.first_incarnation, MemberState.ALIVE, about, 0.0)
        )
        self.rounds = Rounds(self.roster, random)
        self.awareness = Awareness(config.awareness_max)
        self.broadcasts = Broadcasts(config.broadcasts_max)
        self.suspicions: dict[NodeId, Suspicion] = {}
        self.suspicion_due = math.inf
        """Earliest time at which a suspicion may expire; checked again then."""
        self._wanted = 0
        """Number of confirmations for which `suspicion_due` was computed."""
        self.newly_suspected: list[NodeId] = []
        """Members that others suspected since the state machine last took the list; the machine may probe them too."""
        self.contested: list[NodeId] = []
        """Node ids that another process has claimed since the machine last took the list; it probes their holders."""
        self.changes: list[MemberChange] = []
        self.conflicts = Conflicts()
        self.suspected_count = 0
        self.refuted_count = 0
        self._may_supersede_at = -math.inf

    # claims

    def handle_claim(self, claim: Claim, now: float, *, is_exchanged: bool = False) -> None:
        """Process a claim about another member or this one.

        A member that is new by an exchange of digests (`is_exchanged`) is not gossiped further: its source did that.
        """
        if claim.node_id == self._me.node_id:
            self._handle_claim_about_me(claim, now)
            return
        is_new = not is_exchanged or self.roster.get(claim.node_id) is not None
        self._handle_claim_about_other(claim, now)
        if not is_new:
            self.broadcasts.drop(claim.node_id)

    def supersedes(self, claim: Claim) -> bool:
        """Return whether a claim about this member is older than its present incarnation.

        False if another live disk claims the node id, and after this member has left."""
        me = self.roster.myself
        is_of_holder = claim.disk_uuid != me.disk_uuid and claim.state.is_up
        return me.state is MemberState.ALIVE and claim.incarnation < me.incarnation and not is_of_holder

    def suspect(self, node_id: NodeId, incarnation: int, now: float) -> None:
        """Suspect a member that did not answer at that incarnation, or confirm the suspicion."""
        member = self.roster.get(node_id)
        if member is not None and member.incarnation == incarnation:
            self._announce_state(node_id, MemberState.SUSPECT, now)

    def declare_dead(self, now: float) -> None:
        """Declare dead the members whose suspicion has expired."""
        if now < self.suspicion_due:
            return
        ends = self._suspicion_ends()
        for node_id in [node_id for node_id, end in ends.items() if end <= now]:
            self._announce_state(node_id, MemberState.DEAD, now)
        self.suspicion_due = max(min(self._suspicion_ends().values(), default=math.inf), now + EXPIRY_CHECK_INTERVAL_S)

    def _announce_state(self, node_id: NodeId, state: MemberState, now: float) -> None:
        """Gossip that a member is suspected or dead, at its known incarnation; do nothing if it is not up."""
        member = self.roster.get(node_id)
        if member is not None and member.state.is_up:
            self.handle_claim(
                Claim(node_id, member.disk_uuid, member.incarnation, state, self._me.node_id, 0, None), now
            )

    def extend_suspicions(self, late_s: float) -> None:
        """Extend all suspicions by the duration of a pause of this process."""
        for suspicion in self.suspicions.values():
            suspicion.began += late_s
        self._set_suspicion_due()

    @property
    def retransmits_max(self) -> int:
        """Number of times that a claim is sent, for the present number of members."""
        return self._config.retransmits_max(self.roster.up_count)

    def claim_about(self, member: GossipMember, now: float, *, with_about: bool) -> Claim:
        """Return a claim with the present state of a member, to send to others."""
        suspicion = self.suspicions.get(member.node_id)
        by = self._me.node_id if suspicion is None else suspicion.first
        age_s = 0 if member.state.is_up else max(0, int(now - member.since))
        about = member.about if with_about or member.state is MemberState.ALIVE else None
        return Claim(member.node_id, member.disk_uuid, member.incarnation, member.state, by, age_s, about)

    # about others

    def _handle_claim_about_other(self, claim: Claim, now: float) -> None:
        """Carry out the verdict on a claim about another member."""
        known = self.roster.get(claim.node_id)
        verdict = find_verdict(known, claim)
        if known is not None and verdict is Effect.CONFLICT:
            if self.conflicts.record(Conflict(known, claim), now):
                self.contested.append(claim.node_id)
        elif known is not None and verdict is Effect.CONFIRM:
            self._confirm(claim)
            self._update_announcement(known, claim)
        elif known is not None and verdict is Effect.KEEP:
            if known.state is MemberState.ALIVE and claim.state is MemberState.ALIVE and _is_copied_disk(known, claim):
                self.conflicts.record(Conflict(known, claim), now)
            self._update_announcement(known, claim)
        elif isinstance(verdict, MemberState):
            self._accept_state(known, claim, verdict, now)

    def _accept_state(self, known: GossipMember | None, claim: Claim, state: MemberState, now: float) -> None:
        """Store the claimed state and gossip the claim; ignore a new member without an announcement."""
        about = _newer_announcement(known, claim)
        if about is None or (known is None and not self._is_admitted(claim)):
            return  # the claim does not describe a new member: an exchange of digests will
        since = now - claim.age_s if known is None or known.state is not state else known.since
        after = GossipMember(claim.node_id, claim.disk_uuid, claim.incarnation, state, about, since)
        self._put(known, after)
        if state is MemberState.SUSPECT:
            self._begin_suspicion(claim, now)
        self.broadcasts.add(claim)

    def _is_admitted(self, claim: Claim) -> bool:
        """Return whether a claim may add a member: there is room, and other members are not about to forget it."""
        return len(self.roster) < self._config.members_max and claim.age_s < 0.9 * self._config.reap_s

    def _update_announcement(self, known: GossipMember, claim: Claim) -> None:
        """Store and gossip a newer announcement from a claim; it may arrive after other claims about the member."""
        about = _newer_announcement(known, claim)
        if about is not None and about is not known.about and known.disk_uuid == claim.disk_uuid:
            self._put(known, known._replace(about=about))
            self.broadcasts.add(claim._replace(incarnation=known.incarnation, state=known.state))

    def _put(self, before: GossipMember | None, after: GossipMember) -> None:
        """Store the new state of another member and record the change; end its suspicion if it is not suspected."""
        was = None if before is None else before.state
        self.roster.put(after)
        if before is not None and was is MemberState.SUSPECT and (after.state is not was or _is_newer(after, before)):
            del self.suspicions[after.node_id]
        if after.state.is_up and (was is None or not was.is_up):
            self.rounds.insert(after.node_id)
        self.changes.append(MemberChange(after.node_id, was, after.state, after))
        if self._wanted != self._required_confirmations():
            self._set_suspicion_due()

    # suspicion

    def _begin_suspicion(self, claim: Claim, now: float) -> None:
        """Begin the suspicion of a member; its first accuser is the member that made the claim (`by`)."""
        self.suspicions[claim.node_id] = Suspicion(claim.by, now)
        self.suspected_count += 1
        if claim.by != self._me.node_id:
            self.newly_suspected.append(claim.node_id)
        self._advance_suspicion_due(claim.node_id)

    def _confirm(self, claim: Claim) -> None:
        """Add the accuser of a claim to a suspicion, and gossip the claim if it is still needed."""
        if self.suspicions[claim.node_id].add_accuser(claim.by, self._required_confirmations()):
            self.broadcasts.add(claim)
            self._advance_suspicion_due(claim.node_id)

    def _required_confirmations(self) -> int:
        """Return the number of confirmations that shorten a suspicion: only live members can confirm it."""
        return min(self._config.confirmations, self.roster.alive_count - 1)

    def _advance_suspicion_due(self, node_id: NodeId) -> None:
        """Lower `suspicion_due` to the end of this member's suspicion."""
        self.suspicion_due = min(self.suspicion_due, self._suspicion_ends((node_id,))[node_id])

    def _set_suspicion_due(self) -> None:
        """Compute `suspicion_due` from all suspicions."""
        self._wanted = self._required_confirmations()
        self.suspicion_due = min(self._suspicion_ends().values(), default=math.inf)

    def _suspicion_ends(self, of: Collection[NodeId] | None = None) -> dict[NodeId, float]:
        """Return the end of each suspicion by member; only of the members `of` if they are given."""
        n, wanted = self.roster.up_count, self._required_confirmations()
        min_s, max_s = self._config.suspicion_min_s(n), self._config.suspicion_max_s(n)
        suspects = self.suspicions if of is None else of
        return {each: self.suspicions[each].deadline(min_s, max_s, wanted) for each in suspects}

    # about this member

    def _handle_claim_about_me(self, claim: Claim, now: float) -> None:
        """Refute a claim that this member is not alive; supersede a claim that another process made in its name."""
        me = self.roster.myself
        if me.state is MemberState.LEFT:
            return
        if claim.disk_uuid != me.disk_uuid:
            self._handle_other_disk(me, claim, now)
        elif claim.incarnation > me.incarnation and claim.state is MemberState.ALIVE:
            self._supersede(me, claim, now)
        elif claim.incarnation >= me.incarnation and claim.state is not MemberState.ALIVE:
            self.awareness.worsen(1)
            self.refuted_count += 1
            self._raise_incarnation(claim.incarnation)

    def _handle_other_disk(self, own_member: GossipMember, claim: Claim, now: float) -> None:
        """Process a claim about another disk of this node id; a live one keeps the node id."""
        if claim.state.is_up:
            self.conflicts.record(Conflict(own_member, claim), now)
        elif claim.incarnation >= own_member.incarnation:
            self._raise_incarnation(claim.incarnation)

    def _supersede(self, own_member: GossipMember, claim: Claim, now: float) -> None:
        """Raise the own incarnation above that of a claim that another process made in this member's name.

        An earlier start of this disk may have made the claim, or a running copy of the disk. This member answers at
        most once a period, so that two processes do not raise their incarnations in turn without a pause."""
        if claim.about is not None and claim.about.address != own_member.address:
            self.conflicts.record(Conflict(own_member, claim), now)
        if now >= self._may_supersede_at:
            self._may_supersede_at = now + self._config.period_s
            self._raise_incarnation(claim.incarnation)

    def _raise_incarnation(self, above: int) -> None:
        """Become alive under a higher incarnation than any received one (SWIM 4.2)."""
        me = self.roster.myself
        incarnation = max(above, me.incarnation) + 1
        if incarnation <= INCARNATION_MAX:
            about = me.about._replace(incarnation=incarnation)
            self._announce_self(me._replace(incarnation=incarnation, state=MemberState.ALIVE, about=about))

    def announce_start(self, now: float) -> None:
        """Announce this member at its start."""
        self._announce_self(self.roster.myself._replace(since=now))

    def set_description(self, description: bytes) -> None:
        """Announce a new description under a higher incarnation, unless it is the same or this member has left."""
        me = self.roster.myself
        if description != me.description and me.state is not MemberState.LEFT:
            about = Announcement(me.incarnation + 1, me.address, description)
            self._announce_self(me._replace(incarnation=about.incarnation, about=about))

    def leave(self, now: float) -> None:
        """Announce that this member leaves."""
        self._announce_self(self.roster.myself._replace(state=MemberState.LEFT, since=now))

    def _announce_self(self, own_member: GossipMember) -> None:
        """Store and gossip this member's new state."""
        self.roster.put(own_member)
        self.broadcasts.add(
            Claim(
                own_member.node_id,
                own_member.disk_uuid,
                own_member.incarnation,
                own_member.state,
                own_member.node_id,
                0,
                own_member.about,
            )
        )

    # expiry

    def reap(self, now: float) -> None:
        """Forget members that have been dead or left for `reap_s`."""
        down = [member for member in self.roster if member.node_id != self._me.node_id and not member.state.is_up]
        for member in down:
            if now - member.since >= self._config.reap_s:
                self.roster.forget(member)
                self.broadcasts.drop(member.node_id)
                self.changes.append(MemberChange(member.node_id, member.state, None, member))


def _newer_announcement(known: GossipMember | None, claim: Claim) -> Announcement | None:
    """Return the newer of the known and the claimed announcement; only the claimed one if it is of another disk.

    None if the claim has none and the member is unknown or of another disk."""
    if known is None or known.disk_uuid != claim.disk_uuid:
        return claim.about
    if claim.about is None or claim.about.incarnation <= known.about.incarnation:
        return known.about
    return claim.about


def _is_newer(after: GossipMember, before: GossipMember) -> bool:
    """Return whether a member has another incarnation or disk than before."""
    return (after.incarnation, after.disk_uuid) != (before.incarnation, before.disk_uuid)


def _is_copied_disk(known: GossipMember, claim: Claim) -> bool:
    """Return whether two processes run on copies of one disk: the same incarnation at two addresses."""
    same = known.incarnation == claim.incarnation and known.disk_uuid == claim.disk_uuid
    return same and claim.about is not None and claim.about.address != known.address
