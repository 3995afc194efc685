"""Group members over HTTP: join, share partitions, read, commit, stall past their session, leave.

A member sends the protocol's requests without a consumer, so that it can send them at wrong moments: it commits in an
old generation, or after a silence longer than its session. The history has the owners in each generation, and the
member of each commit."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from jepsen.checkers import GroupOffsets, Membership
from jepsen.checkers.history import COMMIT, COMMITTED, JOIN, Op
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.roles.reader import Reader
from raftlog.assignors import (
    ASSIGNORS,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from raftlog.client import BrokerClient, Joined
from raftlog.client import Membership as Identity
from raftlog.errors import FencedInstance, RaftlogError, RebalanceInProgress, StaleGeneration, UnknownMember
from raftlog.types import Offset, TopicPartition

GROUPS: Final = ("members-led", "members-assigned")
"""Consumer groups; the coordinator computes the assignment of the second one."""
SESSION_TIMEOUT_MS: Final = 2_000
REBALANCE_TIMEOUT_MS: Final = 6_000
ASKS_MS: Final = 2_000
STALLS: Final = 0.01
"""Chance, before each step of a member, that it is silent for up to twice its session."""
LEAVES: Final = 0.01
DEATHS: Final = 0.01
STATIC_SHARE: Final = 0.3
MOMENT_S: Final = 0.05


class Member:
    """Role of a group member, in one process of the history."""

    def __init__(
        self,
        addresses: Sequence[str],
        access: Access,
        history: HistoryWriter,
        process: int,
        topics: Mapping[str, int],
        random: Random,
    ) -> None:
        """Create a member of a random group, which may be static; `topics` has the number of partitions by topic."""
        self._access, self._history, self._process, self._random = access, history, process, random
        self._topics = dict(topics)
        self._group = random.choice(GROUPS)
        self._instance = f"static-{process}" if random.random() < STATIC_SHARE else None
        self._assignor = random.choice(sorted(ASSIGNORS))
        self._client = BrokerClient(random.sample(list(addresses), len(addresses)))
        self._identity = Identity("", -1, self._instance)
        self._owned: tuple[TopicPartition, ...] = ()
        self._reader: Reader | None = None
        self._join: Op | None = None

    async def run(self, until_s: float) -> None:
        """Do random steps until `until_s` (event-loop time), and then stop without leaving the group."""
        loop = asyncio.get_running_loop()
        try:
            while loop.time() < until_s:
                await self._step()
        finally:
            await self._client.close()

    async def _step(self) -> None:
        """Do one random step: stall, crash, leave, join, or act as a member. After an error, wait for a moment."""
        draw = self._random.random()
        if draw < STALLS:
            await asyncio.sleep(self._random.uniform(0.5, 2) * SESSION_TIMEOUT_MS / 1000)
        elif draw < STALLS + DEATHS:
            self._history.crash(self._process)
            self._join = None
            self._reset_identity()
        try:
            if draw > 1 - LEAVES and self._reader is not None:
                await self._leave()
            elif self._reader is None:
                await self._join_group()
            else:
                await self._act_as_member(self._reader)
        except RaftlogError as error:
            self._on_refusal(error)
            await asyncio.sleep(MOMENT_S)

    # joining

    async def _join_group(self) -> None:
        """Join the group and receive an assignment; compute the assignment as group leader."""
        if self._join is None:
            payload = Membership(self._group, self._identity.member_id)
            self._join = self._history.invoke(self._process, JOIN, payload)
        groups = self._client.groups
        subscription = Subscription(tuple(self._topics), owned=self._owned, generation=self._identity.generation)
        joined = await groups.join(
            self._group,
            {self._assignor: encode_subscription(subscription), "range": encode_subscription(subscription)},
            member_id=self._identity.member_id,
            instance_id=self._instance,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            assigned_by="leader" if self._group == GROUPS[0] else "broker",
            timeout_ms=ASKS_MS,
        )
        self._identity = Identity(joined.member_id, joined.generation, self._instance)
        synced = await groups.sync(self._group, self._identity, self._compute_assignments(joined), timeout_ms=ASKS_MS)
        self._owned = tuple(decode_assignment(synced.assignment).partitions)
        member = Membership(self._group, joined.member_id, synced.generation, self._owned, self._instance or "")
        self._history.ok(self._join, member)
        self._join = None
        await self._start_reader()

    def _compute_assignments(self, joined: Joined) -> dict[str, bytes]:
        """Return the assignments of all group members if this one is the group leader."""
        if joined.leader != joined.member_id:
            return {}
        members = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        found = ASSIGNORS[joined.protocol](members, self._topics)
        return {member: encode_assignment(partitions) for member, partitions in found.items()}

    async def _start_reader(self) -> None:
        """Create the reader, at the committed offsets."""
        committed = await self._committed()
        positions = {place: committed.get(place, Offset(0)) for place in self._owned}
        self._reader = Reader(self._access, self._history, self._process, positions, self._random)

    async def _committed(self) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets, and record the read. Raises `RaftlogError`."""
        invocation = self._history.invoke(self._process, COMMITTED, GroupOffsets(self._group))
        try:
            found = await self._client.groups.committed(self._group, timeout_ms=ASKS_MS)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
            raise
        offsets = {place: Offset(each.offset) for place, each in found.items()}
        self._history.ok(invocation, GroupOffsets(self._group, tuple(offsets.items())))
        return offsets

    # inside

    async def _act_as_member(self, reader: Reader) -> None:
        """Poll an owned partition, commit, or send a heartbeat, by random choice."""
        draw = self._random.random()
        if draw < 0.5 and self._owned:
            place = self._random.choice(self._owned)
            await reader.poll(self._access.draw_node(self._random), place, self._random.choice((0, 50)))
            await asyncio.sleep(MOMENT_S)
        elif draw < 0.7 and self._owned:
            await self._commit(reader)
        else:
            wait_ms = self._random.choice((0, 100, 300))
            await self._client.groups.heartbeat(self._group, self._identity, wait_ms=wait_ms)

    async def _commit(self, reader: Reader) -> None:
        """Commit the positions of some owned partitions, and record the outcome. Raises `RaftlogError`."""
        places = self._random.sample(self._owned, self._random.randint(1, len(self._owned)))
        offsets = {place: reader.positions[place] for place in places}
        rows = tuple((place, Offset(offset)) for place, offset in offsets.items())
        payload = GroupOffsets(self._group, rows, self._identity.member_id, self._identity.generation)
        invocation = self._history.invoke(self._process, COMMIT, payload)
        try:
            await self._client.groups.commit(self._group, offsets, self._identity, timeout_ms=ASKS_MS)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
            raise
        self._history.ok(invocation)

    async def _leave(self) -> None:
        """Forget the member's identity, and leave the group."""
        identity = self._identity
        self._reset_identity()
        await self._client.groups.leave(self._group, [(identity.member_id, identity.instance_id)])

    def _on_refusal(self, error: RaftlogError) -> None:
        """Handle a refusal: an unknown or fenced member begins anew, any other joins again."""
        if isinstance(error, UnknownMember | FencedInstance):
            self._reset_identity()
        elif isinstance(error, RebalanceInProgress):
            self._reader = None
        elif isinstance(error, StaleGeneration):
            self._identity = self._identity._replace(generation=-1)
            self._reader, self._owned = None, ()

    def _reset_identity(self) -> None:
        """Forget the member id, the generation and the owned partitions."""
        self._identity = Identity("", -1, self._instance)
        self._reader, self._owned = None, ()
