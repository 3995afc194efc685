"""Groups of one coordinator partition as a machine without I/O, by Kafka's classic protocol.

Inputs are requests, the time and the outcomes of stored records; outputs are answers and records to store, which the
caller takes with `take_effects` after *every* call, in the same turn of its loop: the order of the effects, and of
the commits that `check_commit` allows between them, is the order of the log. `now` is a monotonic clock in seconds.

A generation is stored before it is announced (Store when the join phase ends; joins are answered once it is
committed), and its assignments are stored before they are announced. So a number is never given to two generations
of a group, and a later coordinator that loads the group continues at its members' generation. Called by the
coordinator only."""

from collections.abc import Callable, Sequence
from random import Random

from raftlog.errors import (
    FencedInstance,
    GroupNotEmpty,
    InconsistentProtocol,
    NotLeader,
    RaftlogError,
    RebalanceInProgress,
    RecordTooLarge,
    StaleGeneration,
    UnknownMember,
)
from raftlog.partitions.groups.assignment import assigned_counts
from raftlog.partitions.groups.consumer_group import ConsumerGroup, Member, StoreContent
from raftlog.partitions.groups.effects import Alive, Effect, Ticket, Token
from raftlog.partitions.groups.joins import GroupJoins, member_of
from raftlog.partitions.groups.rebalance import GIVEN, PHASE, SESSION, WAIT, GroupRebalance, TimerKey
from raftlog.partitions.groups.records import GroupRecord
from raftlog.partitions.groups.results import GroupHeartbeat, Join, Leave, LeftMember, MemberToLeave, Sync
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.partitions.groups.states import ConsumerGroupState, Event


class Machine:
    """State machine of the consumer groups of one partition, without I/O.

    `partitions_of` returns a topic's partition count, None when it does not exist. `wall_ms`: the wall clock, for
    records only."""

    def __init__(
        self,
        settings: GroupSettings,
        random: Random,
        partitions_of: Callable[[str], int | None],
        wall_ms: Callable[[], int],
    ) -> None:
        """Create a machine without groups.

        `partitions_of` returns a topic's number of partitions, None if it does not exist."""
        self._settings = settings
        self._rebalance = GroupRebalance(settings, partitions_of, wall_ms)
        self._joins = GroupJoins(self._rebalance, random)
        self._groups = self._rebalance.groups
        self._timers = self._rebalance.timers

    # state of the log

    def load(self, name: str, record: GroupRecord, now: float) -> None:
        """Load a group from its stored record; the session timeouts of its members begin now.

        Call `topics_changed` once all groups are loaded."""
        group = self._groups[name] = ConsumerGroup.from_record(name, record)
        for member in group.members.values():
            self._rebalance.restart_session(group, member, now)
        if group.state is ConsumerGroupState.COMPLETING:
            self._timers.set((PHASE, name, ""), now + group.rebalance_timeout_ms() / 1000)
        elif group.state is ConsumerGroupState.STABLE and not group.leader:
            group.assigned_counts = assigned_counts(group)

    def stop(self, error: RaftlogError) -> None:
        """Answer all waiting requests with `error`; call `take_effects` once more, and then drop the machine."""
        for token in list(self._rebalance.waiting):
            self._rebalance.answer(token, error)
        self._groups.clear()

    def on_stored(self, group: str, ticket: Ticket, error: RaftlogError | None, now: float) -> None:
        """Process the outcome of a Store; `error` None: it is committed.

        After an error its generation is never announced; the members receive `NotLeader`, so that they look for the
        coordinator again, or the error itself if its outcome is `failed`."""
        if group in self._groups:
            self._rebalance.on_stored(self._groups[group], ticket, error, now)

    # requests of members; every answer is an effect, errors too

    def join(self, token: Token, join: Join, now: float) -> None:
        """Join a group; the request waits for the end of the join phase unless nothing has to change.

        Answer: `Joined` once the generation is stored, or `MemberIdGiven`; or InvalidArgument, UnknownMember,
        FencedInstance, InconsistentProtocol, GroupFull, NotLeader."""
        self._joins.join(token, join, now)

    def sync(self, token: Token, sync: Sync, now: float) -> None:
        """Wait for the assignments of a generation; the request of the group leader contains them.

        Answer: `Synced` when they are stored; or UnknownMember, FencedInstance, StaleGeneration,
        RebalanceInProgress, InconsistentProtocol, RecordTooLarge, NotLeader."""
        try:
            group, member = self._current_member(sync.group, sync.member_id, sync.instance_id, sync.generation)
            if sync.protocol_type not in (None, group.protocol_type) or sync.protocol not in (None, group.protocol):
                raise InconsistentProtocol(f"the group {group.name} has the protocol {group.protocol}")
            if group.state is ConsumerGroupState.PREPARING or (
                group.state is ConsumerGroupState.COMPLETING and StoreContent.MEMBERS in group.storing.values()
            ):
                raise RebalanceInProgress(f"the group {group.name} rebalances: join again")
            if sum(len(assignment) for _, assignment in sync.assignments) > self._settings.max_metadata_bytes:
                raise RecordTooLarge(
                    f"the assignments of {group.name} exceed {self._settings.max_metadata_bytes} bytes"
                )
        except RaftlogError as error:
            self._rebalance.answer(token, error)
            return
        self._rebalance.hold_request(group, member, "sync", token)
        member.has_id = True
        if group.state is ConsumerGroupState.COMPLETING and member.member_id == group.leader and not group.storing:
            self._rebalance.assign(group, sync.assignments)
        self._rebalance.answer_ready(group, now)

    def heartbeat(self, token: Token, heartbeat: GroupHeartbeat, now: float) -> None:
        """Restart a member's session, and answer `Alive`.

        With a `wait_ms` the answer waits for that time or the next rebalance. Other answers: UnknownMember,
        FencedInstance, StaleGeneration, RebalanceInProgress (rejoin)."""
        try:
            group, member = self._current_member(
                heartbeat.group, heartbeat.member_id, heartbeat.instance_id, heartbeat.generation
            )
        except RaftlogError as error:
            self._rebalance.answer(token, error)
            return
        self._rebalance.restart_session(group, member, now)
        if group.state is ConsumerGroupState.PREPARING:
            begins = RebalanceInProgress(f"the group {group.name} rebalances: join again")
            self._rebalance.answer(token, begins)
        elif heartbeat.wait_ms <= 0:
            self._rebalance.answer(token, Alive())
        else:
            self._rebalance.hold_request(group, member, "beat", token)
            wait_ms = min(heartbeat.wait_ms, member.session_timeout_ms // 2)
            self._timers.set((WAIT, group.name, member.member_id), now + wait_ms / 1000)

    def leave(self, token: Token, leave: Leave, now: float) -> None:
        """Remove members at once; the answer contains a `LeftMember` for each, in order."""
        group = self._groups.get(leave.group)
        left = tuple(LeftMember(*each, self._leave(group, each)) for each in leave.members)
        if group is not None:
            if any(each.error is None for each in left) and group.state not in (
                ConsumerGroupState.EMPTY,
                ConsumerGroupState.DEAD,
            ):
                self._rebalance.on_members_left(group, now)
            self._rebalance.forget_unused(group)
        self._rebalance.answer(token, left)

    def _leave(self, group: ConsumerGroup | None, leaving: MemberToLeave) -> RaftlogError | None:
        """Remove a member from its group; return None, or the error if it is unknown or fenced."""
        try:
            if group is not None and leaving.member_id in group.pending_ids:
                self._forget_assigned_id(group, leaving.member_id)
                return None
            member_id = leaving.member_id
            if not member_id and group is not None and leaving.instance_id is not None:
                member_id = group.instances.get(leaving.instance_id, "")
            member = member_of(group, member_id, leaving.instance_id)
        except (UnknownMember, FencedInstance) as error:
            return error
        assert group is not None, "it has a member"
        self._rebalance.remove_member(group, member, UnknownMember(f"{member.member_id} left the group {group.name}"))
        return None

    def delete(self, token: Token, group: str, now: float) -> None:
        """Delete a group; the answer is `Deleted` once that is stored, or GroupNotEmpty, NotLeader.

        A group that is unknown here may have offsets: the caller checks whether it exists."""
        found = self._groups.get(group) or self._groups.setdefault(group, ConsumerGroup(group))
        if found.state is ConsumerGroupState.DEAD:
            self._rebalance.answer(token, NotLeader(f"the group {group} is being deleted"))
        elif found.state is not ConsumerGroupState.EMPTY or found.pending_ids:
            self._rebalance.answer(token, GroupNotEmpty(f"the group {group} has {len(found.members)} members"))
        else:
            self._rebalance.apply_event(found, Event.DELETED)
            found.deletion = token
            self._rebalance.waiting[token] = (found, None, "deletion")
            self._rebalance.store(found, StoreContent.NOTHING)

    def cancel(self, token: Token, now: float) -> None:
        """Cancel a waiting request (deadline, lost connection); later effects never have its token.

        A member that sent its id has joined nevertheless, and receives its generation with its next request;
        one without an id is removed, because its next request would join as another member."""
        found = self._rebalance.waiting.pop(token, None)
        if found is None:
            return
        group, member, slot = found
        setattr(member or group, slot, None)
        if member is None:
            return
        self._rebalance.restart_session(group, member, now)
        if slot == "join" and not member.has_id and member.instance_id is None:
            self._rebalance.remove_member(group, member, UnknownMember("the join request was cancelled"))
            self._rebalance.on_members_left(group, now)

    def check_commit(
        self,
        group: str,
        member_id: str,
        generation: int,
        instance_id: str | None,
        now: float,
        *,
        is_transactional: bool = False,
    ) -> None:
        """Raise unless the member may commit: UnknownMember, FencedInstance, StaleGeneration, RebalanceInProgress.

        RebalanceInProgress: it has to sync first. A generation below 0 is a commit without a member, which only a group
        without members allows (UnknownMember), whatever ids it names: a Kafka consumer that assigns itself partitions
        names its instance id. A member's permitted commit counts as a heartbeat.

        `is_transactional`: like Kafka, accept two more kinds of commits, because older clients send them: commits
        without a member although the group has members, and commits before the sync."""
        found = self._groups.get(group)
        if found is not None and found.state is ConsumerGroupState.DEAD:
            raise NotLeader(f"the group {group} is being deleted")
        if generation < 0:
            if found is None or found.state is ConsumerGroupState.EMPTY:
                return
            if not member_id and instance_id is None:
                if is_transactional:
                    return
                raise UnknownMember(f"the group {group} has members: only they can commit")
        found, member = self._current_member(group, member_id, instance_id, generation)
        if found.state is ConsumerGroupState.COMPLETING and not is_transactional:
            raise RebalanceInProgress(f"the group {group} has a new generation: sync first")
        self._rebalance.restart_session(found, member, now)

    def _current_member(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerGroup, Member]:
        """Return the group and its member, in the present generation.

        Raises UnknownMember, FencedInstance and StaleGeneration."""
        group = self._groups.get(name)
        member = member_of(group, member_id, instance_id)
        assert group is not None, "it has a member"
        if generation != group.generation:
            raise StaleGeneration(
                f"{member_id} has generation {generation} of {name}, which is at {group.generation}: join again"
            )
        return group, member

    # timers and topics

    def next_timer(self) -> float | None:
        """Return the time of the next `tick`; None when no timer is set."""
        return self._timers.next_time()

    def tick(self, now: float) -> None:
        """Process all due timers."""
        for key in self._timers.take_due(now):
            self._on_timer(key, now)

    def _on_timer(self, key: TimerKey, now: float) -> None:
        """Process an expired timer: of a phase, an assigned id that did not join, a waiting heartbeat, or a session."""
        kind, name, member_id = key
        group = self._groups.get(name)
        if group is None:
            return
        if kind == PHASE:
            self._rebalance.on_phase_end(group, now)
        elif kind == GIVEN:
            self._forget_assigned_id(group, member_id)
            self._rebalance.complete_if_joined(group, now)
            self._rebalance.forget_unused(group)
        elif kind == WAIT:
            self._rebalance.release(group.members[member_id], "beat", Alive())
        else:
            assert kind == SESSION, f"a timer {key}"
            member = group.members[member_id]
            self._rebalance.remove_member(
                group, member, UnknownMember(f"the session of {member_id} expired: join again")
            )
            self._rebalance.on_members_left(group, now)

    def _forget_assigned_id(self, group: ConsumerGroup, member_id: str) -> None:
        """Delete an id that was given to a member that has not joined, and its timer."""
        group.pending_ids.discard(member_id)
        self._timers.clear((GIVEN, group.name, member_id))

    def topics_changed(self, now: float) -> None:
        """Rebalance groups assigned by the coordinator whose topics or partition counts changed."""
        self._rebalance.topics_changed(now)

    def take_effects(self) -> Sequence[Effect]:
        """Return the effects (answers, records to store) for the caller to execute now, in this order."""
        effects, self._rebalance.effects = self._rebalance.effects, []
        return effects

    # reads

    def group(self, name: str) -> ConsumerGroup | None:
        """Return the group; None if it never had members, or its record was deleted."""
        return self._groups.get(name)

    def names(self) -> list[str]:
        """Return the names of all groups, sorted."""
        return sorted(self._groups)

    def has_members(self, group: str) -> bool:
        """Return whether the group has members."""
        found = self._groups.get(group)
        return found is not None and bool(found.members)
