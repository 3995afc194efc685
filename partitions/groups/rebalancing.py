"""How a group comes from one generation to the next: the two phases of Kafka's rebalance, and what they store.

    prepare → everybody joins again, or time is up → complete → stored → leader syncs → assign → stored → Stable

At most one answer goes to each waiting request. A join phase ends only when nothing of the group is being stored, so
members that come while a generation is on its way to the log wait for the next one together. The requests are read by
`machine` and `joining`; nothing else calls this.
"""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, Literal

from raftlog.errors import FencedInstance, NotLeader, RaftlogError, RebalanceInProgress, UnknownMember
from raftlog.partitions.groups.assigning import assign_members, counts_of_topics
from raftlog.partitions.groups.bounds import GroupSettings
from raftlog.partitions.groups.effects import Alive, Deleted, Effect, GroupAnswer, Result, Store, Ticket, Token
from raftlog.partitions.groups.membership import ConsumerGroup, Kept, Member
from raftlog.partitions.groups.records import GroupRecord
from raftlog.partitions.groups.results import SyncedGeneration
from raftlog.partitions.groups.states import ConsumerGroupState, Event, after
from raftlog.partitions.groups.timers import Timers

Slot = Literal["join", "sync", "beat", "deletion"]
SESSION: Final = "session"
PHASE: Final = "phase"
GIVEN: Final = "given"
WAIT: Final = "wait"
TimerKey = tuple[str, str, str]
"""Which of these, group, and member id where it is one member's."""


class Rebalancing:
    """Groups by name, the requests that wait, timers, effects."""

    def __init__(
        self, settings: GroupSettings, partitions_of: Callable[[str], int | None], wall_ms: Callable[[], int]
    ) -> None:
        self.settings = settings
        self._partitions_of, self._wall_ms = partitions_of, wall_ms
        self.groups: dict[str, ConsumerGroup] = {}
        self.timers: Timers[TimerKey] = Timers()
        self.effects: list[Effect] = []
        self.waiting: dict[Token, tuple[ConsumerGroup, Member | None, Slot]] = {}
        """Whose it is: a member's `join`, `sync` or `beat`, or the group's `deletion`."""
        self._tickets = count(1)

    # requests that wait

    def answer(self, token: Token, outcome: Result | RaftlogError) -> None:
        self.waiting.pop(token, None)
        self.effects.append(GroupAnswer(token, outcome))

    def park(self, group: ConsumerGroup, member: Member, slot: Slot, token: Token) -> None:
        """Until `release`; an earlier request of the same kind is not waited for by anybody any more."""
        superseded = Alive() if slot == "beat" else RebalanceInProgress(f"{member.member_id} asked once more")
        self.release(member, slot, superseded)
        setattr(member, slot, token)
        self.waiting[token] = (group, member, slot)
        if member.waits:
            self.timers.clear((SESSION, group.name, member.member_id))

    def release(self, member: Member, slot: Slot, outcome: Result | RaftlogError) -> None:
        """Answer the member's request that waits, if there is one."""
        token: Token | None = getattr(member, slot)
        if token is not None:
            setattr(member, slot, None)
            self.answer(token, outcome)

    def touch(self, group: ConsumerGroup, member: Member, now: float) -> None:
        """It is alive: its session begins anew, unless it waits for us."""
        if not member.waits:
            self.timers.set((SESSION, group.name, member.member_id), now + member.session_timeout_ms / 1000)

    # states

    def become(self, group: ConsumerGroup, event: Event) -> None:
        group.state = after(group.state, event)
        group.changed_ms = self._wall_ms()

    def store(self, group: ConsumerGroup, kept: Kept) -> None:
        ticket: Ticket = next(self._tickets)
        group.storing[ticket] = kept
        record: GroupRecord | None = None if kept is Kept.NOTHING else group.record()
        self.effects.append(Store(group.name, ticket, record))

    def prepare(self, group: ConsumerGroup, now: float) -> None:
        """Begin a rebalance: whoever is there has to join again. In the join phase already, see whether it is over."""
        if group.state is ConsumerGroupState.PREPARING:
            self.maybe_complete(group, now)
            return
        was_empty = group.state is ConsumerGroupState.EMPTY
        self.become(group, Event.REBALANCE)
        group.phase_began, group.is_overdue, group.assigned_counts = now, False, None
        for member in group.members.values():
            begins = RebalanceInProgress(f"the group {group.name} makes a new generation: join again")
            self.release(member, "beat", begins)
            if member.sync is not None:
                self.release(member, "sync", begins)
                self.touch(group, member, now)
            member.has_joined, member.has_synced, member.replaced = member.join is not None, False, None
        hold_s = min(self.settings.initial_rebalance_delay_ms, group.rebalance_timeout_ms()) / 1000
        group.holds, group.grew = was_empty and hold_s > 0, False
        self.timers.set((PHASE, group.name, ""), now + hold_s if group.holds else self._phase_end(group))
        self.maybe_complete(group, now)

    def maybe_complete(self, group: ConsumerGroup, now: float) -> None:
        """End the join phase, if all have joined or its time is up, and nothing is being stored."""
        if group.state is not ConsumerGroupState.PREPARING or group.storing or group.holds:
            return
        if not group.members:
            self.empty(group)
        elif group.is_overdue or (not group.given_ids and all(each.has_joined for each in group.members.values())):
            self._complete(group, now)

    def _phase_end(self, group: ConsumerGroup) -> float:
        return group.phase_began + group.rebalance_timeout_ms() / 1000

    def phase_over(self, group: ConsumerGroup, now: float) -> None:
        """The timer of a phase: of holding, of joining, of syncing."""
        if group.state is ConsumerGroupState.PREPARING and group.holds:
            self._hold_on(group, now)
        elif group.state is ConsumerGroupState.PREPARING:
            group.is_overdue = True
            self.maybe_complete(group, now)
        elif group.state in (ConsumerGroupState.COMPLETING, ConsumerGroupState.STABLE):
            self._syncs_over(group, now)

    def _hold_on(self, group: ConsumerGroup, now: float) -> None:
        """KIP-134: once more the delay, while members keep coming and the rebalance timeout allows it."""
        until = min(now + self.settings.initial_rebalance_delay_ms / 1000, self._phase_end(group))
        group.holds = group.grew and until > now
        group.grew = False
        self.timers.set((PHASE, group.name, ""), until if group.holds else max(self._phase_end(group), now))
        self.maybe_complete(group, now)

    def _complete(self, group: ConsumerGroup, now: float) -> None:
        """The members of the next generation are known: those that joined, and static ones (KIP-345)."""
        for member in [each for each in group.members.values() if not each.has_joined and each.instance_id is None]:
            self.drop(group, member, UnknownMember(f"{member.member_id} did not join the group {group.name} again"))
        if not group.members:
            self.empty(group)
        elif not any(member.has_joined for member in group.members.values()):
            group.is_overdue = False
            self.timers.set((PHASE, group.name, ""), now + group.rebalance_timeout_ms() / 1000)
        else:
            group.generation += 1
            group.protocol, group.leader = group.chosen_protocol(), group.chosen_leader()
            self.become(group, Event.JOINED)
            if group.leader:
                self.store(group, Kept.MEMBERS)
            else:
                self._assign_here(group)

    def _assign_here(self, group: ConsumerGroup) -> None:
        for member_id, assignment in assign_members(group, self._partitions_of).items():
            group.members[member_id].assignment = assignment
        group.assigned_counts = counts_of_topics(group, self._partitions_of)
        self.store(group, Kept.ASSIGNMENTS)

    def assign(self, group: ConsumerGroup, assignments: Iterable[tuple[str, bytes]]) -> None:
        """By the leader: for others than members ignored, for members that are missing empty."""
        given = dict(assignments)
        for member in group.members.values():
            member.assignment = given.get(member.member_id, b"")
        self.store(group, Kept.ASSIGNMENTS)

    # what became of it

    def stored(self, group: ConsumerGroup, ticket: Ticket, error: RaftlogError | None, now: float) -> None:
        kept = group.storing.pop(ticket, None)
        if kept is None:
            return  # of a group of the same name that was deleted meanwhile
        if kept is Kept.NOTHING:
            self._deletion_stored(group, error)
        elif error is not None:
            self._not_stored(group, kept, error, now)
        else:
            if kept is Kept.ASSIGNMENTS and group.state is ConsumerGroupState.COMPLETING:
                self.become(group, Event.ASSIGNED)
            if kept in (Kept.MEMBERS, Kept.ASSIGNMENTS) and group.state in (
                ConsumerGroupState.COMPLETING,
                ConsumerGroupState.STABLE,
            ):
                self.timers.set((PHASE, group.name, ""), now + group.rebalance_timeout_ms() / 1000)
            self.settle(group, now)

    def settle(self, group: ConsumerGroup, now: float) -> None:
        """Answer whoever needs not wait any more."""
        if group.state is ConsumerGroupState.PREPARING:
            self.maybe_complete(group, now)
        elif not group.storing:
            for member in group.members.values():
                if member.join is not None:
                    self.release(member, "join", group.joined(member))
                    member.is_told, member.has_joined, member.replaced = True, True, None
                    self.touch(group, member, now)
                if member.sync is not None and group.state is ConsumerGroupState.STABLE:
                    self.release(member, "sync", self.synced(group, member))
                    self.touch(group, member, now)

    def synced(self, group: ConsumerGroup, member: Member) -> SyncedGeneration:
        member.has_synced = True
        return SyncedGeneration(member.assignment, group.generation, group.protocol, group.protocol_type)

    def _not_stored(self, group: ConsumerGroup, kept: Kept, error: RaftlogError, now: float) -> None:
        """Nobody hears of that generation; its number is not used again here."""
        told = error if error.outcome == "failed" else NotLeader(f"the group {group.name} could not be stored: {error}")
        if group.state in (ConsumerGroupState.COMPLETING, ConsumerGroupState.STABLE) and kept is not Kept.EMPTY:
            for member in list(group.members.values()):
                self.release(member, "join", told)
                self.release(member, "sync", told)
                self.touch(group, member, now)
                if not member.is_told and member.instance_id is None:
                    self.drop(group, member, told)
            self.members_left(group, now)
        else:
            self.settle(group, now)

    def _deletion_stored(self, group: ConsumerGroup, error: RaftlogError | None) -> None:
        token, group.deletion = group.deletion, None
        if error is None:
            del self.groups[group.name]
        else:
            self.become(group, Event.KEPT)
            self.forget_unused(group)
        if token is not None:
            self.answer(token, Deleted() if error is None else error)

    # members that go

    def drop(self, group: ConsumerGroup, member: Member, why: RaftlogError) -> None:
        """It is no member any more; `members_left` has to follow."""
        group.remove(member)
        self._forget_id(group, member.member_id)
        for slot in ("join", "sync", "beat"):
            self.release(member, slot, why)

    def members_left(self, group: ConsumerGroup, now: float) -> None:
        """What follows for those who are still there."""
        if group.members:
            self.prepare(group, now)
        elif group.state is not ConsumerGroupState.EMPTY:
            self.empty(group)

    def empty(self, group: ConsumerGroup) -> None:
        """The last member is gone; the generation ends with it, and a group that never had one is nothing to keep."""
        self.timers.clear((PHASE, group.name, ""))
        self.become(group, Event.EMPTIED)
        group.leader, group.protocol, group.holds, group.assigned_counts = "", "", False, None
        if group.generation > 0:
            group.generation += 1
            self.store(group, Kept.EMPTY)
        self.forget_unused(group)

    def forget_unused(self, group: ConsumerGroup) -> None:
        """A group without generation, members and given ids is nothing."""
        if (
            group.state is ConsumerGroupState.EMPTY
            and group.generation == 0
            and not group.given_ids
            and not group.storing
        ):
            self.groups.pop(group.name, None)

    def replace(self, group: ConsumerGroup, member: Member, member_id: str) -> None:
        """Another process takes over a static member: the older one is fenced (KIP-345)."""
        self._forget_id(group, member.member_id)
        fenced = FencedInstance(f"another process joined the group {group.name} as {member.instance_id}")
        for slot in ("join", "sync", "beat"):
            self.release(member, slot, fenced)
        group.rename(member, member_id)

    def _forget_id(self, group: ConsumerGroup, member_id: str) -> None:
        self.timers.clear((SESSION, group.name, member_id))
        self.timers.clear((WAIT, group.name, member_id))

    def _syncs_over(self, group: ConsumerGroup, now: float) -> None:
        """Whoever joined and did not sync in time is gone, the leader too."""
        if group.storing:
            self.timers.set((PHASE, group.name, ""), now + group.rebalance_timeout_ms() / 1000)
            return
        late = [
            each for each in group.members.values() if each.has_joined and not each.has_synced and each.sync is None
        ]
        for member in late:
            self.drop(group, member, UnknownMember(f"{member.member_id} did not sync in time"))
        if late:
            self.members_left(group, now)

    def topics_changed(self, now: float) -> None:
        for group in list(self.groups.values()):
            if group.state in (ConsumerGroupState.COMPLETING, ConsumerGroupState.STABLE) and not group.leader:
                counts = counts_of_topics(group, self._partitions_of)
                if counts != group.assigned_counts:
                    self.prepare(group, now)
