"""Makes the faults of a schedule happen on a system, and notes in the history what really happened.

`step` is called again and again by one thread; it does what is due and never waits for a broker to serve. A node that
is down already is not killed again, and one fault's end does not undo another's: a process is started or resumed only
by the fault that ended or stopped it. After `finish` nothing is wrong any more, as far as it is up to the nemesis.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from jepsen.nemeses.schedule import Fault, Way
from raftlog.types import TopicPartition


class Victims(Protocol):
    """What can be done to the nodes of a system. What a fault did is told in a few words, as seen from outside."""

    def is_up(self, node: int) -> bool: ...
    def kill(self, node: int) -> str: ...
    def launch(self, node: int) -> None: ...
    def pause(self, node: int) -> str: ...
    def resume(self, node: int) -> None: ...
    def cut(self, ways: Sequence[Way]) -> None: ...
    def leader(self, place: TopicPartition) -> int | None: ...


class Happened(NamedTuple):
    """A fault as it was, in seconds from the beginning of the load. `proof` says what was seen of it."""

    kind: str
    what: str
    begin_s: float
    end_s: float
    proof: str


class _Running(NamedTuple):
    fault: Fault
    begin_s: float
    hit: tuple[int, ...]
    proof: str


class Nemesis:
    """`note(text, members)` writes into the history."""

    def __init__(
        self,
        victims: Victims,
        schedule: Sequence[Fault],
        partitions: Sequence[TopicPartition],
        note: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._victims, self._partitions, self._note = victims, partitions, note
        self._waiting = sorted(schedule, key=lambda fault: fault.begin_s)
        self._running: list[_Running] = []
        self.happened: list[Happened] = []
        """Faults that are over."""

    @property
    def under_way(self) -> list[str]:
        """What is wrong right now, for people to read."""
        return [str(running.fault) for running in self._running]

    def step(self, now_s: float) -> None:
        """Begin and end what is due."""
        for running in [running for running in self._running if running.fault.end_s <= now_s]:
            self._end(running, now_s)
        while self._waiting and self._waiting[0].begin_s <= now_s:
            self._begin(self._waiting.pop(0), now_s)

    def finish(self, now_s: float) -> None:
        """End everything, begin nothing."""
        self._waiting.clear()
        for running in list(self._running):
            self._end(running, now_s)

    def _begin(self, fault: Fault, now_s: float) -> None:
        if fault.of_leader is not None:
            leader = self._victims.leader(self._partitions[fault.of_leader])
            fault = fault if leader is None else fault.aimed_at(leader)
        hit = tuple(node for node in fault.nodes if self._victims.is_up(node))
        if fault.kind == "cut":
            self._victims.cut(fault.ways)
            proof = "the proxy between the brokers confirmed it"
        elif fault.kind == "kill":
            proof = "; ".join(self._victims.kill(node) for node in hit)
        else:
            proof = "; ".join(self._victims.pause(node) for node in hit)
        self._running.append(_Running(fault, now_s, hit, proof))
        self._say("begins", fault, proof or "nothing, all of them were down")

    def _end(self, running: _Running, now_s: float) -> None:
        fault = running.fault
        self._running.remove(running)
        if fault.kind == "cut":
            others = [other for other in self._running if other.fault.kind == "cut"]
            self._victims.cut([way for other in others for way in other.fault.ways])
        elif fault.kind == "kill":
            for node in running.hit:
                self._victims.launch(node)
        else:
            for node in running.hit:
                self._victims.resume(node)
        if fault.kind == "cut" or running.hit:
            self.happened.append(Happened(fault.kind, str(fault), running.begin_s, now_s, running.proof))
        self._say("ends", fault, "")

    def _say(self, phase: str, fault: Fault, proof: str) -> None:
        more: dict[str, Any] = {"fault": fault.kind, "phase": phase, "nodes": fault.nodes}
        if fault.ways:
            more["ways"] = fault.ways
        self._note(f"{fault} {phase}{f' ({proof})' if proof else ''}", more)
