"""Operations on brokers: maintenance and decommission, with progress. Called by listeners, as `operations.brokers`.

maintenance    a row of the controller; the broker itself transfers its leaderships (`node.leaders`)
decommission   draining; the balancer moves its replicas, and the controller's leader removes it once it is empty
"""

from collections.abc import Iterable, Sequence

from raftlog.errors import InvalidArgument, Unavailable, UnknownBroker
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import (
    ControllerState,
    GroupName,
    RegisteredBroker,
    RemoveBroker,
    SetMaintenance,
    UpdateBroker,
)
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.operations.broker_reports import BrokerReport, BrokerReporter
from raftlog.partitions.operations.move_reports import MoveReporter, MoveReports, limit_moves
from raftlog.partitions.operations.places import allocation_failures
from raftlog.partitions.placement.balancing.balancer import Balancer
from raftlog.types import Index, NodeId
from raftlog.values.brokers import Decommission, Maintenance
from raftlog.values.placement import MOVES_MAX, LeavingPartition, Reconfiguration, make_places


class BrokerOperations:
    """Operations on brokers for operators: maintenance mode, decommission.

    The copy of the controller's state is brought up to date before every change."""

    def __init__(
        self, metadata: ControllerHost, broker_reporter: BrokerReporter, move_reporter: MoveReporter, balancer: Balancer
    ) -> None:
        """Create the operations on brokers."""
        self._metadata, self._broker_reporter, self._move_reporter, self._balancer = (
            metadata,
            broker_reporter,
            move_reporter,
            balancer,
        )

    # maintenance

    async def set_maintenance(
        self, node_id: int, is_on: bool, *, expected_version: int | None = None, deadline: Deadline
    ) -> int:
        """Begin or end the maintenance of a broker, in which it leads nothing and gets no replicas; return its version.

        Raises `InvalidArgument` in a cluster of one broker. While another broker is in maintenance, raises
        `ChangeRefused` if too many brokers, or too many replicas of a partition, would then be in maintenance."""
        row = await self._find_broker(node_id, deadline)
        version = None if expected_version is None else Index(expected_version)
        return await self._metadata.submit(SetMaintenance(row.node_id, row.disk_uuid, is_on, version), deadline)

    async def maintenance(self, node_id: int, *, deadline: Deadline) -> Maintenance:
        """Return the progress of a maintenance."""
        row = await self._find_broker(node_id, deadline)
        kept = self._metadata.state.maintenance.get(row.node_id)
        version = 0 if kept is None else kept.version
        if kept is None or not kept.is_on:
            return Maintenance(node_id=row.node_id, version=version)
        report = await self._broker_reporter.ask(row.node_id, deadline)
        if report is None:
            why = f"node {row.node_id} does not answer; meanwhile other replicas lead its partitions where they can"
            return Maintenance(node_id=row.node_id, version=version, draining=True, reasons=[why])
        busy = report.eligible + report.transferring + report.stuck_count
        return Maintenance(
            node_id=row.node_id,
            version=version,
            draining=True,
            finished=report.is_excluded and not busy,
            errors=bool(report.stuck_count or report.failed),
            partitions=report.led,
            eligible=report.eligible,
            transferring=report.transferring,
            failed=report.failed,
            reasons=_maintenance_reasons(report),
        )

    # decommission

    async def decommission(self, node_id: int, *, deadline: Deadline) -> None:
        """Move the broker's replicas to other brokers, and remove it permanently once it is empty.

        For a broker that was already removed this way, do nothing. `InvalidArgument` for the last broker that is not
        draining."""
        await self._metadata.barrier(deadline)
        state = self._metadata.state
        row = state.brokers.get(node_id)
        if row is None:
            await self._remove_absent(NodeId(node_id), deadline)
            return
        if row.is_draining:
            return
        if not any(not other.is_draining for other in state.all_brokers() if other.node_id != node_id):
            raise InvalidArgument(
                f"broker {node_id} is the only one that is not being decommissioned: no other could take its replicas"
            )
        await self._metadata.submit(UpdateBroker(row.node_id, row.disk_uuid, True), deadline)

    async def _remove_absent(self, node_id: NodeId, deadline: Deadline) -> None:
        """Remove an absent seed at once, since it holds nothing; do nothing for a removed broker."""
        state = self._metadata.state
        seed = next((seed for seed in state.absent_seeds() if seed.node_id == node_id), None)
        if seed is not None:
            await self._metadata.submit(RemoveBroker(seed.node_id, seed.disk_uuid), deadline)
        elif not _was_removed(state, node_id):
            raise UnknownBroker(f"there is no broker {node_id}")

    async def recommission(self, node_id: int, *, deadline: Deadline) -> None:
        """Cancel a decommission; moved replicas stay. Raises `UnknownBroker` for a removed broker."""
        row = await self._find_broker(node_id, deadline)
        if row.is_draining:
            await self._metadata.submit(UpdateBroker(row.node_id, row.disk_uuid, False), deadline)

    async def decommission_status(self, node_id: int, *, deadline: Deadline) -> Decommission:
        """Return the progress. Raises `InvalidArgument` for a broker that is not being decommissioned."""
        await self._metadata.barrier(deadline)
        state = self._metadata.state
        row = state.brokers.get(node_id)
        if row is None:
            if not _was_removed(state, NodeId(node_id)):
                raise UnknownBroker(f"there is no broker {node_id}")
            return Decommission(True, 0, 0)
        if not row.is_draining:
            raise InvalidArgument(f"broker {node_id} is not being decommissioned")
        report = await self._broker_reporter.ask(row.node_id, deadline)
        progress = self._progress(row, report, await self._move_reporter.collect_settled(deadline))
        if progress.reason is not None or not progress.replicas_left:
            return progress
        return progress.copy_with(reason=await self._stall_reason(deadline))

    async def _stall_reason(self, deadline: Deadline) -> str | None:
        """Return the reasons why the balancer waits; None if it does not."""
        try:
            report = await self._balancer.report(deadline)
        except Unavailable as error:
            return str(error)
        return "; ".join(report.reasons) or None if report.status == "stalled" else None

    def _progress(self, row: RegisteredBroker, report: BrokerReport | None, move_reports: MoveReports) -> Decommission:
        """Return the progress of a decommission: replicas and bytes that are left, and failures."""
        state, node = self._metadata.state, row.node_id
        leaving = [move for move in move_reports.moves if node in move.from_nodes and node not in move.to_nodes]
        assigned = state.groups_of(row.replica)
        failures = allocation_failures(state, assigned)
        gone = max(len(leaving), 0 if report is None else report.unassigned)
        remaining = [move.bytes_left_to_move for move in leaving]
        known = [each for each in remaining if each is not None]
        is_known = len(known) == len(remaining) and report is not None
        votes = row.replica in self._metadata.controller_voters()
        moves = [*limit_moves(leaving), *_unbegun_moves(state, assigned[:MOVES_MAX], failures.reasons)][:MOVES_MAX]
        return Decommission(
            False,
            len(assigned) + gone,
            sum(known) + report.assigned_bytes if is_known and report is not None else None,
            failures.names,
            [LeavingPartition.from_reassignment(move, node) for move in moves],
            failures.summary
            or _decommission_reason(row, report, leaving, len(assigned) + gone, move_reports.silent, votes=votes),
        )

    async def _find_broker(self, node_id: int, deadline: Deadline) -> RegisteredBroker:
        """Return the registered broker. Raises `UnknownBroker`."""
        await self._metadata.barrier(deadline)
        return self._metadata.state.broker(NodeId(node_id))


def _was_removed(state: ControllerState, node_id: NodeId) -> bool:
    """Return whether a disk of this node id is retired."""
    return any(disk.node_id == node_id for disk in state.retired)


def _maintenance_reasons(report: BrokerReport) -> list[str]:
    """Return the reasons why a broker in maintenance still leads partitions, or makes some unavailable."""
    reasons = []
    if not report.is_excluded:
        reasons.append("the broker has not received the order yet")
    if report.stuck_count:
        named = ", ".join(report.stuck)
        reasons.append(f"{report.stuck_count} partitions have no other voter that could lead them now: {named}")
    if report.failed:
        reasons.append(f"{report.failed} leadership transfers failed; they are retried")
    alone = report.led - report.eligible - report.stuck_count
    if alone > 0:
        reasons.append(f"{alone} partitions have their only replica here: they are unavailable while the broker is")
    return reasons


def _unbegun_moves(
    state: ControllerState, groups: Iterable[GroupName], reasons: Sequence[str | None]
) -> Iterable[Reconfiguration]:
    """Yield a row for each partition whose replica has not begun to move, with the reason."""
    for group, reason in zip(groups, reasons, strict=False):
        assignment = state.assignment(group)
        places = make_places(replica.node_id for replica in assignment.replicas)
        yield Reconfiguration(
            topic=state.topic_by_id(group.topic_id).name,
            partition=group.partition,
            previous_replicas=places,
            current_replicas=places,
            reason=reason or "it waits for the balancer",
            version=assignment.version,
        )


def _decommission_reason(
    row: RegisteredBroker,
    report: BrokerReport | None,
    leaving: Sequence[Reconfiguration],
    left: int,
    silent: Sequence[int],
    *,
    votes: bool,
) -> str | None:
    """Return the known reason why a decommission waits; None without one."""
    stuck = [move for move in leaving if move.reason is not None]
    if stuck:
        return f"{len(stuck)} partitions wait: {stuck[0].topic}/{stuck[0].partition}: {stuck[0].reason}"
    if report is None and not leaving:
        return f"node {row.node_id} does not answer; its replicas are created anew from the remaining ones"
    if not left and votes:
        return "it holds no replicas any more, and votes in the controller until enough other voters are there"
    if not left:
        return "it holds no replicas any more; the controller's leader removes it once all reassignments are settled"
    others = [node for node in silent if node != row.node_id]
    return f"the nodes {others} do not answer" if others else None
