"""Nemesis: injects faults into a system, and records their observed effects in the history.

The faults come from a schedule, or a script begins and ends each. One thread calls `step` repeatedly; it begins and
ends due faults, and never waits for a broker to serve. A node that is down is not a victim again, and the end of a
fault does not undo another: a process is started or resumed only by the fault that stopped or paused it. A drawn fault
that cannot begin yet is postponed, and a fault without an observed effect is repeated until its kind had one. After
`finish` no fault is under way.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from jepsen.nemeses.fault import Fault, InjectedFault
from jepsen.nemeses.kind_table import FACTS
from jepsen.nemeses.network_faults import PACKET_CONDITIONS
from jepsen.nemeses.rolling_restart import RollingRestart
from jepsen.nemeses.schedule import FAULT_S_MIN
from jepsen.nemeses.victims import Victims
from raftlog.testing import NetworkConditions
from raftlog.types import TopicPartition

LOOK_S: Final = 0.1
"""Seconds between two checks whether a restarted broker serves."""
STOP_S_MAX: Final = 20.0
"""Longest time, in seconds, for a broker to terminate in order, and to serve again, at the end of the load."""
PUT_OFF_S: Final = 1.0
"""Delay, in seconds, until a postponed fault is tried once more."""
END_LATER_S_MAX: Final = 15.0
"""Longest time, in seconds, that the end of a fault may wait for its victims (`Kind.may_end`)."""


class _RestartingVictims(NamedTuple):
    """Fault that has ended, with those of its nodes that do not serve yet."""

    happened: InjectedFault
    nodes: tuple[int, ...]

    def without(self, killed: Sequence[int]) -> "_RestartingVictims":
        """Return a copy without the nodes that another fault has killed again."""
        return self._replace(nodes=tuple(node for node in self.nodes if node not in killed))


class Running(NamedTuple):
    """Fault that has begun and not ended. `until_s` is infinite if a script ends it."""

    fault: Fault
    begin_s: float
    until_s: float
    hit: tuple[int, ...]
    proof: str


class Nemesis:
    """Injector of faults. `now_s` returns seconds since the beginning of the load; `note` writes into the history."""

    def __init__(
        self,
        victims: Victims,
        schedule: Sequence[Fault],
        partitions: Sequence[TopicPartition],
        note: Callable[[str, dict[str, Any]], None],
        now_s: Callable[[], float],
    ) -> None:
        """Prepare the faults of `schedule`.

        `note` writes into the history, and `now_s` returns seconds since the load began."""
        self._victims, self._partitions, self._note, self._now_s = victims, partitions, note, now_s
        self._kinds = {kind: facts.make() for kind, facts in FACTS.items() if facts.make is not None}
        self._waiting = list(schedule)
        self._drawn = frozenset(fault.kind for fault in schedule)
        self._running: list[Running] = []
        self._rolling: list[RollingRestart] = []
        self._starting: list[_RestartingVictims] = []
        self._next_look_s = 0.0
        self._load_until_s = math.inf
        self.happened: list[InjectedFault] = []
        """Faults that have ended and whose victims serve again; sorted by beginning once the nemesis is finished."""
        self.unseen: list[InjectedFault] = []
        """Faults that were begun and ended without an observed effect: they may have had one, and prove nothing."""

    @property
    def missing_kinds(self) -> frozenset[str]:
        """Kinds in the schedule without an ended fault that had an observed effect."""
        return self._drawn - {happened.kind for happened in self.happened}

    @property
    def under_way(self) -> list[str]:
        """Descriptions of the faults that have begun and not ended."""
        return [*(str(each.fault) for each in self._running), *(str(each.fault) for each in self._rolling)]

    def step(self) -> None:
        """Begin and end faults that are due."""
        now_s = self._now_s()
        for running in [running for running in self._running if running.until_s <= now_s]:
            self._end_if_possible(running, now_s)
        for rolling in list(self._rolling):
            self._continue_roll(rolling, now_s)
        for running in self._running:
            if running.fault.kind in self._kinds:
                since_s = now_s - running.begin_s
                self._kinds[running.fault.kind].during(self._victims, running.fault, running.hit, since_s)
        for fault in [fault for fault in self._waiting if fault.begin_s <= now_s]:
            self._waiting.remove(fault)
            aimed = self._aim(fault)
            if self._may_begin(aimed):
                self.begin(aimed)
            else:
                self._waiting.append(fault.postpone_to(self._now_s() + PUT_OFF_S))
        if self._starting and now_s >= self._next_look_s:
            self._check_restarted()
            self._next_look_s = now_s + LOOK_S

    def finish(self) -> None:
        """End all faults and begin no more.

        Does not wait for restarted nodes to serve, but waits for nodes that got SIGTERM: they cannot be started
        again before that."""
        for running in list(self._running):
            self.end(running)
        self._load_until_s = self._now_s()
        until = time.monotonic() + STOP_S_MAX
        while self._rolling and time.monotonic() < until:
            for rolling in list(self._rolling):
                rolling.stop()
                self._continue_roll(rolling, self._now_s())
            time.sleep(LOOK_S / 10)
        for starting in self._starting:
            self._record_fault(starting.happened._replace(served_s=self._now_s()))
        self._starting.clear()
        self._waiting.clear()
        self.happened.sort(key=lambda happened: happened.begin_s)

    def _may_begin(self, fault: Fault) -> bool:
        """Return whether a drawn fault may begin now.

        Files are lost only when the last loss is repaired. No fault starts a process that another one keeps down."""
        under_way = [*(each.fault for each in self._running), *(each.fault for each in self._rolling)]
        for other in under_way:
            both = (FACTS[fault.kind], FACTS[other.kind])
            are_down = all(facts.is_down for facts in both) and any(facts.always_starts for facts in both)
            if are_down and not {*fault.nodes}.isdisjoint(other.nodes):
                return False
        if fault.kind != "damage":
            return True
        is_calm = all(other.kind != "damage" and not FACTS[other.kind].is_slow_to_ask for other in under_way)
        return is_calm and self._victims.is_healthy()

    def _aim(self, fault: Fault) -> Fault:
        """Return the fault for the present leader, with other nodes in place of those that have left the cluster.

        A node that is being removed is a victim like any other, but no fault loses its files."""
        if fault.kind in ("roll", "members"):
            return fault
        if fault.of_leader is not None:
            leader = self._victims.leader(self._partitions[fault.of_leader])
            fault = fault if leader is None else fault.with_leader(leader)
        members = self._victims.addresses
        left = [node for node in fault.nodes if node not in members]
        lost = [node for node in left if fault.kind == "damage" or not self._victims.is_up(node)]
        named = {node for link in fault.links for node in link}
        others = sorted((node for node in members if node not in fault.nodes), key=lambda node: node in named)
        for node, other in zip(lost, others, strict=False):
            fault = fault.with_swapped(node, other)
        return fault

    def begin(self, fault: Fault) -> Running | None:
        """Begin the fault now, regardless of its time. Returns None for rolls and membership changes."""
        if fault.kind == "roll":
            self._rolling.append(RollingRestart(fault, self._now_s(), fault.end_s, self._victims))
            self._record_phase("begins", fault, "")
            return None
        if fault.kind == "members":
            self._change_cluster(fault)
            return None
        began_s = self._now_s()
        hit = tuple(node for node in fault.nodes if self._victims.is_up(node))
        if fault.kind in self._kinds:
            proof = self._kinds[fault.kind].begin(self._victims, fault, hit) if hit else ""
            down = [node for node in hit if not self._victims.is_up(node)]
            self._remove_killed(down)
        else:
            proof = ""
        running = Running(fault, began_s, max(fault.end_s, began_s + FAULT_S_MIN), hit, proof)
        self._running.append(running)
        if fault.kind not in self._kinds:
            self._victims.link_effects(fault.links)  # from here on
            self._set_links(fault)
        self._record_phase("begins", fault, proof or ("" if hit or fault.links else "nothing, all of them were down"))
        return running

    def _remove_killed(self, killed: Sequence[int]) -> None:
        """Stop waiting for nodes that another fault has killed again."""
        self._starting = [starting.without(killed) for starting in self._starting]
        for rolling in self._rolling:
            rolling.remove_killed(killed)

    def _end_if_possible(self, running: Running, now_s: float) -> None:
        """End a fault whose time is over, or try again after `LOOK_S` if its kind must wait for its effect.

        `END_LATER_S_MAX` after its begin the fault ends without its effect."""
        kind = self._kinds.get(running.fault.kind)
        is_late = now_s >= running.begin_s + END_LATER_S_MAX
        if kind is None or is_late or kind.may_end(self._victims, running.fault, running.hit):
            self.end(running)
        else:
            self._running[self._running.index(running)] = running._replace(until_s=now_s + LOOK_S)

    def end(self, running: Running) -> InjectedFault | None:
        """End the fault now; return it if it had an observed effect, else None.

        The fault is recorded later if its end restarts the victims."""
        fault, now_s = running.fault, self._now_s()
        self._running.remove(running)
        if fault.kind in self._kinds:
            seen = self._kinds[fault.kind].end(self._victims, fault, running.hit) if running.hit else ""
            starts = self._kinds[fault.kind].starts_nodes(fault)
        else:
            seen, starts = self._victims.link_effects(fault.links), False
            if not any(mark in seen for mark in FACTS[fault.kind].marks):
                seen = ""  # effect of another fault on the same links
            self._set_links(fault)
        self._record_phase("ends", fault, seen)
        proof = "; ".join(filter(None, (running.proof, seen)))
        happened = InjectedFault(fault.kind, str(fault), running.begin_s, now_s, proof, now_s)
        if starts and running.hit:
            self._starting.append(_RestartingVictims(happened, running.hit))
        elif running.hit or fault.links:
            self._record_fault(happened)
        self._repeat_if_missing(fault)
        return happened if proof else None

    def _record_fault(self, happened: InjectedFault) -> None:
        """Record a fault that has ended."""
        (self.happened if happened.proof else self.unseen).append(happened)

    def _repeat_if_missing(self, fault: Fault) -> None:
        """Schedule an ended fault once more if its kind is still missing and no other fault of the kind is pending."""
        coming: set[str] = {other.kind for other in self._waiting}
        coming.update(other.fault.kind for other in self._rolling)
        coming.update(other.fault.kind for other in self._running if other.proof)
        coming.update(other.happened.kind for other in self._starting if other.happened.proof)
        if fault.kind in self.missing_kinds - coming:
            if fault.kind == "members":
                fault = fault._replace(shape="move")  # for which there is always something to be done
            self._waiting.append(fault.postpone_to(self._now_s() + PUT_OFF_S))

    def _set_links(self, changed: Fault) -> None:
        """Apply all present faults of the changed fault's kind to the links between nodes."""
        others = [each.fault for each in self._running if each.fault.kind == changed.kind]
        if changed.kind == "cut":
            rpc = [link for other in others if other.plane != "gossip" for link in other.links]
            gossip = [link for other in others if other.plane != "rpc" for link in other.links]
            self._victims.cut(rpc, gossip)
        else:
            self._victims.set_conditions(changed.links, NetworkConditions())
            for other in others:
                self._victims.set_conditions(other.links, PACKET_CONDITIONS[other.shape])

    def _check_restarted(self) -> None:
        """Record the faults whose victims serve again."""
        for starting in list(self._starting):
            if all(self._victims.is_serving(node) for node in starting.nodes):
                self._starting.remove(starting)
                self._record_fault(starting.happened._replace(served_s=self._now_s()))

    def _continue_roll(self, rolling: RollingRestart, now_s: float) -> None:
        """Continue the rolling restart by one step if it is the first one under way; record its end."""
        if now_s >= rolling.until_s:
            rolling.stop()
        if rolling is self._rolling[0]:  # one that came to its end late holds the next one up
            rolling.step()
        if rolling.has_ended:
            self._rolling.remove(rolling)
            if rolling.proofs:
                proof = "; ".join(rolling.proofs)
                end_s = min(now_s, self._load_until_s)
                self.happened.append(InjectedFault("roll", str(rolling.fault), rolling.begin_s, end_s, proof, now_s))
            self._record_phase("ends", rolling.fault, "; ".join(rolling.proofs) or "nothing, no node could be spared")
            self._repeat_if_missing(rolling.fault)

    def _change_cluster(self, fault: Fault) -> None:
        """Add or decommission a node, or move a partition or its leader; return without waiting for the effect."""
        assert fault.of_leader is not None, f"an order without a partition: {fault}"
        begin_s = self._now_s()
        proof = self._victims.change(fault.shape, fault.nodes[0], self._partitions[fault.of_leader])
        if proof:
            end_s = self._now_s()
            leaves = fault.nodes if fault.shape == "leave" else ()
            self.happened.append(InjectedFault("members", str(fault), begin_s, end_s, proof, end_s, leaves))
        self._record_phase("is given", fault, proof or "nothing to be done")
        self._repeat_if_missing(fault)

    def _record_phase(self, phase: str, fault: Fault, proof: str) -> None:
        """Write the begin or end of a fault into the history; `proof` is its observed effect, empty for none."""
        more: dict[str, Any] = {"fault": fault.kind, "phase": phase, "nodes": fault.nodes}
        if fault.links:
            more["ways"] = fault.links
        self._note(f"{fault} {phase}{f' ({proof})' if proof else ''}", more)
