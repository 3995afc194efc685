"""Rebalance of a group from one generation to the next: the two phases of Kafka, and the stored records.

    prepare → all members rejoin, or time is up → complete → stored → leader syncs → assign → stored → Stable

Each waiting request gets at most one answer. A join phase ends only when no Store of the group is pending, so
members that join while a generation is being stored wait for the next one together. The requests are read by
`machine` and `joins`, the only callers."""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, Literal

from raftlog.errors import FencedInstance, NotLeader, RaftlogError, RebalanceInProgress, UnknownMember
from raftlog.partitions.groups.assignment import assign_members, count_partitions
from raftlog.partitions.groups.consumer_group import ConsumerGroup, Member, StoreContent
from raftlog.partitions.groups.effects import Alive, Deleted, Effect, GroupAnswer, Result, Store, Ticket, Token
from raftlog.partitions.groups.records import GroupRecord
from raftlog.partitions.groups.results import SyncedGeneration
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.partitions.groups.states import ConsumerGroupState, Event, state_after
from raftlog.partitions.groups.timers import Timers

Slot = Literal["join", "sync", "beat", "deletion"]
"""Attribute of a member or group that has the token of a waiting request."""
SESSION: Final = "session"
PHASE: Final = "phase"
GIVEN: Final = "given"
WAIT: Final = "wait"
TimerKey = tuple[str, str, str]
"""Kind of the timer, group, and member id for a member's timer."""


class GroupRebalance:
    """Rebalances of the groups of one machine, with their waiting requests, timers and effects."""

    def __init__(
        self, settings: GroupSettings, partitions_of: Callable[[str], int | None], wall_ms: Callable[[], int]
    ) -> None:
        """Begin without groups; `partitions_of` returns a topic's number of partitions, None if it does not exist."""
        self.settings = settings
        self._partitions_of, self._wall_ms = partitions_of, wall_ms
        self.groups: dict[str, ConsumerGroup] = {}
        self.timers: Timers[TimerKey] = Timers()
        self.effects: list[Effect] = []
        self.waiting: dict[Token, tuple[ConsumerGroup, Member | None, Slot]] = {}
        """Owner of each waiting request: a member's `join`, `sync` or `beat`, or the group's `deletion`."""
        self._tickets = count(1)

    # requests that wait

    def answer(self, token: Token, outcome: Result | RaftlogError) -> None:
        """Add the answer to a request to the effects; the request no longer waits."""
        self.waiting.pop(token, None)
        self.effects.append(GroupAnswer(token, outcome))

    def hold_request(self, group: ConsumerGroup, member: Member, slot: Slot, token: Token) -> None:
        """Make a request wait until `release`; an earlier one of the same kind is answered as superseded."""
        superseded = (
            Alive()
            if slot == "beat"
            else RebalanceInProgress(f"a newer request of {member.member_id} replaced this one")
        )
        self.release(member, slot, superseded)
        setattr(member, slot, token)
        self.waiting[token] = (group, member, slot)
        if member.waits:
            self.timers.clear((SESSION, group.name, member.member_id))

    def release(self, member: Member, slot: Slot, outcome: Result | RaftlogError) -> None:
        """Answer the member's waiting request, if there is one."""
        token: Token | None = getattr(member, slot)
        if token is not None:
            setattr(member, slot, None)
            self.answer(token, outcome)

    def restart_session(self, group: ConsumerGroup, member: Member, now: float) -> None:
        """Restart the session timeout of a member, unless one of its requests waits for an answer."""
        if not member.waits:
            self.timers.set((SESSION, group.name, member.member_id), now + member.session_timeout_ms / 1000)

    # states

    def apply_event(self, group: ConsumerGroup, event: Event) -> None:
        """Change the state of the group by an event."""
        group.state = state_after(group.state, event)
        group.changed_ms = self._wall_ms()

    def store(self, group: ConsumerGroup, content: StoreContent) -> None:
        """Add an effect that stores the group's record."""
        ticket: Ticket = next(self._tickets)
        group.storing[ticket] = content
        record: GroupRecord | None = None if content is StoreContent.NOTHING else group.record()
        self.effects.append(Store(group.name, ticket, record))

    def begin_rebalance(self, group: ConsumerGroup, now: float) -> None:
        """Begin a rebalance, in which all members rejoin; during a join phase, check whether it can end."""
        if group.state is ConsumerGroupState.PREPARING:
            self.complete_if_joined(group, now)
            return
        was_empty = group.state is ConsumerGroupState.EMPTY
        self.apply_event(group, Event.REBALANCE)
        group.phase_began, group.is_overdue, group.assigned_counts = now, False, None
        for member in group.members.values():
            begins = RebalanceInProgress(f"the group {group.name} rebalances: join again")
            self.release(member, "beat", begins)
            if member.sync is not None:
                self.release(member, "sync", begins)
                self.restart_session(group, member, now)
            member.has_joined, member.has_synced, member.replaced = member.join is not None, False, None
        hold_s = min(self.settings.initial_rebalance_delay_ms, group.rebalance_timeout_ms()) / 1000
        group.holds, group.grew = was_empty and hold_s > 0, False
        self.timers.set((PHASE, group.name, ""), now + hold_s if group.holds else self._phase_end(group))
        self.complete_if_joined(group, now)

    def complete_if_joined(self, group: ConsumerGroup, now: float) -> None:
        """End the join phase if all members have joined or its time is up, and no Store is pending."""
        if group.state is not ConsumerGroupState.PREPARING or group.storing or group.holds:
            return
        if not group.members:
            self.end_generation(group)
        elif group.is_overdue or (not group.pending_ids and all(each.has_joined for each in group.members.values())):
            self._begin_generation(group, now)

    def _phase_end(self, group: ConsumerGroup) -> float:
        """Return the time at which the join phase times out."""
        return group.phase_began + group.rebalance_timeout_ms() / 1000

    def on_phase_end(self, group: ConsumerGroup, now: float) -> None:
        """Process the expiry of a phase: the initial delay, the join phase, or the sync phase."""
        if group.state is ConsumerGroupState.PREPARING and group.holds:
            self._extend_delay(group, now)
        elif group.state is ConsumerGroupState.PREPARING:
            group.is_overdue = True
            self.complete_if_joined(group, now)
        elif group.state in (ConsumerGroupState.COMPLETING, ConsumerGroupState.STABLE):
            self._remove_unsynced(group, now)

    def _extend_delay(self, group: ConsumerGroup, now: float) -> None:
        """Extend the initial delay (KIP-134) if members joined during it; otherwise let the join phase end."""
        until = min(now + self.settings.initial_rebalance_delay_ms / 1000, self._phase_end(group))
        group.holds = group.grew and until > now
        group.grew = False
        self.timers.set((PHASE, group.name, ""), until if group.holds else max(self._phase_end(group), now))
        self.complete_if_joined(group, now)

    def _begin_generation(self, group: ConsumerGroup, now: float) -> None:
        """Begin the next generation with the members that joined, and the static members (KIP-345)."""
        for member in [each for each in group.members.values() if not each.has_joined and each.instance_id is None]:
            self.remove_member(
                group,
                member,
                UnknownMember(f"{member.member_id} did not rejoin the group {group.name} within the rebalance timeout"),
            )
        if not group.members:
            self.end_generation(group)
        elif not any(member.has_joined for member in group.members.values()):
            group.is_overdue = False
            self.timers.set((PHASE, group.name, ""), now + group.rebalance_timeout_ms() / 1000)
        else:
            group.generation += 1
            group.protocol, group.leader = group.chosen_protocol(), group.chosen_leader()
            self.apply_event(group, Event.JOINED)
            if group.leader:
                self.store(group, StoreContent.MEMBERS)
            else:
                self._assign_here(group)

    def _assign_here(self, group: ConsumerGroup) -> None:
        """Assign the partitions by the chosen assignor, and store the assignments."""
        for member_id, assignment in assign_members(group, self._partitions_of).items():
            group.members[member_id].assignment = assignment
        group.assigned_counts = count_partitions(group, self._partitions_of)
        self.store(group, StoreContent.ASSIGNMENTS)

    def assign(self, group: ConsumerGroup, assignments: Iterable[tuple[str, bytes]]) -> None:
        """Set the members' assignments to those from the group leader.

        Unknown member ids are ignored; missing members get empty assignments."""
        given = dict(assignments)
        for member in group.members.values():
            member.assignment = given.get(member.member_id, b"")
        self.store(group, StoreContent.ASSIGNMENTS)

    # outcomes of stores

    def on_stored(self, group: ConsumerGroup, ticket: Ticket, error: RaftlogError | None, now: float) -> None:
        """Process the outcome of a Store."""
        content = group.storing.pop(ticket, None)
        if content is None:
            return  # a Store of a group that was deleted meanwhile
        if content is StoreContent.NOTHING:
            self._on_deletion_stored(group, error)
        elif error is not None:
            self._on_store_failure(group, content, error, now)
        else:
            if content is StoreContent.ASSIGNMENTS and group.state is ConsumerGroupState.COMPLETING:
                self.apply_event(group, Event.ASSIGNED)
            if content in (StoreContent.MEMBERS, StoreContent.ASSIGNMENTS) and group.state in (
                ConsumerGroupState.COMPLETING,
                ConsumerGroupState.STABLE,
            ):
                self.timers.set((PHASE, group.name, ""), now + group.rebalance_timeout_ms() / 1000)
            self.answer_ready(group, now)

    def answer_ready(self, group: ConsumerGroup, now: float) -> None:
        """Answer the requests whose conditions are met."""
        if group.state is ConsumerGroupState.PREPARING:
            self.complete_if_joined(group, now)
        elif not group.storing:
            for member in group.members.values():
                if member.join is not None:
                    self.release(member, "join", group.join_answer(member))
                    member.has_id, member.has_joined, member.replaced = True, True, None
                    self.restart_session(group, member, now)
                if member.sync is not None and group.state is ConsumerGroupState.STABLE:
                    self.release(member, "sync", self.sync_answer(group, member))
                    self.restart_session(group, member, now)

    def sync_answer(self, group: ConsumerGroup, member: Member) -> SyncedGeneration:
        """Return the answer to a sync, and mark the member as synced."""
        member.has_synced = True
        return SyncedGeneration(member.assignment, group.generation, group.protocol, group.protocol_type)

    def _on_store_failure(self, group: ConsumerGroup, content: StoreContent, error: RaftlogError, now: float) -> None:
        """Fail the waiting requests of a generation that was not stored; its number is not reused here."""
        failure = (
            error if error.outcome == "failed" else NotLeader(f"the group {group.name} could not be stored: {error}")
        )
        if (
            group.state in (ConsumerGroupState.COMPLETING, ConsumerGroupState.STABLE)
            and content is not StoreContent.EMPTY
        ):
            for member in list(group.members.values()):
                self.release(member, "join", failure)
                self.release(member, "sync", failure)
                self.restart_session(group, member, now)
                if not member.has_id and member.instance_id is None:
                    self.remove_member(group, member, failure)
            self.on_members_left(group, now)
        else:
            self.answer_ready(group, now)

    def _on_deletion_stored(self, group: ConsumerGroup, error: RaftlogError | None) -> None:
        """Remove a deleted group, or keep it if its deletion was not stored; answer the request."""
        token, group.deletion = group.deletion, None
        if error is None:
            del self.groups[group.name]
        else:
            self.apply_event(group, Event.KEPT)
            self.forget_unused(group)
        if token is not None:
            self.answer(token, Deleted() if error is None else error)

    # removal of members

    def remove_member(self, group: ConsumerGroup, member: Member, why: RaftlogError) -> None:
        """Remove a member; the caller has to call `on_members_left` afterwards."""
        group.remove(member)
        self._clear_timers(group, member.member_id)
        for slot in ("join", "sync", "beat"):
            self.release(member, slot, why)

    def on_members_left(self, group: ConsumerGroup, now: float) -> None:
        """Rebalance the remaining members after a removal, or end the generation of an empty group."""
        if group.members:
            self.begin_rebalance(group, now)
        elif group.state is not ConsumerGroupState.EMPTY:
            self.end_generation(group)

    def end_generation(self, group: ConsumerGroup) -> None:
        """End the generation of a group without members; without any generation nothing is stored."""
        self.timers.clear((PHASE, group.name, ""))
        self.apply_event(group, Event.EMPTIED)
        group.leader, group.protocol, group.holds, group.assigned_counts = "", "", False, None
        if group.generation > 0:
            group.generation += 1
            self.store(group, StoreContent.EMPTY)
        self.forget_unused(group)

    def forget_unused(self, group: ConsumerGroup) -> None:
        """Delete a group that has no generation, no members and no ids given to joining members."""
        if (
            group.state is ConsumerGroupState.EMPTY
            and group.generation == 0
            and not group.pending_ids
            and not group.storing
        ):
            self.groups.pop(group.name, None)

    def replace_process(self, group: ConsumerGroup, member: Member, member_id: str) -> None:
        """Replace the process of a static member; the earlier one is fenced (KIP-345)."""
        self._clear_timers(group, member.member_id)
        fenced = FencedInstance(f"another process joined the group {group.name} as {member.instance_id}")
        for slot in ("join", "sync", "beat"):
            self.release(member, slot, fenced)
        group.rename(member, member_id)

    def _clear_timers(self, group: ConsumerGroup, member_id: str) -> None:
        """Stop the timers of a group member."""
        self.timers.clear((SESSION, group.name, member_id))
        self.timers.clear((WAIT, group.name, member_id))

    def _remove_unsynced(self, group: ConsumerGroup, now: float) -> None:
        """Remove joined members that did not sync in time, the group leader included."""
        if group.storing:
            self.timers.set((PHASE, group.name, ""), now + group.rebalance_timeout_ms() / 1000)
            return
        late = [
            each for each in group.members.values() if each.has_joined and not each.has_synced and each.sync is None
        ]
        for member in late:
            self.remove_member(
                group,
                member,
                UnknownMember(f"{member.member_id} did not sync within the rebalance timeout: join again"),
            )
        if late:
            self.on_members_left(group, now)

    def topics_changed(self, now: float) -> None:
        """Rebalance groups assigned by the coordinator whose topics or partition counts changed."""
        for group in list(self.groups.values()):
            if group.state in (ConsumerGroupState.COMPLETING, ConsumerGroupState.STABLE) and not group.leader:
                counts = count_partitions(group, self._partitions_of)
                if counts != group.assigned_counts:
                    self.begin_rebalance(group, now)
