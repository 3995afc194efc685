"""Options of one run, drawn from its seed; the report of a failure contains them.

Sizes are small and times are short on purpose, so that segments roll, checkpoints are written, followers fall behind
and Raft groups quiesce within a minute of virtual time. Each run gets a subset of the faults (swarm testing): a run
with few kinds reaches states that a run with all of them always disturbs."""

from dataclasses import dataclass, fields, replace
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from jepsen.simulation.network.links import MICROSECOND_NS, MILLISECOND_NS, LinkConditions
from raftlog.raft import RaftSettings
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig

KIB: Final = 1024
MACHINES_MAX: Final = 6


class Scenario(Enum):
    """Subject of a run: all faults at once, or one promise in a cluster without other faults."""

    EVERYTHING = "everything"
    FLAPPING = "flapping"
    """One follower is cut off and reconnected repeatedly: it never deposes a healthy leader."""
    QUIESCED = "sleeping"
    """The leader of a quiesced group crashes: another one is elected within the bound."""


class Fault(Enum):
    """Kinds of faults; their effects are in `nemesis`."""

    CRASH = "crash"
    POWER = "power loss"
    PAUSE = "pause"
    CLOCK = "clock"
    HALVES = "halves"
    RING = "majorities ring"
    BRIDGE = "bridge"
    ISOLATED = "isolated node"
    ONE_WAY = "one-way cut"
    LOSSY = "lossy links"
    RESET = "stream reset"
    SLOW_DISK = "slow disk"
    FAILED_SYNC = "failed sync"
    FULL_DISK = "full disk"
    DAMAGE = "damaged segment"
    JOURNAL = "damaged journal"
    WIPE = "wiped disk"
    MEMBERS = "membership change"
    TRANSFER = "leadership transfer"
    TRIM = "trim"
    ROLLING = "rolling restart"
    AMBUSH = "ambush"
    """A fault that waits for a certain moment: a vote, a commit, a cut, a new leader, the offer of a log."""
    STALLED_DISK = "stalled disk"
    """Each sync takes from a fraction of a second to several seconds."""
    READ_ERROR = "read error"
    SMALL_FILE = "damaged small file"
    ABSENCE = "long absence"
    """A node is absent for so long that the others have deleted the entries that it lacks."""
    STALE = "stale disk"
    """A disk returns to an earlier state."""
    GOSSIP = "blocked gossip"
    """Gossip is cut off or lossy; other connections are not affected."""


BROKERS_ONLY: Final = (
    Fault.STALLED_DISK,
    Fault.READ_ERROR,
    Fault.SMALL_FILE,
    Fault.ABSENCE,
    Fault.STALE,
    Fault.GOSSIP,
)
DRIVER_FAULTS: Final = tuple(fault for fault in Fault if fault not in BROKERS_ONLY)
"""Faults of clusters of drivers."""


class AppendDeferral(NamedTuple):
    """Settings of deferred appends, which followers beyond the quorum get later.

    An append of up to `bytes_max` bytes is deferred for `delay_ms`, or for `quorum_wait_ms` if the quorum has not
    committed it by then. With `bytes_max` 0 no append is deferred."""

    bytes_max: int
    delay_ms: int
    quorum_wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one run. Times are in seconds, those of the product in ticks or milliseconds, sizes in bytes."""

    seed: int
    scenario: Scenario
    nodes: int
    """Number of nodes with a replica of every Raft group from the start."""
    spares: int
    """Number of nodes without replicas until a change of a Raft configuration adds them."""
    groups: int
    streams: bool
    """Whether messages use an ordered stream per pair of nodes, as TCP; otherwise lossy, unordered datagrams."""
    link: LinkConditions
    disk_delays_ns: tuple[int, ...]
    """Longest time of a sync, one for each machine; a slow disk takes up to a hundred times as long."""
    drift_ppm: int
    """Largest drift of a clock."""
    tick_ms: int
    election_ticks_min: int
    heartbeat_ticks: int
    quiesce_after_ticks: int
    entries_per_message_max: int
    in_flight_entries_max: int
    segment_bytes: int
    large_append_bytes: int
    recent_bytes_max: int
    deferral: AppendDeferral
    checkpoint_interval_ms: int
    journal_file_bytes: int
    producers: int
    """Number of producers per group, and of readers."""
    readers: int
    pause_ms: int
    """Mean time between an answer and the next request of a producer."""
    value_bytes: int
    """Largest size of a value."""
    answer_loss: float
    """Share of answers that never reach the client."""
    faults: tuple[Fault, ...]
    quiet: float
    """Share of periods without faults."""
    safety_s: float
    progress_s: float
    """Longest time, in seconds, from healing until every Raft group accepts a write."""
    convergence_s: float
    """Longest time from then until all replicas have recovered; logs may be fetched over slow links."""
    unordered_syncs: bool = False
    """Whether syncs of a disk complete independently (`sync_delays`); not drawn, only on request."""
    cut_ambushes: bool = False
    """Whether logs are cut while syncs of their segments are pending (`cut_ambushes`); not drawn, only on request."""

    def driver_config(self) -> DriverConfig:
        """Return the configuration of the drivers."""
        return DriverConfig(
            tick_ms=self.tick_ms,
            raft=RaftSettings(
                election_ticks_min=self.election_ticks_min,
                heartbeat_ticks=self.heartbeat_ticks,
                quiesce_after_ticks=self.quiesce_after_ticks,
                entries_per_message_max=self.entries_per_message_max,
                message_bytes_max=32 * KIB,
                in_flight_bytes_max=128 * KIB,
                in_flight_entries_max=self.in_flight_entries_max,
                deferred_bytes_max=self.deferral.bytes_max,
            ),
            journal=JournalConfig(
                file_bytes=self.journal_file_bytes,
                write_bytes_max=self.journal_file_bytes // 2,
                pending_bytes_max=256 * KIB,
                reserve_bytes=16 * KIB,
                checkpoint_bytes=2 * self.journal_file_bytes,
                journal_bytes_max=16 * self.journal_file_bytes,
                spare_files_max=2,
            ),
            segment_bytes=self.segment_bytes,
            large_append_bytes=self.large_append_bytes,
            recent_bytes_max=self.recent_bytes_max,
            deferral_ms=self.deferral.delay_ms,
            quorum_wait_ms=self.deferral.quorum_wait_ms,
            checkpoint_interval_ms=self.checkpoint_interval_ms,
            transfer_chunk_bytes=max(4 * KIB, 16 * self.value_bytes),
            transfer_timeout_ms=2_000,
        )

    @property
    def election_s(self) -> float:
        """Longest election timeout in seconds: twice the minimum."""
        return 2 * self.election_ticks_min * self.tick_ms / 1000

    def with_cut_ambushes(self) -> "Options":
        """Return a copy of the options that cuts logs while segments are synced, with many large appends.

        Appends above `large_append_bytes` are synced in their segments, not in the journal."""
        return replace(
            self,
            cut_ambushes=True,
            unordered_syncs=True,
            large_append_bytes=min(self.large_append_bytes, 600),
            value_bytes=max(self.value_bytes, 300),
        )

    def __str__(self) -> str:
        """Return one option per line."""
        return "\n".join(f"{field.name} = {format_option(getattr(self, field.name))}" for field in fields(self))


def format_option(value: object) -> str:
    """Return the value of an option as text for the report."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, LinkConditions):
        usual = LinkConditions()
        named = zip(LinkConditions._fields, usual, value, strict=True)
        return ", ".join(f"{name}={new}" for name, old, new in named if new != old) or "as usual"
    if isinstance(value, tuple):
        return ", ".join(map(format_option, value)) or "none"
    return str(value)


def generator(*names: object) -> Random:
    """Return the random generator of one part of a run: the same names give the same numbers with any hash seed."""
    return Random("/".join(map(str, names)))  # noqa: S311 - chance that can be repeated, not secrets


def draw(seed: int) -> Options:
    """Return the options of a seed."""
    random = generator(seed, "options")
    scenario = random.choices(list(Scenario), (18, 1, 1))[0]
    everything = Options(
        seed=seed,
        scenario=Scenario.EVERYTHING,
        nodes=random.choice((3, 3, 3, 3, 5)),
        spares=random.choice((0, 1)),
        groups=random.choice((1, 1, 1, 2, 3)),
        streams=random.random() < 0.4,
        link=draw_link(random),
        disk_delays_ns=tuple(
            random.choice((100 * MICROSECOND_NS, 2 * MILLISECOND_NS, 20 * MILLISECOND_NS)) for _ in range(MACHINES_MAX)
        ),
        drift_ppm=random.choice((0, 200, 50_000)),
        tick_ms=100,
        election_ticks_min=random.choice((6, 8)),
        heartbeat_ticks=2,
        quiesce_after_ticks=random.choice((0, 0, 5, 20)),
        entries_per_message_max=random.choice((1, 4, 1024)),
        in_flight_entries_max=_draw_and_skip(random, random.choice((8, 64, 8192))),
        segment_bytes=random.choice((4, 8, 24)) * KIB,
        large_append_bytes=random.choice((600, 2 * KIB, 64 * KIB)),
        recent_bytes_max=random.choice((1, 2 * KIB, 1 << 20)),
        deferral=draw_deferral(seed),
        checkpoint_interval_ms=random.choice((700, 3_000)),
        journal_file_bytes=random.choice((64, 128)) * KIB,
        producers=random.choice((1, 1, 2)),
        readers=random.choice((1, 1, 2)),
        pause_ms=random.choice((50, 200, 600, 1000)),
        value_bytes=random.choice((40, 300, 2500)),
        answer_loss=random.choice((0.0, 0.05)),
        faults=_draw_faults(random),
        quiet=0.25,
        safety_s=40.0,
        progress_s=10.0,
        convergence_s=60.0,
    )
    return everything if scenario is Scenario.EVERYTHING else narrow_options(everything, scenario)


def _draw_and_skip(random: Random, value: int) -> int:
    """Make one unused draw, so that later draws of the kept seeds stay the same; return `value`."""
    random.random()
    return value


def narrow_options(options: Options, scenario: Scenario) -> Options:
    """Return a copy of the options without faults that could excuse a broken promise of the scenario."""
    single_purpose = replace(
        options,
        scenario=scenario,
        link=options.link._replace(loss=0.0, duplicate=0.0, reorder=0.0),
        disk_delays_ns=(2 * MILLISECOND_NS,) * MACHINES_MAX,
        drift_ppm=0,
        spares=0,
        faults=(),
        safety_s=25.0,
    )
    if scenario is Scenario.QUIESCED:
        return replace(single_purpose, quiesce_after_ticks=5, producers=1)
    return replace(single_purpose, quiesce_after_ticks=0)


def _draw_faults(random: Random) -> tuple[Fault, ...]:
    """Draw a few, some or most kinds of faults, often with the ambush, which reaches the rarest states."""
    share = random.choice((0.15, 0.3, 0.6))
    return tuple(fault for fault in DRIVER_FAULTS if random.random() < (0.7 if fault is Fault.AMBUSH else share))


def draw_deferral(seed: int) -> AppendDeferral:
    """Return the deferral of appends in half of the seeds, none in the others."""
    random = generator(seed, "deferral")
    bytes_max = random.choice((0, 0, 300, 16 * KIB))
    return AppendDeferral(bytes_max, random.choice((4, 4, 300)), random.choice((3, 300)))


def draw_link(random: Random) -> LinkConditions:
    """Return the conditions of the network without faults."""
    slow = random.choice((1, 5, 40))
    return LinkConditions(
        delay_min_ns=100 * MICROSECOND_NS,
        delay_max_ns=slow * MILLISECOND_NS,
        loss=random.choice((0.0, 0.0, 0.02)),
        duplicate=random.choice((0.0, 0.02)),
        reorder=random.choice((0.0, 0.05)),
    )
