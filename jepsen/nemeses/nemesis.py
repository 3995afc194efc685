"""Makes the faults of a schedule happen on a system, and notes in the history what really happened.

`step` is called again and again by one thread; it does what is due and never waits for a broker to serve. A node that
is down already is not killed again, and one fault's end does not undo another's: a process is started or resumed only
by the fault that ended or stopped it. After `finish` nothing is wrong any more, as far as it is up to the nemesis.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from jepsen.nemeses.schedule import FAULT_S_MIN, Fault, Way
from raftlog.types import TopicPartition

LOOK_S: Final = 0.1
"""Between two questions whether a broker that was started serves."""
STOP_S_MAX: Final = 20.0
"""How long a broker may take at the end of the load to end in order, and to serve again."""


class Victims(Protocol):
    """What can be done to the nodes of a system. What a fault did is told in a few words, as seen from outside."""

    def is_up(self, node: int) -> bool: ...
    def is_serving(self, node: int) -> bool: ...
    def kill(self, node: int) -> str: ...
    def is_whole(self) -> bool: ...
    def terminate(self, node: int) -> str: ...
    def launch(self, node: int) -> None: ...
    def pause(self, node: int) -> str: ...
    def resume(self, node: int) -> None: ...
    def cut(self, ways: Sequence[Way]) -> None: ...
    def change(self, shape: str, node: int, place: TopicPartition) -> str: ...
    def leader(self, place: TopicPartition) -> int | None: ...


class Happened(NamedTuple):
    """A fault as it was, in seconds from the beginning of the load. `proof` says what was seen of it.

    `served_s`: when every process that was started at its end served, or was killed again; where nobody was killed, its
    end.
    """

    kind: str
    what: str
    begin_s: float
    end_s: float
    proof: str
    served_s: float


class _Starting(NamedTuple):
    """A fault that is over, and whose victims do not serve yet."""

    happened: Happened
    nodes: tuple[int, ...]

    def without(self, killed: Sequence[int]) -> "_Starting":
        """Who is killed again is another fault's."""
        return self._replace(nodes=tuple(node for node in self.nodes if node not in killed))


class _Running(NamedTuple):
    fault: Fault
    begin_s: float
    until_s: float
    hit: tuple[int, ...]
    proof: str


class _Rolling:
    """A rolling restart that is under way: who is being restarted, who is left, and what was seen of it."""

    def __init__(self, fault: Fault, begin_s: float, until_s: float, victims: Victims) -> None:
        self.fault, self.begin_s, self.until_s = fault, begin_s, until_s
        self._victims = victims
        self._left = list(fault.nodes)
        self._node: int | None = None
        self._is_launched = False
        self.proofs: list[str] = []

    @property
    def is_between(self) -> bool:
        """Nobody is down because of it."""
        return self._node is None

    @property
    def is_over(self) -> bool:
        return self.is_between and not self._left

    def stop(self) -> None:
        """Begin with nobody any more."""
        self._left.clear()

    def forget(self, nodes: Sequence[int]) -> None:
        """They were killed: who starts them again is another fault's business."""
        if self._node in nodes:
            self._node = None

    def step(self) -> None:
        """The next node only when everything is whole, as whoever restarts brokers does it."""
        node = self._node
        if node is None:
            if self._left and self._victims.is_whole():
                self._terminate(self._left.pop(0))
        elif not self._is_launched:
            if not self._victims.is_up(node):
                self._victims.launch(node)
                self._is_launched = True
        elif self._victims.is_serving(node):
            self._node = None

    def _terminate(self, node: int) -> None:
        if self._victims.is_up(node):
            self._node, self._is_launched = node, False
            self.proofs.append(self._victims.terminate(node))


class Nemesis:
    """`note(text, members)` writes into the history; `now_s` is the time since the beginning of the load."""

    def __init__(
        self,
        victims: Victims,
        schedule: Sequence[Fault],
        partitions: Sequence[TopicPartition],
        note: Callable[[str, dict[str, Any]], None],
        now_s: Callable[[], float],
    ) -> None:
        self._victims, self._partitions, self._note, self._now_s = victims, partitions, note, now_s
        self._waiting = sorted(schedule, key=lambda fault: fault.begin_s)
        self._running: list[_Running] = []
        self._rolling: list[_Rolling] = []
        self._starting: list[_Starting] = []
        self._next_look_s = 0.0
        self._load_until_s = math.inf
        """Known from `finish` on: whoever has to be started again by then is, and nobody writes meanwhile."""
        self.happened: list[Happened] = []
        """Faults that are over."""

    @property
    def under_way(self) -> list[str]:
        """What is wrong right now, for people to read."""
        return [*(str(each.fault) for each in self._running), *(str(each.fault) for each in self._rolling)]

    def step(self) -> None:
        """Begin and end what is due."""
        now_s = self._now_s()
        for running in [running for running in self._running if running.until_s <= now_s]:
            self._end(running)
        for rolling in list(self._rolling):
            self._roll(rolling, now_s)
        while self._waiting and self._waiting[0].begin_s <= now_s:
            self._begin(self._waiting.pop(0))
        if self._starting and now_s >= self._next_look_s:
            self._look()
            self._next_look_s = now_s + LOOK_S

    def finish(self) -> None:
        """End everything, begin nothing. Whoever does not serve yet is not waited for, but who was told to end is: it
        could not be started again before that."""
        self._waiting.clear()
        for running in list(self._running):
            self._end(running)
        self._load_until_s = self._now_s()
        until = time.monotonic() + STOP_S_MAX
        while self._rolling and time.monotonic() < until:
            for rolling in list(self._rolling):
                rolling.stop()
                self._roll(rolling, self._now_s())
            time.sleep(LOOK_S / 10)
        for starting in self._starting:
            self.happened.append(starting.happened._replace(served_s=self._now_s()))
        self._starting.clear()
        self.happened.sort(key=lambda happened: happened.begin_s)

    def _look(self) -> None:
        """Who serves again by now."""
        for starting in list(self._starting):
            if all(self._victims.is_serving(node) for node in starting.nodes):
                self._starting.remove(starting)
                self.happened.append(starting.happened._replace(served_s=self._now_s()))

    def _roll(self, rolling: _Rolling, now_s: float) -> None:
        if now_s >= rolling.until_s:
            rolling.stop()
        if rolling is self._rolling[0]:  # one that came to its end late holds the next one up
            rolling.step()
        if rolling.is_over:
            self._rolling.remove(rolling)
            if rolling.proofs:
                proof = "; ".join(rolling.proofs)
                end_s = min(now_s, self._load_until_s)
                self.happened.append(Happened("roll", str(rolling.fault), rolling.begin_s, end_s, proof, now_s))
            self._say("ends", rolling.fault, "; ".join(rolling.proofs) or "nothing, nobody could be spared")

    def _begin(self, fault: Fault) -> None:
        if fault.kind == "roll":
            self._rolling.append(_Rolling(fault, self._now_s(), fault.end_s, self._victims))
            self._say("begins", fault, "")
            return
        if fault.kind == "members":
            self._give_order(fault)
            return
        if fault.of_leader is not None:
            leader = self._victims.leader(self._partitions[fault.of_leader])
            fault = fault if leader is None else fault.aimed_at(leader)
        began_s = self._now_s()  # it may have taken a while to find out who leads
        hit = tuple(node for node in fault.nodes if self._victims.is_up(node))
        if fault.kind == "cut":
            self._victims.cut(fault.ways)
            proof = "the proxy between the brokers confirmed it"
        elif fault.kind == "kill":
            proof = "; ".join(self._victims.kill(node) for node in hit)
            self._starting = [starting.without(hit) for starting in self._starting]
            for rolling in self._rolling:
                rolling.forget(hit)
        else:
            proof = "; ".join(self._victims.pause(node) for node in hit)
        until_s = max(fault.end_s, began_s + FAULT_S_MIN)
        self._running.append(_Running(fault, began_s, until_s, hit, proof))
        self._say("begins", fault, proof or "nothing, all of them were down")

    def _give_order(self, fault: Fault) -> None:
        """It is over once it was given; what follows from it goes on as long as it takes."""
        assert fault.of_leader is not None, f"an order without a partition: {fault}"
        begin_s = self._now_s()
        proof = self._victims.change(fault.shape, fault.nodes[0], self._partitions[fault.of_leader])
        if proof:
            end_s = self._now_s()
            self.happened.append(Happened("members", str(fault), begin_s, end_s, proof, end_s))
        self._say("is given", fault, proof or "nothing to be done")

    def _end(self, running: _Running) -> None:
        fault, now_s = running.fault, self._now_s()
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
            happened = Happened(fault.kind, str(fault), running.begin_s, now_s, running.proof, now_s)
            if fault.kind == "kill":
                self._starting.append(_Starting(happened, running.hit))
            else:
                self.happened.append(happened)
        self._say("ends", fault, "")

    def _say(self, phase: str, fault: Fault, proof: str) -> None:
        more: dict[str, Any] = {"fault": fault.kind, "phase": phase, "nodes": fault.nodes}
        if fault.ways:
            more["ways"] = fault.ways
        self._note(f"{fault} {phase}{f' ({proof})' if proof else ''}", more)
