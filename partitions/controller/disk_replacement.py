"""Replacement of the disk of a node id by a new one, for example by a wiped disk or one after damage.

    the process with the new disk                 any member                      the controller's leader
    probe: control.replace(RegisterBroker)  ──▶   is the old disk heard here?
                                                  control.replace            ──▶  is it heard here, or was it lately?
                                            ◀───────────────────────────────────  proposes the registration, answers

The state machine decides, by compare and set on the old disk (`RegisterBroker.replaces`); the required silence only
guards against a second process that was given a node id by mistake. Until the registration is applied, members
accept probes of the new disk and nothing else (`rpc.handshake`): no Raft message, no heartbeat.

    a disk is replaced only when the leader has not heard it for `replace_silence_ms`, while it was asked all the time;
    after a disk was refused as an old copy, `refused_silence_ms`: the right one may only be restarting

(A leader whose process was stopped heard no broker meanwhile: that does not count as silence.)

A process that finds the old disk alive all the time for `replace_timeout_ms` has a node id that is in use, and
ends. Called by the host, before it joins the controller's group."""

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from raftlog.errors import FormatError, IdentityRefused, InvalidArgument, NoLeader, RaftlogError
from raftlog.partitions.addresses import parse_address
from raftlog.partitions.controller.local_copy import LocalCopy
from raftlog.partitions.controller.machine import ControllerState, RegisterBroker
from raftlog.partitions.controller.proposals import CommandProposals
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)
REPLACE = "control.replace"
_ASKED_MAX: Final = 64
_ASKED_PAUSE_S: Final = 2.0


class _Verdict(Enum):
    """Decision of a member on a replacement; the texts are sent to other nodes."""

    DONE = "done"
    ALIVE = "alive"
    LATER = "later"


class _DiskReport(NamedTuple):
    """Decision of a member, with its reason."""

    verdict: _Verdict
    why: str


class _RequestTimes(NamedTuple):
    """Times of the first and the last request of a disk."""

    since: float
    at: float


class DiskReplacement:
    """Replacement of a lost disk by a new one under the same node id: requests, and the answers to them."""

    def __init__(self, node: Node, copy: LocalCopy, proposals: CommandProposals, settings: MetadataSettings) -> None:
        """Begin to answer new disks that ask for the node id of an old one."""
        self._node, self._copy, self._proposals, self._settings = node, copy, proposals, settings
        self._logged: str | None = None
        self._request_times: dict[ReplicaId, _RequestTimes] = {}
        """Disks that asked this leader for a node id; at most `_ASKED_MAX`."""
        node.on_request(REPLACE, self._serve, is_open=True)

    # the process with the new disk

    async def ask(self, command: RegisterBroker, silence_ms: int, addresses: Sequence[str]) -> None:
        """Ask the members at all addresses, repeatedly, until the cluster has replaced the old disk by this one.

        The old disk has to be silent for `silence_ms`. Raises `IdentityRefused` when it is in use or the node id went
        to a third disk, and `InvalidArgument`."""
        loop = self._node.loop
        alive_since: float | None = None
        while True:
            report = await self._request_at_all([silence_ms, command.pack()], addresses)
            if report.verdict is _Verdict.DONE:
                _logger.info("node %s: the disk %s has replaced %s", *_disks_of(command))
                return
            self._log_reason(f"node {command.node_id} waits to replace the disk {command.replaces}: {report.why}")
            if report.verdict is not _Verdict.ALIVE:
                alive_since = None
            elif alive_since is None:
                alive_since = loop.time()
            elif loop.time() - alive_since >= self._settings.replace_timeout_ms / 1000:
                raise IdentityRefused(
                    f"{report.why}: node id {command.node_id} is used twice, by a process on that disk and by this one "
                    f"on {command.disk_uuid}; give one of them another node id and an empty data directory"
                )
            await self._node.pause(deadline_in(self._settings.look_ms_max))

    async def _request_at_all(self, header: list[Any], addresses: Sequence[str]) -> _DiskReport:
        """Ask the members at all addresses; return the first decision that is not LATER, else LATER with a reason."""
        report = _DiskReport(_Verdict.LATER, "no member of the cluster answers")
        for address in addresses:
            deadline = deadline_in(2 * self._settings.attempt_ms)
            try:
                _, answer = await self._node.probe(parse_address(address), REPLACE, header, deadline)
                report = _parse_report(answer)
            except (IdentityRefused, InvalidArgument):
                raise
            except (RaftlogError, OSError) as error:
                _logger.debug("%s refused the disk: %s", address, error)
                if isinstance(error, NoLeader):
                    report = _DiskReport(_Verdict.LATER, str(error))
                continue
            if report.verdict is not _Verdict.LATER:
                break
        return report

    def _log_reason(self, text: str) -> None:
        """Log the reason why the replacement waits, unless it was logged last."""
        if text != self._logged:
            self._logged = text
            _logger.warning("%s", text)

    # a member

    async def _serve(self, request: Request) -> Answer:
        """Submit the replacement if the old disk was silent long enough; forward it to the controller's leader."""
        silence_ms, command = _parse_request(request)
        refusal = _to_answer(self._refusal_if_alive(command))
        if refusal is not None:
            return refusal
        group = self._copy.group
        leadership = None if group is None else self._node.leader_of(group.group_id)
        if leadership is None or leadership.leader is None or not (leadership.is_ready or not leadership.is_here):
            raise NoLeader(f"node {self._node.identity.node_id} knows no leader of the controller; retry")
        if not leadership.is_here:
            if request.stranger is None:
                raise NoLeader(f"node {self._node.identity.node_id} does not lead the controller any more")
            return await self._node.ask(leadership.leader.node_id, REPLACE, request.header, (), request.deadline)
        refusal = _to_answer(
            self._refusal_if_too_early(command, max(silence_ms, self._settings.replace_silence_ms) / 1000)
        )
        if refusal is not None:
            return refusal
        await self._proposals.submit(command, request.deadline)
        return Answer([_Verdict.DONE.value, ""])

    def _is_done(self, command: RegisterBroker) -> bool:
        """Return whether the cluster has registered the new disk."""
        return self._state.disk_of(NodeId(command.node_id)) == command.disk_uuid

    @property
    def _state(self) -> ControllerState:
        return self._copy.state

    def _refusal_if_alive(self, command: RegisterBroker) -> _DiskReport | None:
        """Return the refusal if the old disk is in use by this process or by a connected one; else None."""
        node_id = NodeId(command.node_id)
        if self._is_done(command):
            return None
        if node_id == self._node.identity.node_id:
            return _DiskReport(
                _Verdict.ALIVE, f"this process itself is node {node_id} with the disk {command.replaces}"
            )
        if not self._node.is_alive(node_id):
            return None
        return _DiskReport(
            _Verdict.ALIVE,
            f"node {self._node.identity.node_id} is connected to a process that is node {node_id} with its disk "
            f"{self._state.disk_of(node_id)}",
        )

    def _refusal_if_too_early(self, command: RegisterBroker, silence_s: float) -> _DiskReport | None:
        """Return the leader's refusal while the old disk has not been silent for long enough; else None."""
        if self._is_done(command):
            return None
        now = self._node.loop.time()
        asked_since = self._find_first_request(ReplicaId(NodeId(command.node_id), command.disk_uuid), now)
        heard_at = self._node.heard_at(NodeId(command.node_id))
        quiet_since = asked_since if heard_at is None else max(heard_at, asked_since)
        if now - quiet_since >= silence_s:
            return None
        return _DiskReport(
            _Verdict.LATER, f"the old disk may have been heard recently; it has to be silent for {silence_s:g} s"
        )

    def _find_first_request(self, stranger: ReplicaId, now: float) -> float:
        """Return the loop time since which this disk has sent requests, with gaps of at most `_ASKED_PAUSE_S`."""
        asked = self._request_times.pop(stranger, None)
        since = now if asked is None or now - asked.at > _ASKED_PAUSE_S else asked.since
        self._request_times[stranger] = _RequestTimes(since, now)
        while len(self._request_times) > _ASKED_MAX:
            del self._request_times[next(iter(self._request_times))]
        return since


def removed_error(node_id: NodeId) -> IdentityRefused:
    """Return the error of a process whose broker was decommissioned."""
    return IdentityRefused(
        f"node {node_id} was removed from the cluster, and what this data directory holds is not needed any more; to "
        "add this machine again, start it with an empty data directory"
    )


def _parse_request(request: Request) -> tuple[int, RegisterBroker]:
    """Return the silence in ms and the command of a request. Raises `InvalidArgument`."""
    match request.header:
        case [int(silence_ms), list(fields)]:
            pass
        case _:
            raise InvalidArgument("a request to replace a disk cannot be read")
    try:
        command = RegisterBroker.unpack(fields)
    except FormatError as error:
        raise InvalidArgument(str(error)) from None
    stranger = request.stranger
    if command.replaces is None:
        raise InvalidArgument("the disk that is to be replaced is not named")
    if stranger is not None and (stranger.node_id, stranger.disk_uuid) != (command.node_id, command.disk_uuid):
        raise InvalidArgument(f"node {stranger.node_id} asks to replace the disk of node {command.node_id}")
    return silence_ms, command


def _disks_of(command: RegisterBroker) -> tuple[Any, ...]:
    """Return node id, new disk and old disk, for log messages."""
    return command.node_id, command.disk_uuid, command.replaces


def _to_answer(report: _DiskReport | None) -> Answer | None:
    """Return a report as the answer to a member; None if there is no report."""
    return None if report is None else Answer([report.verdict.value, report.why])


def _parse_report(answer: Answer) -> _DiskReport:
    """Return the report in a member's answer. Raises `NoLeader` if it cannot be decoded."""
    match answer.value:
        case [str(verdict), str(why), *_] if verdict in (each.value for each in _Verdict):
            return _DiskReport(_Verdict(verdict), why)
    raise NoLeader("the answer of a member cannot be read")
