"""Join requests: admission and effect; KIP-394 (ids given by the coordinator), KIP-345 (static members).

    new                      adds a member, and begins a rebalance
    dynamic, known           in Stable a follower with an unchanged request is answered at once; else it rejoins
    static, another process  replaces the member; no rebalance in Stable while its subscription is the same

Called by the machine."""

from random import Random
from typing import Final
from uuid import UUID

from raftlog.assignors import ASSIGNORS, decode_subscription
from raftlog.errors import (
    FencedInstance,
    GroupFull,
    InconsistentProtocol,
    InvalidArgument,
    NotLeader,
    RaftlogError,
    UnknownMember,
)
from raftlog.partitions.groups.assignment import subscribes_alike
from raftlog.partitions.groups.consumer_group import ConsumerGroup, Member, StoreContent, metadata_bytes
from raftlog.partitions.groups.effects import Token
from raftlog.partitions.groups.rebalance import GIVEN, GroupRebalance
from raftlog.partitions.groups.results import Join, MemberIdGiven
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.partitions.groups.states import ConsumerGroupState

TEXT_MAX: Final = 255
PROTOCOLS_MAX: Final = 32
_UUID_BITS: Final = 128


class GroupJoins:
    """Handler of the join requests of one machine."""

    def __init__(self, rebalance: GroupRebalance, random: Random) -> None:
        self._rebalance, self._random = rebalance, random
        self._settings = rebalance.settings

    def join(self, token: Token, join: Join, now: float) -> None:
        """Process a join request: answer it at once, or keep it until the join phase ends."""
        try:
            _check(join, self._settings)
            group = self._rebalance.groups.get(join.group)
            if group is not None and group.state is ConsumerGroupState.DEAD:
                raise NotLeader(f"the group {join.group} is being deleted; retry")
            if join.member_id:
                self._join_known(token, join, group, now)
            else:
                self._join_new(token, join, group, now)
        except RaftlogError as error:
            self._rebalance.answer(token, error)

    def _join_new(self, token: Token, join: Join, group: ConsumerGroup | None, now: float) -> None:
        """Admit a member without an id: a new one, or a new process of a static member."""
        known = group.instances.get(join.instance_id) if group is not None and join.instance_id is not None else None
        member = group.members[known] if group is not None and known is not None else None
        self._check_admission(join, group, member)
        group = group or self._new_group(join)
        member_id = f"{join.instance_id or join.client_id or 'member'}-{self._uuid()}"
        if member is not None:
            self._replace_static_process(token, join, group, member, member_id, now)
        elif join.requires_known_id and join.instance_id is None:
            group.pending_ids.add(member_id)
            given = (GIVEN, group.name, member_id)
            self._rebalance.timers.set(given, now + join.session_timeout_ms / 1000)
            self._rebalance.answer(token, MemberIdGiven(member_id))
        else:
            self._add_member(token, join, group, member_id, now)

    def _join_known(self, token: Token, join: Join, group: ConsumerGroup | None, now: float) -> None:
        """Admit a member with an id: a first join with a given id, or a rejoin."""
        if group is not None and join.member_id in group.pending_ids:
            self._check_admission(join, group, None)
            group.pending_ids.remove(join.member_id)
            self._rebalance.timers.clear((GIVEN, group.name, join.member_id))
            self._add_member(token, join, group, join.member_id, now, has_id=True)
            return
        if group is None:
            raise UnknownMember(f"the group {join.group} has no members; join without a member id")
        member = member_of(group, join.member_id, join.instance_id)
        self._check_admission(join, group, member)
        is_same = member.protocols == join.protocols and member.can_lead == join.can_lead
        member.update_from(join)
        member.has_id = True
        self._rebalance.hold_request(group, member, "join", token)
        member.has_joined = True
        leads_again = group.state is ConsumerGroupState.STABLE and member.member_id == group.leader
        if is_same and not leads_again:
            self._rebalance.answer_ready(group, now)
        else:
            self._rebalance.begin_rebalance(group, now)

    def _add_member(
        self, token: Token, join: Join, group: ConsumerGroup, member_id: str, now: float, *, has_id: bool = False
    ) -> None:
        """Add a new member to the group, keep its request, and begin a rebalance."""
        member = Member(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
            join.can_lead,
            join.protocols,
            has_id=has_id,
            can_skip_assignment=join.can_skip_assignment,
        )
        if not group.members:
            group.protocol_type = join.protocol_type
        group.add(member)
        group.grew = True
        self._rebalance.hold_request(group, member, "join", token)
        member.has_joined = True
        self._rebalance.begin_rebalance(group, now)

    def _replace_static_process(
        self, token: Token, join: Join, group: ConsumerGroup, member: Member, member_id: str, now: float
    ) -> None:
        """Give a static member to a new process; rebalance only if its subscription changed (KIP-345)."""
        before = {each.name: each.metadata for each in member.protocols}
        self._rebalance.replace_process(group, member, member_id)
        could_lead = member.can_lead
        member.update_from(join)
        self._rebalance.hold_request(group, member, "join", token)
        member.has_joined = True
        is_same = (
            could_lead == join.can_lead
            and before.keys() == {each.name for each in join.protocols}
            and all(subscribes_alike(before[each.name], each.metadata) for each in join.protocols)
        )
        if group.state is ConsumerGroupState.STABLE and is_same and group.chosen_protocol() == group.protocol:
            self._rebalance.store(group, StoreContent.STATIC_MEMBER)
        else:
            self._rebalance.begin_rebalance(group, now)

    def _check_admission(self, join: Join, group: ConsumerGroup | None, member: Member | None) -> None:
        """Raise `InconsistentProtocol` or `GroupFull` unless the member may join."""
        if group is None:
            if len(self._rebalance.groups) >= self._settings.max_groups:
                raise GroupFull(
                    f"the coordinator of {join.group} has {self._settings.max_groups} groups, its limit; "
                    "delete unused groups"
                )
            return
        if any(True for _ in group.others(member)) and (
            group.protocol_type != join.protocol_type or not group.has_common_protocol(join.protocols, member)
        ):
            raise InconsistentProtocol(
                f"the members of {group.name} share {group.protocol_type} protocols; this member supports none of them"
            )
        is_new = member is None and join.member_id not in group.pending_ids
        if is_new and len(group.members) + len(group.pending_ids) >= self._settings.max_members:
            raise GroupFull(f"the group {group.name} has {self._settings.max_members} members, its limit")
        if group.metadata_bytes(member) + metadata_bytes(join.protocols) > self._settings.max_metadata_bytes:
            raise GroupFull(
                f"the subscriptions of {group.name} would take more than {self._settings.max_metadata_bytes} bytes"
            )

    def _new_group(self, join: Join) -> ConsumerGroup:
        """Create the group that a join names."""
        group = self._rebalance.groups[join.group] = ConsumerGroup(join.group)
        return group

    def _uuid(self) -> UUID:
        """Return a random UUID of the machine's random generator."""
        return UUID(int=self._random.getrandbits(_UUID_BITS), version=4)


def member_of(group: ConsumerGroup | None, member_id: str, instance_id: str | None) -> Member:
    """Return the group member with this id.

    Raises `UnknownMember`, and `FencedInstance` when another process is that static member now."""
    if group is not None and instance_id is not None:
        holder = group.instances.get(instance_id)
        if holder is not None and holder != member_id:
            raise FencedInstance(f"another process joined the group {group.name} as {instance_id}: stop this one")
        if holder is None:
            raise UnknownMember(f"the group {group.name} has no static member {instance_id}")
    if group is None or member_id not in group.members:
        raise UnknownMember(
            f"{member_id or 'an empty id'} is not a member of the group (any more): join without a member id"
        )
    return group.members[member_id]


def _check(join: Join, settings: GroupSettings) -> None:
    """Raise `InvalidArgument` for timeouts, protocols, metadata or names beyond the limits."""
    if not settings.min_session_timeout_ms <= join.session_timeout_ms <= settings.max_session_timeout_ms:
        raise InvalidArgument(
            f"a session timeout of {join.session_timeout_ms} ms; it can be {settings.min_session_timeout_ms} to "
            f"{settings.max_session_timeout_ms}"
        )
    if not 1 <= join.rebalance_timeout_ms <= settings.max_rebalance_timeout_ms:
        raise InvalidArgument(
            f"a rebalance timeout of {join.rebalance_timeout_ms} ms; it can be 1 to {settings.max_rebalance_timeout_ms}"
        )
    names = [each.name for each in join.protocols]
    if not 1 <= len(names) <= PROTOCOLS_MAX or len(set(names)) != len(names):
        raise InvalidArgument(f"a join request has {len(names)} protocols; it can have 1 to {PROTOCOLS_MAX}, each once")
    if metadata_bytes(join.protocols) > settings.max_metadata_bytes:
        raise InvalidArgument(f"a subscription has at most {settings.max_metadata_bytes} bytes")
    texts = [join.group, join.protocol_type, *names]
    if not all(texts) or any(
        len(text) > TEXT_MAX for text in (*texts, join.client_id, join.client_host, join.instance_id or "")
    ):
        raise InvalidArgument(
            f"group, protocol type and protocols have 1 to {TEXT_MAX} characters, as have client and instance ids"
        )
    if join.instance_id == "":
        raise InvalidArgument(f"the instance id is empty; it can have 1 to {TEXT_MAX} characters")
    if not join.can_lead:
        _check_coordinator_can_assign(join)


def _check_coordinator_can_assign(join: Join) -> None:
    """Raise `InvalidArgument` unless the coordinator can decode the subscriptions and has the assignors."""
    for protocol in join.protocols:
        if protocol.name not in ASSIGNORS:
            raise InvalidArgument(f"the coordinator assigns by {', '.join(ASSIGNORS)}, not by {protocol.name}")
        decode_subscription(protocol.metadata)
