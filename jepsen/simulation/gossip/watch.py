"""Properties of gossip, observed from outside: views are compared with the harness's record of the processes.

healthy-declared-dead   with nothing but loss, no member that is up is declared dead
healthy-suspected       without loss, no member that is up is suspected, even by a member that was paused
dead-not-known          after one member crashed, left or returned, all have this state within ten periods
incarnation-back        in a member's view the incarnation of another member never falls
state-not-allowed       at one incarnation states only rise
queue-not-empty         the queue of claims is bounded, and empties when nothing new happens
datagram-too-large      (in `world`) no datagram exceeds its maximum size
gossip-cost             average bytes per member and second in a steady run are bounded
disagreement            after healing all views agree with each other and with the processes"""

from collections import Counter
from typing import Final, NoReturn

from jepsen.simulation.gossip.options import GossipOptions
from jepsen.simulation.gossip.process import Process
from jepsen.simulation.gossip.world import World
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.membership.member import GossipMember, MemberState
from raftlog.membership.swim import MemberChange
from raftlog.types import NodeId

PERIODS_MAX: Final = 10
COST_BYTES_PER_S_MAX: Final = 3_000


class Watch:
    """Observer of all changes in the members' views; checks the views on request."""

    def __init__(self, options: GossipOptions) -> None:
        self.world = World(options, self.on_change)
        self.declared: Counter[MemberState] = Counter()
        """Number of changes to each state, over all views."""
        self.deaths: dict[tuple[NodeId, int], float] = {}
        """By process and number of its start: time from its end until the last member declared it dead."""
        self._newest: dict[tuple[NodeId, int, NodeId], GossipMember] = {}
        """Newest entry of each member in the view of each start of a process."""

    # every change

    def on_change(self, process: Process, change: MemberChange) -> None:
        """Check a change in the view of `process`, and record it."""
        after, member = change.after, change.member
        if after is None:
            return
        self._check_order(process, member)
        if change.before is not after:
            self.declared[after] += 1
            self._record_detection_time(change)
            self.world.note(process, f"{change.node_id}: {after.name.lower()}, incarnation {member.incarnation:x}")
        options = self.world.options
        if options.is_steady and after in (MemberState.SUSPECT, MemberState.DEAD) and self._is_up_long_enough(member):
            if after is MemberState.DEAD:
                self._fail("healthy-declared-dead", process, member)
            if not options.loss:
                self._fail("healthy-suspected", process, member)

    def _record_detection_time(self, change: MemberChange) -> None:
        """Record the time, in seconds, from the end of a process until this view declared it dead."""
        process = self._process(change.node_id)
        if (
            change.before is not None
            and change.after is MemberState.DEAD
            and not process.is_up
            and not process.has_left
        ):
            self.deaths[process.node_id, process.starts] = self.world.now - process.ended_at

    def _check_order(self, process: Process, member: GossipMember) -> None:
        """Check that a changed entry has no older incarnation or state than the last one of the same disk."""
        key = (process.node_id, process.starts, member.node_id)
        before = self._newest.get(key)
        self._newest[key] = member
        if before is None or before.disk_uuid != member.disk_uuid:
            return
        if member.incarnation < before.incarnation:
            self._fail("incarnation-back", process, member)
        if member.incarnation == before.incarnation and member.state < before.state:
            self._fail("state-not-allowed", process, member)

    def _is_up_long_enough(self, member: GossipMember) -> bool:
        """Return whether the member runs, and has run for so long that all others must have received its state."""
        up_s = self.world.now - self._process(member.node_id).resumed_at
        return up_s > PERIODS_MAX * self.world.config.period_s and self._is_running(member)

    def _is_running(self, member: GossipMember) -> bool:
        """Return whether the entry is about the present start of a process that runs and has not left."""
        process = self._process(member.node_id)
        is_of_this_start = member.disk_uuid == process.disk_uuid and member.incarnation >= process.first_incarnation
        return process.is_running and not process.has_left and is_of_this_start

    # single events of steady runs

    def check_known(self, process: Process, starts: int) -> None:
        """Check, ten periods after a change of a process, that all members report its state."""
        elapsed_s = self.world.now - max(process.resumed_at, process.ended_at)
        if process.starts != starts or process.is_paused or elapsed_s < 0.99 * PERIODS_MAX * self.world.config.period_s:
            return  # its state has changed again; that change has its own check
        for observer in self.observers():
            if observer is not process:
                self._check_state(observer, process, "dead-not-known")

    def observers(self) -> list[Process]:
        """Return the processes whose views are checked: those that run and have not left."""
        return [process for process in self.world.processes if process.is_running and not process.has_left]

    def _check_state(self, observer: Process, process: Process, name: str) -> None:
        """Check one observer's entry about a process: its state, its start and its description.

        `name` is the property; "disagreement" does not allow a suspicion."""
        known = observer.swim.member(process.node_id)
        if known is None or known.state not in self._allowed_states(process, name):
            self._fail(name, observer, known, actual=self._actual_state(process), about=process.node_id)
        if process.is_running and not process.has_left:
            if not self._is_running(known):
                self._fail(name, observer, known, actual="another start", about=process.node_id)
            if known.description != process.description:
                self._fail(name, observer, known, actual="another description", about=process.node_id)

    def _allowed_states(self, process: Process, name: str) -> tuple[MemberState, ...]:
        """Return the states that views may have about the process, under the property `name`."""
        if process.has_left:
            # Its announcement may have been lost, unless the network was good.
            return (MemberState.LEFT,) if self.world.options.is_steady else (MemberState.LEFT, MemberState.DEAD)
        if not process.is_up:
            return (MemberState.DEAD,)
        return (MemberState.ALIVE,) if name == "disagreement" else (MemberState.ALIVE, MemberState.SUSPECT)

    # at the end

    def check_agreement(self) -> None:
        """Check that all views are right and equal in incarnation and description, and that no broadcast is pending."""
        observers = self.observers()
        for observer in observers:
            for process in self.world.processes:
                if process is not observer and process.starts:
                    self._check_state(observer, process, "disagreement")
            waiting = observer.swim.counters().broadcasts_waiting
            if waiting:
                raise PropertyBroken("queue-not-empty", {"member": observer.name, "waiting": waiting})
        views = {observer.name: _view_of(observer) for observer in observers}
        if len(set(views.values())) > 1:
            raise PropertyBroken("disagreement", {name: sorted(view) for name, view in views.items()})

    def check_queues_bounded(self) -> None:
        """Raise `PropertyBroken` unless each queue holds at most one claim about each member."""
        for observer in self.observers():
            waiting, known = observer.swim.counters().broadcasts_waiting, len(self.world.processes)
            if waiting > known:
                raise PropertyBroken("queue-not-empty", {"member": observer.name, "waiting": waiting, "known": known})

    def check_traffic(self, bytes_sent: int, seconds: float) -> None:
        """Check the average number of bytes that a member sends per second."""
        cost = bytes_sent / seconds / len(self.world.processes)
        if cost > COST_BYTES_PER_S_MAX:
            raise PropertyBroken("gossip-cost", {"bytes_per_s": round(cost), "most": COST_BYTES_PER_S_MAX})

    def _process(self, node_id: NodeId) -> Process:
        """Return the process of a node."""
        return self.world.processes[node_id - 1]

    def _actual_state(self, process: Process) -> str:
        """Return the process's true state, for a report."""
        if process.has_left:
            return "left"
        return f"up, start {process.starts}" if process.is_up else "dead"

    def _fail(self, name: str, observer: Process, member: GossipMember | None, **numbers: object) -> NoReturn:
        """Raise `PropertyBroken` with the observer, its entry and the evidence."""
        member = member and member._replace(about=member.about._replace(description=b""))
        raise PropertyBroken(
            name, {"seen_by": observer.name, "at": round(self.world.now, 3), "member": member, **numbers}
        )


def _view_of(observer: Process) -> frozenset[tuple[int, bytes, int, MemberState]]:
    """Return the observer's entries about all members, without their descriptions."""
    members = observer.swim.members()
    return frozenset((each.node_id, each.disk_uuid, each.incarnation, each.state) for each in members)
