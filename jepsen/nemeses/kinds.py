"""Effect of each kind of fault on its victims, and the way to undo it. Called by `nemesis` from one thread.

`begin` and `end` return a description of the observed effect; a fault without one did not happen. Neither waits for a
broker to serve. `nemesis` itself injects cuts, packet faults, rolling restarts and membership changes, because
these concern several nodes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Final

from jepsen import damage
from jepsen.disk import DiskCounters
from jepsen.nemeses.fault import Fault
from jepsen.nemeses.victims import Victims

SLOW_SYNC_S: Final = (0.05, 0.5, 2.0)
JUMPS_S: Final = (-60.0, -5.0, 5.0, 60.0)
DRIFTS: Final = (0.3, 0.5, 2.0, 3.0)
"""Factors of a drifting clock; they are so large that the drift can be observed within seconds."""
SEEN_S_MIN: Final = 0.9
"""Smallest clock error, in seconds, that can be observed: answers have whole seconds."""
STALL_SHARE: Final = 0.8
"""Share of the fault's duration for which the loop stalls.

A stall begins with the loop's next turn, and is counted when it is over."""
STROBE_S: Final = 0.2


class Kind(ABC):
    """Base of all kinds of faults. `hit` are the nodes that were up when the fault began."""

    def starts_nodes(self, fault: Fault) -> bool:
        """Return whether the end of the fault starts its nodes, so that they serve only some time later."""
        return False

    @abstractmethod
    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Inject the fault; return its observed effect, empty for none so far."""

    def during(  # noqa: B027 - most kinds have nothing to do in between
        self, victims: Victims, fault: Fault, hit: tuple[int, ...], since_s: float
    ) -> None:
        """Act repeatedly while the fault lasts."""

    def may_end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> bool:
        """Return whether a fault whose time is over may end now, so that its effect is observable afterwards.

        Faults of scripts end when the script ends them."""
        return True

    @abstractmethod
    def end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """End the fault; return its observed effect, empty for none."""


class Kill(Kind):
    """SIGKILL: written pages stay in the page cache."""

    def starts_nodes(self, fault: Fault) -> bool:
        """Return true: the end of the fault launches the killed nodes."""
        return True

    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Kill the nodes with SIGKILL."""
        return "; ".join(victims.kill(node) for node in hit)

    def end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Launch the nodes again."""
        for node in hit:
            victims.launch(node)
        return ""


class Power(Kill):
    """SIGKILL of all victims, and loss of unsynced writes."""

    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Kill the nodes, and drop their unsynced writes. The description has only nodes that lost writes."""
        random = Random(fault.seed)  # noqa: S311 - repeatable, not secret
        killed = {node: victims.kill(node) for node in hit}
        lost = {node: victims.disks[node].lose_power(random) for node in hit}
        return "; ".join(f"{killed[node]}, {words}" for node, words in lost.items() if words)


class Pause(Kind):
    """Pause of processes: SIGSTOP at the begin, SIGCONT at the end."""

    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Stop the nodes' processes."""
        return "; ".join(filter(None, (victims.pause(node) for node in hit)))

    def end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Continue the nodes' processes."""
        for node in hit:
            victims.resume(node)
        return ""


class DiskKind(Kind):
    """Base of faults beneath a broker, whose effects its simulated disk counts."""

    def __init__(self) -> None:
        self._before: dict[int, DiskCounters] = {}

    def _count(self, victims: Victims, hit: tuple[int, ...]) -> None:
        """Store the counters of the disks, as the base of later differences."""
        for node in hit:
            self._before[node] = victims.disks[node].read_counters()

    def _counts_since(self, victims: Victims, node: int) -> DiskCounters:
        """Return the counts since `_count`, or since a later launch of the node."""
        return victims.disks[node].read_counters().since(self._before[node])


class Stall(DiskKind):
    """Blocked event loop, while the other threads of the process continue."""

    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Stall the event loops for the fault's amount in seconds, by default for a share of its duration."""
        self._count(victims, hit)
        for node in hit:
            length_s = fault.end_s - fault.begin_s
            victims.disks[node].stall_loop(STALL_SHARE * length_s if fault.amount is None else fault.amount)
        return ""

    def end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Cancel stalls that have not begun; return how long each loop stood still."""
        for node in hit:
            victims.disks[node].stall_loop(0)  # a loop that has not turned since does not stand still later
        seen = {node: self._counts_since(victims, node) for node in hit}
        return "; ".join(
            f"node {node} stood still for {each.stalled_ms} ms" for node, each in seen.items() if each.stalls
        )


class Clock(Kind):
    """Wrong time of day: the clock jumps, jumps to and fro, or drifts; the monotonic clock stays right."""

    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Let clocks drift or jump by the fault's amount, by default a random one; return the observed errors.

        A strobe, too, begins with a jump."""
        random = Random(fault.seed)  # noqa: S311 - repeatable, not secret
        for node in hit:
            if fault.shape == "drift":
                victims.clocks[node].drift(_draw_amount(fault, random, DRIFTS))
            else:
                victims.clocks[node].jump(_draw_amount(fault, random, JUMPS_S))
        return self._reported_errors(victims, hit)

    def during(self, victims: Victims, fault: Fault, hit: tuple[int, ...], since_s: float) -> None:
        """Move the clock of a strobe between right and wrong, every `STROBE_S`."""
        if fault.shape == "strobe":
            far = _draw_amount(fault, Random(fault.seed), JUMPS_S)  # noqa: S311 - repeatable, not secret
            for node in hit:
                victims.clocks[node].jump(far if int(since_s / STROBE_S) % 2 else 0.0)

    def end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Correct the clocks; return the observed errors of a drift, which grow while the fault lasts."""
        errors = self._reported_errors(victims, hit) if fault.shape == "drift" else ""
        for node in hit:
            victims.clocks[node].reset()
        return errors

    def _reported_errors(self, victims: Victims, hit: tuple[int, ...]) -> str:
        """Return a description of the clock errors that the nodes themselves report."""
        errors = {node: victims.clock_error_s(node) for node in hit}
        return "; ".join(
            f"node {node} is {by:+.1f} s from the time of day"
            for node, by in errors.items()
            if by is not None and abs(by) >= SEEN_S_MIN
        )


class Full(DiskKind):
    """Full disk: writes that need new space fail."""

    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Fill the disks of serving nodes; a start needs a little room, and ends without it."""
        self._count(victims, hit)
        for node in hit:
            if victims.is_serving(node):
                victims.disks[node].fill()
        return ""

    def end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Free the disks; return how often each node observed the lack of space."""
        for node in hit:
            victims.disks[node].free()
        seen = {node: self._counts_since(victims, node) for node in hit}
        return "; ".join(
            f"node {node} saw no free space {each.reported_full} times, and was refused room {each.refused} times"
            for node, each in seen.items()
            if each.reported_full or each.refused
        )


class Sync(DiskKind):
    """Slow or failing syncs; after a failed one the broker restarts, because its disk's state is unknown."""

    def starts_nodes(self, fault: Fault) -> bool:
        """Return whether syncs fail, because then the nodes exit and are launched again."""
        return fault.shape != "slow"

    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Delay syncs by seconds, or let one or all of them fail, by the fault's shape."""
        random = Random(fault.seed)  # noqa: S311 - repeatable, not secret
        self._count(victims, hit)
        for node in hit:
            if fault.shape == "slow":
                victims.disks[node].slow_syncs(_draw_amount(fault, random, SLOW_SYNC_S))
            else:
                victims.expect_end(node)
                victims.disks[node].fail_syncs(1 if fault.shape == "one fails" else -1)
        return ""

    def end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Let syncs work again, and restart nodes whose syncs failed; return how many were slow or failed."""
        descriptions = []
        for node in hit:
            seen = self._counts_since(victims, node)
            if seen.delayed or seen.failed:
                descriptions.append(f"node {node}: {seen.delayed} syncs were slow, {seen.failed} failed")
            victims.disks[node].slow_syncs(0)
            victims.disks[node].fail_syncs(0)
            if self.starts_nodes(fault):
                if victims.is_up(node):
                    victims.kill(node)
                victims.launch(node)
        return "; ".join(descriptions)


class Damage(Kind):
    """Damaged, lost or outdated files of a minority, changed while the broker is down."""

    def __init__(self) -> None:
        self._copies: dict[int, damage.Snapshot] = {}

    def starts_nodes(self, fault: Fault) -> bool:
        """Return true: the end of the fault launches the damaged nodes."""
        return True

    def begin(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Kill the nodes, and damage files of each. The description has only nodes whose files were damaged."""
        descriptions = ((victims.kill(node), self._damage(victims, fault, node)) for node in hit)
        return "; ".join(f"{killed}, {description}" for killed, description in descriptions if description)

    def _damage(self, victims: Victims, fault: Fault, node: int) -> str:
        """Damage files of a stopped node by the fault's shape; return the description of the damage.

        For "stale", copy its files and launch it: the copy is restored at the end."""
        random = Random(fault.seed)  # noqa: S311 - repeatable, not secret
        directory = victims.data_dirs()[node]
        _make_durable(victims, node)
        if fault.shape == "flip":
            return damage.flip_bits(directory, random, 3, only=fault.files)
        if fault.shape == "truncate":
            return damage.truncate(directory, random, only=fault.files)
        if fault.shape == "delete":
            return damage.delete(directory, random, only=fault.files)
        if fault.shape == "wipe":
            return damage.wipe(directory)
        assert fault.shape == "stale", fault
        self._copies[node] = damage.Snapshot(directory, directory.with_name(f"{directory.name}-copy"))
        self._copies[node].take()
        victims.launch(node)
        return ""  # nothing is old before the copy is put back

    def may_end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> bool:
        """Return whether the brokers have written since the copy was taken; otherwise the copy is not outdated."""
        return all(victims.is_serving(node) for node in hit if node in self._copies)

    def end(self, victims: Victims, fault: Fault, hit: tuple[int, ...]) -> str:
        """Restore stale copies, and launch the nodes; return a description of the restored files."""
        descriptions = []
        for node in hit:
            if node in self._copies:
                if victims.is_up(node):
                    victims.kill(node)
                if restored := self._copies.pop(node).restore():
                    descriptions.append(f"node {node}: {restored}")
                _make_durable(victims, node)
            if not victims.is_up(node):
                victims.launch(node)
        return "; ".join(descriptions)


def _make_durable(victims: Victims, node: int) -> None:
    """Make the present content of a stopped node's files durable.

    The files were changed beneath a simulated disk, which still holds older durable content."""
    if node in victims.disks:
        victims.disks[node].mark_durable()


def _draw_amount(fault: Fault, random: Random, drawn_from: Sequence[float]) -> float:
    """Return the amount that the fault names, else one drawn from `drawn_from`."""
    return random.choice(drawn_from) if fault.amount is None else fault.amount
