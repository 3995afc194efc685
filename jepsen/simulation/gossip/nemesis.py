"""Nemesis of gossip members: one event at a time in steady runs, otherwise all drawn faults; then recovery."""

from collections.abc import Callable

from jepsen.simulation.gossip.options import GossipFault
from jepsen.simulation.gossip.process import Process
from jepsen.simulation.gossip.watch import PERIODS_MAX, Watch
from jepsen.simulation.options import generator
from raftlog.membership.member import Claim

SEEDS = 3
"""Number of addresses that a process has at its start."""
EVENT_INTERVAL_S = 45.0
"""Time between two events of a steady run."""


class Nemesis:
    """Injector of faults into gossip members, drawn from one seed."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._world = watch.world
        self._options = watch.world.options
        self._random = generator(self._options.seed, "gossip nemesis")
        self._is_healed = False

    def start_members(self) -> None:
        """Start all members within two seconds, each with a few addresses.

        In a steady run all members are known to all from the start."""
        if self._options.is_steady:
            self._introduce_all()
            return
        for process in self._world.processes:
            self._world.call_at(self._random.random() * 2, lambda process=process: self._start(process))  # type: ignore[misc]

    def _introduce_all(self) -> None:
        """Start all processes as if each had already exchanged digests with all others.

        A hundred members that join at once would gossip for longer than the observed time."""
        processes = self._world.processes
        for process in processes:
            self._world.begin(process, ())
        claims = [_own_claim(process) for process in processes]
        for process in processes:
            process.swim.handle_frame(claims, process.sender, self._world.now)
            self._world.perform_actions(process)

    def _start(self, process: Process) -> None:
        """Start a process, unless it is up, with the addresses of a few processes, the first one included."""
        world = self._world
        if process.is_up:
            return
        up = [other for other in world.processes if other.is_up] or world.processes
        known = self._random.sample(up, min(SEEDS, len(up)))
        world.begin(process, [world.processes[0], *known])

    # steady runs

    def plan_single_events(self, first: float, last: float) -> None:
        """Schedule faults, mostly crashes, one at a time, each with a check ten periods later."""
        events = [self._crash_one, self._crash_one, self._leave_one, self._restart_one, self._change_description]
        if not self._options.loss:
            events += [self._pause_briefly, self._pause_briefly]
        when = first + self._random.random() * EVENT_INTERVAL_S
        while when < last - PERIODS_MAX * self._world.config.period_s:
            event = self._random.choice(events)
            self._world.call_at(when, event)
            when += EVENT_INTERVAL_S * self._random.uniform(0.5, 1.5)

    def _crash_one(self) -> None:
        """Crash a random process, and check ten periods later that all members report it as dead."""
        process = self._random_process()
        if process is not None:
            self._crash(process)
            self._check_known_later(process)

    def _leave_one(self) -> None:
        """Let a random process leave, and check ten periods later that all members report that."""
        process = self._random_process()
        if process is not None:
            self._leave_and_end(process)
            self._check_known_later(process)

    def _restart_one(self) -> None:
        """Start a random stopped process, and check ten periods later that all members report it as alive."""
        away = [process for process in self._world.processes if not process.is_up]
        if away:
            process = self._random.choice(away)
            self._start(process)
            self._check_known_later(process)

    def _change_description(self) -> None:
        """Give a random process a new description, and check ten periods later that all members have it."""
        process = self._random_process()
        if process is not None:
            self._draw_description(process)
            self._check_known_later(process)

    def _pause_briefly(self) -> None:
        """Pause a process for a while; afterwards all must report it as alive."""
        process = self._random_process()
        if process is not None:
            seconds = self._random.uniform(1, 30)
            starts = process.starts
            self._pause_for(process, seconds)
            when = self._world.now + seconds + PERIODS_MAX * self._world.config.period_s
            self._world.call_at(when, lambda: self._watch.check_known(process, starts))

    def _check_known_later(self, process: Process) -> None:
        """Check after ten periods that all members report the process's state."""
        starts = process.starts
        when = self._world.now + PERIODS_MAX * self._world.config.period_s
        self._world.call_at(when, lambda: self._watch.check_known(process, starts))

    def _random_process(self) -> Process | None:
        """Return a random process that is up; None unless two others remain."""
        up = [process for process in self._world.processes if process.is_running and not process.has_left]
        return self._random.choice(up) if len(up) > 2 else None

    # everything at once

    def plan_faults(self, first: float, last: float) -> None:
        """Schedule random faults at random times between `first` and `last`, each with a check of the queues."""
        when = first
        while self._options.faults and when < last:
            self._world.call_at(when, self._inject_fault)
            self._world.call_at(when, self._watch.check_queues_bounded)
            when += self._random.expovariate(1 / 6.0)

    def _inject_fault(self) -> None:
        """Inject one of the run's faults into a random process."""
        fault_functions: dict[GossipFault, Callable[[Process], None]] = {
            GossipFault.CRASH: self._crash_for_a_while,
            GossipFault.LEAVE: self._leave_for_a_while,
            GossipFault.PAUSE: lambda process: self._pause_for(process, self._random.uniform(1, 30)),
            GossipFault.STALL: lambda process: self._pause_for(process, self._random.uniform(0.1, 2)),
            GossipFault.HALVES: self._cut_into_halves,
            GossipFault.ISOLATED: self._isolate,
            GossipFault.ONE_WAY: self._cut_one_way,
            GossipFault.LOSSY: self._make_lossy,
            GossipFault.WIPE: self._wipe,
            GossipFault.DESCRIBE: self._draw_description,
        }
        process = self._random_process()
        if process is not None:
            fault_functions[self._random.choice(self._options.faults)](process)

    def _crash(self, process: Process) -> None:
        """Kill the process without an announcement."""
        self._world.note(process, "is killed")
        process.end(self._world.now)

    def _crash_for_a_while(self, process: Process) -> None:
        """Kill the process, and in most cases start it again within 20 seconds."""
        self._crash(process)
        if self._random.random() < 0.7:
            self._world.call_at(self._world.now + self._random.uniform(0.1, 20), lambda: self._start(process))

    def _leave_and_end(self, process: Process) -> None:
        """Make a process announce its departure, and end it a second later."""
        self._world.note(process, "leaves")
        process.swim.leave(self._world.now)
        process.has_left = True
        self._world.perform_actions(process)
        starts = process.starts
        self._world.call_at(
            self._world.now + 1, lambda: process.end(self._world.now) if process.starts == starts else None
        )

    def _leave_for_a_while(self, process: Process) -> None:
        """Let the process leave, and in most cases start it again within 20 seconds."""
        self._leave_and_end(process)
        if self._random.random() < 0.7:
            self._world.call_at(self._world.now + self._random.uniform(2, 20), lambda: self._start(process))

    def _pause_for(self, process: Process, seconds: float) -> None:
        """Pause the process, and resume it after this time, unless it was restarted."""
        self._world.pause(process)
        starts = process.starts
        self._world.call_at(
            self._world.now + seconds, lambda: self._world.resume(process) if process.starts == starts else None
        )

    def _cut_into_halves(self, _process: Process) -> None:
        """Cut all links between two random halves of the members."""
        members = list(self._world.processes)
        self._random.shuffle(members)
        middle = len(members) // 2
        self._cut(members[:middle], members[middle:], both=True)

    def _isolate(self, process: Process) -> None:
        """Cut all links of this process."""
        self._cut([process], [other for other in self._world.processes if other is not process], both=True)

    def _cut_one_way(self, process: Process) -> None:
        """Cut the links from this process to some others; the other direction stays open."""
        others = [other for other in self._world.processes if other is not process]
        some = self._random.sample(others, self._random.randint(1, len(others)))
        self._cut([process], some, both=False)

    def _cut(self, senders: list[Process], receivers: list[Process], *, both: bool) -> None:
        """Cut the links from the senders to the receivers, with `both` also back; all cuts end within 40 seconds."""
        names = ", ".join(process.name for process in senders)
        self._world.note(None, f"nothing gets from {names} to {len(receivers)} others{', nor back' if both else ''}")
        self._world.cut(senders, receivers)
        if both:
            self._world.cut(receivers, senders)
        self._world.call_at(self._world.now + self._random.uniform(1, 40), self._repair)

    def _repair(self) -> None:
        """End all cuts."""
        self._world.note(None, "all ways are open")
        self._world.blocked.clear()

    def _make_lossy(self, _process: Process) -> None:
        """Lose a third of all datagrams for up to 20 seconds."""
        self._world.note(None, "a third of all datagrams is lost")
        self._world.loss = 0.3
        self._world.call_at(self._world.now + self._random.uniform(1, 20), self._restore_loss)

    def _restore_loss(self) -> None:
        """Restore the run's own loss, unless the faults have ended."""
        if not self._is_healed:
            self._world.loss = self._options.loss

    def _wipe(self, process: Process) -> None:
        """Kill the process, replace its disk, and start it again within 20 seconds."""
        self._crash(process)
        process.wipe()
        self._world.call_at(self._world.now + self._random.uniform(0.1, 20), lambda: self._start(process))

    def _draw_description(self, process: Process) -> None:
        """Give the process a random new description."""
        process.description = bytes([self._random.randrange(256)]) * self._options.description_bytes
        process.swim.set_description(process.description, self._world.now)
        self._world.perform_actions(process)

    # the end

    def heal(self) -> None:
        """End all network faults and resume all paused processes; most stopped processes stay stopped."""
        self._world.note(None, "everything heals")
        self._is_healed = True
        self._world.loss = 0.0
        self._world.blocked.clear()
        for process in self._world.processes:
            self._world.resume(process)


def _own_claim(process: Process) -> Claim:
    """Return the claim that a process makes about itself."""
    me = process.swim.member(process.node_id)
    assert me is not None, process.name
    return Claim(me.node_id, me.disk_uuid, me.incarnation, me.state, me.node_id, 0, me.about)
