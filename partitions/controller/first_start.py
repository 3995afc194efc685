"""First start of a process: it founds a cluster together with the other seeds, or joins an existing one.

    EMPTY ──record synced──▶ HOLDING ──all seeds hold it──▶ FOUNDED ──bootstrap applied──▶ MEMBER
      └──a member answered──▶ JOINING ──registered──▶ MEMBER

Every process probes all addresses in its list of seeds, its own too (recognized by the refusal of its own
handshake), and repeats that until it can proceed. When all are present, distinct, EMPTY or HOLDING the same record,
and were started with the same list, the one with the lowest node id makes the bootstrap record, syncs it, and sends
it to the others, which sync it.

Two clusters never come from one list of seeds:

    1. A process (node id with disk uuid) holds at most one record in its life: `BootstrapFile.store`, synced before it
       is announced. The record survives every crash. A wiped process is another one, with another disk uuid.
    2. It stores a record only if the record names it with its disk, has the same list of seeds, and was sent by the
       first seed in the record.
    3. A seed begins the controller's group of a record only after *all* seeds of the record have confirmed, at any
       time, that they hold it (its maker by sending it), or after another seed reported that the group was begun,
       which implies the same by induction.

So if two records were both begun, their seeds are disjoint: by 1, one process in both would hold two. Both name a
process for each address of the same list, so at every address the process was replaced in between; as long as one of
the first cluster's members is there, it answers MEMBER, and new processes join it. Only when every disk of the first
cluster was removed does its list found another one, and that has another cluster id.

A process continues after a crash at any point: before the record is synced nothing has happened; the maker sends its
record again; a HOLDING seed asks again which seeds hold it; the controller's group is made by `Node.create_group`,
which is repeated until it is complete, and the same first roll follows from the record everywhere. A seed that is wiped
while others hold a record that names its old disk blocks the founding for good, which is reported with what to do. (It
could not be distinguished from a seed that began the group and has votes in it.) A stale copy of a HOLDING disk is
refused by processes that remember its later boot epoch, and without one accepted handshake it never begins.

A process that joins keeps the record as well, which does not name it, so it never counts as EMPTY again. One that
lost its record and its controller replica makes none: it joins, or fetches the record of its own cluster that names
its disk. Called by the host, once; requests of others are answered for as long as the process runs."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

from raftlog.errors import FormatError, InvalidArgument, RaftlogError, Unavailable
from raftlog.partitions.addresses import normalize_addresses, parse_address
from raftlog.partitions.controller.bootstrap_record import (
    BootstrapFile,
    BootstrapMember,
    BootstrapRecord,
    to_plain_lists,
    unpack_members,
)
from raftlog.partitions.controller.damaged_copy import lost_data_error
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.partitions.node.opening import draw_uuid
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.errors import HandshakeRefused
from raftlog.runtime.rpc.handshake import Reason
from raftlog.types import FEATURE_LEVEL_KNOWN

_logger = logging.getLogger(__name__)
JOIN = "control.join"
BOOTSTRAP = "control.bootstrap"
REPEAT_MS: Final = 10_000
"""Interval after which a waiting process logs the same reason again."""


class Phase(Enum):
    """Progress of the start of a process; the texts are sent to other nodes."""

    EMPTY = "empty"
    HOLDING = "holding"
    FOUNDED = "founded"
    JOINING = "joining"
    MEMBER = "member"


_PHASES = frozenset(phase.value for phase in Phase)


class StartView(NamedTuple):
    """Progress of a process in founding or joining a cluster, as the process reports it to other seeds."""

    phase: Phase
    replica: ReplicaId
    address: str
    seeds: tuple[str, ...]
    record: BootstrapRecord | None
    members: tuple[BootstrapMember, ...]
    """Brokers known to a MEMBER."""
    cluster_id: str | None

    @property
    def is_member(self) -> bool:
        """Whether a new process can join through the reporting process."""
        return self.phase is Phase.MEMBER and self.record is not None

    def pack(self) -> list[Any]:
        """Return the fields as values that a frame can encode; the inverse of `unpack_view`."""
        record = None if self.record is None else self.record.pack()
        return [self.phase.value, self.address, list(self.seeds), record, to_plain_lists(self.members)]


class FirstStart:
    """First start of one process: founds a cluster with the other seeds, or finds one; `run` is called once."""

    def __init__(
        self,
        node: Node,
        settings: MetadataSettings,
        file: BootstrapFile,
        phase_and_members: Callable[[], tuple[Phase, list[BootstrapMember]]],
    ) -> None:
        self._node, self._settings, self._file = node, settings, file
        self._phase_and_members = phase_and_members
        """Source of the phase, from FOUNDED on, and the members; EMPTY for all earlier phases."""
        self._seeds = normalize_addresses(settings.seeds)
        self._address: str | None = None
        """RPC address of this process; None before `run`."""
        self._holders: dict[ReplicaId, None] = {}
        """Seeds that hold the same record as this process."""
        self._news = asyncio.Event()
        self._logged_at: dict[str, float] = {}
        """Texts logged less than `REPEAT_MS` ago, with the time."""
        self._errors: dict[str, str] = {}
        """Errors of the last probes, by address."""
        node.on_request(JOIN, self._serve_join, is_open=True)
        node.on_request(BOOTSTRAP, self._serve_bootstrap, is_open=True)

    async def run(self, address: str) -> StartView | None:
        """Wait until the controller's Raft group can begin here (None), or return the report of a member to join.

        Raises `InvalidArgument` when waiting could never succeed, and `IdentityRefused`."""
        self._address = address
        me = self._node.identity.replica
        if not self._addresses():
            self._found_alone()
            return None
        pause_s = self._settings.look_ms / 1000
        while True:
            self._news.clear()
            views = await self._probe_all()
            if self._file.record is not None and self._file.record.has_seed(me):
                if self._has_controller_begun(views) or await self._send_record(views):
                    return None
            else:
                members = {at: view for at, view in views.items() if view is not None and view.is_member}
                if len({view.cluster_id for view in members.values()}) > 1:
                    self._log_cluster_conflict(members)
                elif members:
                    at, view = next(iter(members.items()))
                    return replace_address(view, at)
                elif self._file.is_lost:
                    if self._fetch_lost_record(views):
                        continue
                elif self._can_create_record(views):
                    self._create_record(views)
                    continue
            await self._wait_for_news(pause_s)
            pause_s = min(1.5 * pause_s, self._settings.look_ms_max / 1000)

    def _found_alone(self) -> None:
        """Found a cluster of this broker alone, because no seeds were given."""
        record = self._file.record
        data_dir = self._node.settings.data_dir
        if self._file.is_lost:
            raise lost_data_error(data_dir, self._node.identity.cluster_id)
        if record is None:
            self._store_record(self._new_record([self._own_member()], ()))
            if self._address:
                self._log_info(
                    f"node {self._node.identity.node_id} was started without seeds, and founds cluster "
                    f"{self._node.identity.cluster_id} of itself alone. If it was to join another cluster: stop it, "
                    f"delete {self._node.settings.data_dir}, and start it with --seeds"
                )
        elif not record.has_seed(self._node.identity.replica):
            raise InvalidArgument(
                f"{data_dir} belongs to cluster {record.cluster_id} and has nothing of it that can "
                "be trusted: start it with the address of a member as seed. Where there is no other member, start a "
                "new cluster in an empty directory; nothing that is left in this one was deleted"
            )

    def _own_member(self) -> BootstrapMember:
        assert self._address is not None, "a seed before its start"
        return BootstrapMember(*self._node.identity.replica, self._address)

    def _new_record(self, seeds: list[BootstrapMember], addresses: tuple[str, ...]) -> BootstrapRecord:
        """Return a new record for these seeds, with the cluster id of this process, or a new one."""
        cluster_id = self._node.identity.cluster_id
        return BootstrapRecord(
            draw_uuid(self._node.environment.random) if cluster_id is None else UUID(cluster_id),
            tuple(sorted(seeds)),
            addresses,
            self._node.environment.wall_ms(),
            FEATURE_LEVEL_KNOWN,
        )

    def _store_record(self, record: BootstrapRecord) -> None:
        """Store the record durably, and adopt its cluster id."""
        self._file.store(record)
        self._node.join_cluster(str(record.cluster_id))
        _logger.info("node %s holds the bootstrap record of cluster %s", self._node.identity.node_id, record.cluster_id)

    def _fetch_lost_record(self, views: dict[str, StartView | None]) -> bool:
        """Store the lost record from a peer's view if it names this disk and cluster; return whether one was found."""
        me, cluster_id = self._node.identity.replica, self._node.identity.cluster_id
        for view in views.values():
            record = None if view is None else view.record
            if record is not None and record.has_seed(me) and cluster_id in (None, str(record.cluster_id)):
                self._store_record(record)
                return True
        waits = f"node {me.node_id} waits for a member of cluster {cluster_id or '(not known)'} at {', '.join(views)}"
        self._log_info(f"{waits}: its bootstrap record was lost, and a broker that holds data founds no cluster")
        return False

    def _addresses(self) -> tuple[str, ...]:
        """Return the addresses of the record or of the known members; without a record, the list of seeds."""
        record = self._file.record
        if record is None:
            return self._seeds
        if record.has_seed(self._node.identity.replica):
            return record.addresses
        members = [member.address for member in self._file.members if member.address]
        return tuple(sorted({*members, *record.addresses, *self._seeds}))

    async def _probe_all(self) -> dict[str, StartView | None]:
        """Return the report of the process at each address; None without a readable answer."""
        addresses = self._addresses()
        views = await asyncio.gather(*(self._probe(address) for address in addresses))
        found = dict(zip(addresses, views, strict=True))
        absent = [f"{address} ({self._errors[address]})" for address, view in found.items() if view is None]
        if absent:
            self._log_info(f"node {self._node.identity.node_id} waits for the seeds {', '.join(absent)}")
        return found

    async def _probe(self, address: str) -> StartView | None:
        """Return a seed's view of its start; None if it cannot be reached, with the reason in `_errors`."""
        deadline = deadline_in(self._settings.probe_ms)
        try:
            identity, answer = await self._node.probe(parse_address(address), JOIN, None, deadline)
            return unpack_view(ReplicaId(identity.node_id, identity.disk_uuid), identity.cluster_id, answer.value)
        except HandshakeRefused as refusal:
            if refusal.reason == Reason.SELF:
                return self._own_report()
            self._errors[address] = str(refusal)
        except (RaftlogError, OSError) as error:
            self._errors[address] = str(error) or type(error).__name__
        return None

    def _own_report(self) -> StartView:
        """Return the progress of this process."""
        phase, members = self._phase_and_members()
        identity, record = self._node.identity, self._file.record
        if phase is Phase.EMPTY and (record is not None or self._file.is_lost):
            is_seed = record is not None and record.has_seed(identity.replica)
            phase = Phase.HOLDING if is_seed else Phase.JOINING
        seeds = self._addresses() if phase is Phase.HOLDING else self._seeds
        at = self._address or ""
        return StartView(phase, identity.replica, at, seeds, record, tuple(members), identity.cluster_id)

    def _can_create_record(self, views: dict[str, StartView | None]) -> bool:
        """Return whether to create the bootstrap record: all seeds agree, none holds one, the node id is the lowest."""
        present = [view for view in views.values() if view is not None]
        me = self._node.identity.replica
        if not any(view.replica == me for view in present):
            if self._address not in views or views[self._address] is not None:  # else the probe has logged the reason
                self._log_info(
                    f"node {me.node_id} is none of the seeds {', '.join(views)}, and waits until they have founded a "
                    "cluster (or its address is missing in --seeds)"
                )
            return False
        for address, view in views.items():
            if view is not None and view.seeds != self._seeds and view.phase in (Phase.EMPTY, Phase.HOLDING):
                self._log_error(
                    f"the lists of seeds differ, so no cluster is founded: node {me.node_id} has "
                    f"[{', '.join(self._seeds)}] and node {view.replica.node_id} at {address} has "
                    f"[{', '.join(view.seeds)}]; start all seeds with the same list"
                )
                return False
        if len(present) < len(views):
            return False
        if len({view.replica.node_id for view in present}) < len({view.replica for view in present}):
            nodes = ", ".join(f"node {view.replica} at {address}" for address, view in views.items() if view)
            self._log_error(f"a node id is used twice among the seeds: {nodes}; give each its own")
            return False
        return self._is_record_creator(views, present)

    def _is_record_creator(self, views: dict[str, StartView | None], present: list[StartView]) -> bool:
        """Return whether all seeds are EMPTY, at most one cluster id was given, and this node id is the lowest."""
        me = self._node.identity.replica
        for view in present:
            if view.phase is Phase.HOLDING and view.record is not None and not view.record.has_seed(me):
                self._log_error(
                    f"node {view.replica.node_id} holds the record of cluster {view.record.cluster_id}, which was not "
                    f"founded and cannot be any more: it names another disk for node {me.node_id} or does not name it. "
                    "Empty the data directories of those seeds that hold it, which have no data, and start them again"
                )
                return False
            if view.phase is not Phase.EMPTY:
                self._log_info(f"node {view.replica.node_id} at {view.address or '?'} is {view.phase.value}")
                return False
        clusters = sorted({view.cluster_id for view in present if view.cluster_id is not None})
        if len(clusters) > 1:
            self._log_error(f"the seeds were given different cluster ids: {', '.join(clusters)}")
            return False
        return me == min(view.replica for view in present)

    def _create_record(self, views: dict[str, StartView | None]) -> None:
        present = {view.replica: view for view in views.values() if view is not None}
        given = next((view.cluster_id for view in present.values() if view.cluster_id is not None), None)
        if given is not None:
            self._node.join_cluster(given)
        members = [BootstrapMember(*view.replica, view.address) for view in present.values()]
        self._store_record(self._new_record(members, self._seeds))

    def _has_controller_begun(self, views: dict[str, StartView | None]) -> bool:
        """Return whether another seed reports that the controller's group of this record was begun."""
        record = self._file.record
        assert record is not None, "no record is held"
        return any(
            view is not None
            and view.phase in (Phase.FOUNDED, Phase.MEMBER)
            and view.cluster_id == str(record.cluster_id)
            for view in views.values()
        )

    async def _send_record(self, views: dict[str, StartView | None]) -> bool:
        """Send the record to the seeds without it if this process made it; return whether all seeds hold it."""
        record, me = self._file.record, self._node.identity.replica
        assert record is not None, "no record is held"
        self._holders[me] = self._holders[record.seeds[0].replica] = None  # its maker had synced it before it sent it
        for address, view in views.items():
            if view is None or view.replica in self._holders:
                continue
            if view.record == record and record.has_seed(view.replica):
                self._holders[view.replica] = None
            elif view.phase is Phase.EMPTY and record.has_seed(view.replica) and record.seeds[0].replica == me:
                await self._send_record_to(address, view, record)
            elif view.phase in (Phase.EMPTY, Phase.HOLDING) and not record.has_seed(view.replica):
                self._log_error(
                    f"node {view.replica} at {address} is not in the record of cluster {record.cluster_id}, which has "
                    f"{', '.join(str(seed.replica) for seed in record.seeds)} and was not founded yet: its disk was "
                    "replaced. Empty the data directories of all seeds, which have no data, and start them again"
                )
        return all(seed.replica in self._holders for seed in record.seeds)

    async def _send_record_to(self, address: str, view: StartView, record: BootstrapRecord) -> None:
        """Send the record to one seed; if the seed has stored it, add the seed to `_holders`."""
        deadline = deadline_in(self._settings.probe_ms)
        try:
            identity, _ = await self._node.probe(parse_address(address), BOOTSTRAP, record.pack(), deadline)
        except (RaftlogError, OSError) as error:
            self._log_info(f"node {view.replica.node_id} at {address} refused the bootstrap record: {error}")
            return
        if (identity.node_id, identity.disk_uuid) == view.replica:
            self._holders[view.replica] = None

    async def _wait_for_news(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _serve_join(self, request: Request) -> Answer:
        """Answer with the progress of this process. Raises `Unavailable` before `run`."""
        if self._address is None and self._phase_and_members()[0] is Phase.EMPTY:
            raise Unavailable(f"node {self._node.identity.node_id} is starting")
        return Answer(self._own_report().pack())

    async def _serve_bootstrap(self, request: Request) -> Answer:
        """Store the record sent by its first seed; it is durable before the answer."""
        try:
            record = BootstrapRecord.unpack(request.header)
        except FormatError as error:
            raise InvalidArgument(str(error)) from None
        why = self._refusal_reason(record, request)
        if why is not None:
            raise InvalidArgument(f"node {self._node.identity.node_id} refused the bootstrap record: {why}")
        if self._file.record is None:
            self._store_record(record)
            self._news.set()
        return Answer()

    def _refusal_reason(self, record: BootstrapRecord, request: Request) -> str | None:
        """Return the reason to refuse a record that another process sent; None to accept it."""
        identity = self._node.identity
        if self._address is None:
            return "it is starting"
        if self._file.record is not None:
            return None if self._file.record == record else f"it holds that of {self._file.record.cluster_id}"
        if self._phase_and_members()[0] is not Phase.EMPTY:
            return "it belongs to a cluster"
        if not record.has_seed(identity.replica):
            return "it is not in there with its disk"
        if request.node != record.seeds[0].node_id:
            return f"it comes from node {request.node} and not from the first seed"
        if record.addresses != self._seeds:
            return f"it was started with the seeds [{', '.join(self._seeds)}]"
        if identity.cluster_id not in (None, str(record.cluster_id)):
            return f"it was started for cluster {identity.cluster_id}"
        return None

    def _log_cluster_conflict(self, members: dict[str, StartView]) -> None:
        named = ", ".join(f"{at} to {view.cluster_id}" for at, view in sorted(members.items()))
        self._log_error(
            f"the seeds belong to different clusters: {named}. Name seeds of one cluster only. Where a broker founded "
            "its cluster by mistake: stop it, delete its data directory, and start it again with --seeds"
        )

    def _log_info(self, text: str) -> None:
        """Log a text at its first occurrence, and again every `REPEAT_MS` while the caller repeats it."""
        self._log_once(logging.INFO, text)

    def _log_error(self, text: str) -> None:
        self._log_once(logging.ERROR, text)

    def _log_once(self, level: int, text: str) -> None:
        """Log a text, unless it was logged less than `REPEAT_MS` ago."""
        now = self._node.loop.time()
        self._logged_at = {each: at for each, at in self._logged_at.items() if now - at < REPEAT_MS / 1000}
        if text not in self._logged_at:
            self._logged_at[text] = now
            _logger.log(level, "%s", text)


def replace_address(view: StartView, address: str) -> StartView:
    """Replace the member's own address by the one at which it answered, since its row may be of an earlier start."""
    others = tuple(member for member in view.members if member.replica != view.replica)
    return view._replace(members=(*others, BootstrapMember(*view.replica, address)))


def unpack_view(replica: ReplicaId, cluster_id: str | None, raw: Any) -> StartView:
    """Return the `StartView` that a replica sent, from the values of `StartView.pack`. Raises `FormatError`."""
    match raw:
        case [str(phase), str(address), [*seeds], record, [*members], *_] if phase in _PHASES and all(
            type(seed) is str for seed in seeds
        ):
            return StartView(
                Phase(phase),
                replica,
                address,
                tuple(seeds),
                None if record is None else BootstrapRecord.unpack(record),
                unpack_members(members),
                cluster_id,
            )
    raise FormatError(f"node {replica.node_id} sent a report on its start that cannot be read")
