"""Options of one run of whole brokers, drawn from its seed; the report of a failure contains them.

Sizes are small and times are short on purpose: segments roll, checkpoints are written, followers fall behind, topics
are created and deleted within half a minute of virtual time. Each run gets a subset of the faults."""

from dataclasses import dataclass, fields, replace
from random import Random
from typing import Final

from jepsen.simulation.brokers.elasticity import NONE as NO_ELASTICITY
from jepsen.simulation.brokers.elasticity import Elasticity, draw_elasticity
from jepsen.simulation.brokers.workload.uses import (
    PRODUCERS_MAX,
    WorkloadFeatures,
    draw_once,
    draw_uses,
    with_small_tables,
)
from jepsen.simulation.network.links import MICROSECOND_NS, MILLISECOND_NS, LinkConditions
from jepsen.simulation.options import KIB, AppendDeferral, Fault, draw_deferral, draw_link, format_option, generator
from raftlog.raft import RaftSettings
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig

BROKERS_MAX: Final = 5
FAULTS: Final = (
    Fault.CRASH,
    Fault.POWER,
    Fault.PAUSE,
    Fault.CLOCK,
    Fault.HALVES,
    Fault.RING,
    Fault.BRIDGE,
    Fault.ISOLATED,
    Fault.ONE_WAY,
    Fault.LOSSY,
    Fault.RESET,
    Fault.SLOW_DISK,
    Fault.FAILED_SYNC,
    Fault.FULL_DISK,
    Fault.STALLED_DISK,
    Fault.READ_ERROR,
    Fault.DAMAGE,
    Fault.SMALL_FILE,
    Fault.JOURNAL,
    Fault.WIPE,
    Fault.STALE,
    Fault.ABSENCE,
    Fault.AMBUSH,
    Fault.TRANSFER,
    Fault.MEMBERS,
    Fault.ROLLING,
)
"""Faults that exist at this level. A rolling restart stops each broker in an orderly way."""
FOCUS: Final = (
    Fault.DAMAGE,
    Fault.READ_ERROR,
    Fault.SMALL_FILE,
    Fault.STALLED_DISK,
    Fault.FULL_DISK,
    Fault.FAILED_SYNC,
    Fault.JOURNAL,
    Fault.WIPE,
    Fault.STALE,
    Fault.ABSENCE,
    Fault.AMBUSH,
    Fault.MEMBERS,
)
"""Faults; in a run up to two of them occur more often than the others."""
FOCUSED: Final = (
    Fault.CRASH,
    Fault.POWER,
    Fault.PAUSE,
    Fault.CLOCK,
    Fault.HALVES,
    Fault.ISOLATED,
    Fault.LOSSY,
    Fault.RESET,
    Fault.SLOW_DISK,
    Fault.ABSENCE,
    Fault.AMBUSH,
    Fault.TRANSFER,
)
"""Faults of a cluster in which clients have faults of their own."""
LOSSES: Final = (Fault.JOURNAL, Fault.WIPE, Fault.STALE)
"""Faults that a Raft group of one or two replicas does not survive."""
FOCUS_WEIGHT: Final = 4
EARLY_FAULTS: Final = (
    Fault.CRASH,
    Fault.POWER,
    Fault.PAUSE,
    Fault.ISOLATED,
    Fault.HALVES,
    Fault.LOSSY,
    Fault.STALLED_DISK,
)
"""Faults of which two are added to a run that changes new topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipOptions:
    """Options of gossip in one run."""

    shares_cuts: bool
    """Whether cuts of connections cut gossip as well."""
    interference: float
    """Share of datagrams after which an old, garbled or forged one is sent."""
    loss: float
    """Share of all datagrams that are lost without a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyChangeOptions:
    """Options of changes of new topics in one run (`workload.early_changes`)."""

    operators: int
    pause_s: float
    """Average time between two topics of an operator, in seconds."""
    rivals: float
    """Chance that another request moves the topic at the same time."""
    strikes: float
    """Chance of a crash or isolation of one of the topic's first brokers."""
    kept_max: int
    """Number of topics of an operator above which it deletes the oldest."""


ADDED_MAX = 3
"""Largest number of partitions that are added to a topic at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """Options of one run. Times of the simulation in seconds, of the product in milliseconds, sizes in bytes."""

    seed: int
    seeds: int
    """Brokers that found the cluster."""
    joiners: int
    """Brokers that join it later."""
    rough_start: float
    """Chance that a broker is disturbed while the cluster is founded."""
    topics: int
    """Number of topic names; under each name topics are created and deleted again and again."""
    partitions_max: int
    topic_life_s: float
    """Average lifetime of a topic, in seconds."""
    link: LinkConditions
    disk_delays_ns: tuple[int, ...]
    drift_ppm: int
    factors: tuple[int | None, ...]
    """Possible replication factors of a topic; None stands for the broker's default."""
    segment_bytes: int
    retention_bytes: int | None
    large_append_bytes: int
    recent_bytes_max: int
    deferral: AppendDeferral
    fetch_bytes_min: int
    """Missing bytes above which a follower fetches entries over the bulk connection."""
    transfer_window_bytes: int
    transfers_max: int
    journal_file_bytes: int
    checkpoint_interval_ms: int
    quiesce_after_ticks: int
    metadata_growth_bytes: int
    scrub_s: float
    """Approximate duration of one round of the background scrub; 0: no scrub."""
    producers: int
    """Total number of producers, and of readers."""
    readers: int
    committers: int
    """Clients that commit offsets of groups."""
    pause_ms: int
    value_bytes: int
    answer_loss: float
    faults: tuple[Fault, ...]
    """Faults to draw from evenly; a fault that occurs several times here is drawn more often."""
    quiet: float
    safety_s: float
    start_s: float
    """Longest time, in seconds, from the start, or from healing, until all brokers serve."""
    progress_s: float
    """Longest time from then until every partition has accepted a write."""
    convergence_s: float
    elasticity: Elasticity
    gossip: GossipOptions | None
    """Options of gossip; None: it is switched off."""
    uses: WorkloadFeatures
    unordered_syncs: bool = False
    """Whether syncs of a disk complete independently (`sync_delays`); not drawn, only on request."""
    lost_files: bool = False
    """Whether small files are also cut, emptied and removed (`small_files`); not drawn, only on request."""

    early_changes: EarlyChangeOptions | None = None
    """Changes of topics within milliseconds of their creation; not drawn, only on request."""
    growth: bool = False
    """Whether administrators also add partitions to their topics; not drawn, only on request."""
    transactions: bool = False
    """Whether clients of Kafka's protocol also write in transactions; not drawn, only on request."""
    kafka: bool = False
    """Whether brokers also serve Kafka's protocol, to clients with a topic of their own; not drawn, only on request."""

    @property
    def numbers_max(self) -> int:
        """Bound of the partition numbers that clients draw, not included; a topic may have fewer partitions."""
        return self.partitions_max + (ADDED_MAX if self.growth or self.early_changes else 0)

    def with_lost_files(self) -> "BrokerOptions":
        """Return a copy of the options with frequent losses of small files."""
        return replace(self, lost_files=True, faults=(*self.faults, *(Fault.SMALL_FILE,) * FOCUS_WEIGHT))

    def with_early_changes(self) -> "BrokerOptions":
        """Return a copy of the options with changes of new topics, often with a broker that can be spared.

        Most runs lose no disks, so that topics can have one replica."""
        random = generator(self.seed, "early changes")
        kept = self.faults if random.random() < 0.3 else tuple(fault for fault in self.faults if fault not in LOSSES)
        return replace(
            self,
            early_changes=EarlyChangeOptions(
                operators=random.choice((1, 2)),
                pause_s=random.choice((0.3, 1.0)),
                rivals=random.choice((0.0, 0.3)),
                strikes=random.choice((0.0, 0.2, 0.5)),
                kept_max=random.choice((1, 3)),
            ),
            joiners=self.joiners + min(BROKERS_MAX - self.brokers, random.choice((0, 1, 2))),
            faults=(*kept, *random.sample(EARLY_FAULTS, 2)),
            elasticity=replace(self.elasticity, returns=max(self.elasticity.returns, 0.5)),
            progress_s=2 * self.progress_s,
        )

    def with_kafka(self) -> "BrokerOptions":
        """Return a copy of the options with clients of Kafka's protocol, and without expiry of producers."""
        return replace(self, kafka=True, uses=replace(self.uses, producers_max=PRODUCERS_MAX))

    def with_transactions(self) -> "BrokerOptions":
        """Return a copy of the options with clients of Kafka's protocol that write in transactions."""
        return replace(self.with_kafka(), transactions=True)

    @property
    def brokers(self) -> int:
        """Number of all brokers, late ones included."""
        return self.seeds + self.joiners + self.elasticity.late_joiners

    @property
    def least_brokers(self) -> int:
        """Number of brokers that the replication factors of the topics need."""
        return max(factor or 1 for factor in self.factors)

    @property
    def loses_disks(self) -> bool:
        """Whether disks are lost, so that no Raft group may have fewer than three replicas."""
        return any(fault in LOSSES for fault in self.faults)

    def driver_config(self) -> DriverConfig:
        """Return the configuration of the brokers' drivers."""
        file_bytes = self.journal_file_bytes
        return DriverConfig(
            tick_ms=100,
            raft=RaftSettings(
                election_ticks_min=8,
                quiesce_after_ticks=self.quiesce_after_ticks,
                message_bytes_max=32 * KIB,
                in_flight_bytes_max=128 * KIB,
                fetch_bytes_min=self.fetch_bytes_min,
                deferred_bytes_max=self.deferral.bytes_max,
            ),
            journal=JournalConfig(
                file_bytes=file_bytes,
                write_bytes_max=file_bytes // 2,
                pending_bytes_max=256 * KIB,
                reserve_bytes=16 * KIB,
                checkpoint_bytes=2 * file_bytes,
                journal_bytes_max=16 * file_bytes,
                spare_files_max=2,
            ),
            large_append_bytes=self.large_append_bytes,
            recent_bytes_max=self.recent_bytes_max,
            deferral_ms=self.deferral.delay_ms,
            quorum_wait_ms=self.deferral.quorum_wait_ms,
            checkpoint_interval_ms=self.checkpoint_interval_ms,
            transfer_chunk_bytes=16 * KIB,
            transfer_timeout_ms=2_000,
            transfer_window_bytes=self.transfer_window_bytes,
            transfers_max=self.transfers_max,
        )

    def __str__(self) -> str:
        """Return one option per line."""
        return "\n".join(f"{field.name} = {format_option(getattr(self, field.name))}" for field in fields(self))


def draw(seed: int) -> BrokerOptions:
    """Return the options of a seed."""
    random = generator(seed, "broker options")
    seeds = random.choice((3, 3, 3, 1, 4))
    faults = _draw_faults(random)
    loses_disks = any(fault in LOSSES for fault in faults)
    is_short = Fault.ABSENCE in faults and random.random() < 0.8
    gossip = _draw_gossip(generator(seed, "gossip options"))
    joiners = random.choice((0, 0, 1, 2)) if seeds < BROKERS_MAX - 1 else random.choice((0, 1))
    return BrokerOptions(
        seed=seed,
        seeds=seeds,
        joiners=joiners,
        rough_start=random.choice((0.0, 0.3, 0.7)),
        topics=random.choice((1, 2, 3)),
        partitions_max=random.choice((1, 2, 3)),
        topic_life_s=random.choice((3.0, 8.0, 20.0)),
        link=draw_link(random),
        disk_delays_ns=tuple(
            random.choice((100 * MICROSECOND_NS, 2 * MILLISECOND_NS, 20 * MILLISECOND_NS)) for _ in range(BROKERS_MAX)
        ),
        drift_ppm=random.choice((0, 200, 50_000)),
        factors=(3,) if loses_disks and seeds >= 3 else (None, None, 1, min(seeds, 3)),
        segment_bytes=(4 if is_short else random.choice((4, 16, 64))) * KIB,
        retention_bytes=12 * KIB if is_short else random.choice((None, None, 12 * KIB)),
        large_append_bytes=random.choice((600, 2 * KIB, 64 * KIB)),
        recent_bytes_max=random.choice((1, 2 * KIB, 1 << 20)),
        deferral=draw_deferral(seed),
        fetch_bytes_min=random.choice((1, 8, 16 * KIB)) * KIB,
        transfer_window_bytes=random.choice((4, 4 * KIB)) * KIB,
        transfers_max=random.choice((1, 4)),
        journal_file_bytes=random.choice((64, 128)) * KIB,
        checkpoint_interval_ms=random.choice((700, 3_000)),
        quiesce_after_ticks=random.choice((0, 10, 28)),
        metadata_growth_bytes=random.choice((16 * KIB, 64 * KIB)),
        scrub_s=random.choice((0.0, 5.0, 60.0)),
        producers=random.choice((1, 2, 3)),
        readers=random.choice((1, 2)),
        committers=random.choice((0, 1, 2)),
        pause_ms=50 if is_short else random.choice((50, 200, 600)),
        value_bytes=1500 if is_short else random.choice((40, 300, 1500)),
        answer_loss=random.choice((0.0, 0.05)),
        faults=faults if gossip is None or not faults else (*faults, Fault.GOSSIP, Fault.GOSSIP),
        quiet=0.25,
        safety_s=30.0,
        start_s=30.0,
        progress_s=20.0,
        convergence_s=60.0,
        elasticity=draw_elasticity(generator(seed, "elasticity"), BROKERS_MAX - seeds - joiners),
        gossip=gossip,
        uses=_draw_uses(generator(seed, "uses")),
    )


def draw_group_options(seed: int) -> BrokerOptions:
    """Return options with consumer groups, in a cluster of three with few other faults."""
    uses = draw_uses(generator(seed, "sharing"), members=True, records=False)
    return _focus_options(draw(seed), uses, generator(seed, "sharing faults"))


def draw_record_options(seed: int) -> BrokerOptions:
    """Return options with idempotent producers, compaction and deletion of records."""
    uses = draw_uses(generator(seed, "keeping"), members=False, records=True)
    uses = draw_once(generator(seed, "keys written once"), uses)
    uses = with_small_tables(uses, generator(seed, "producer tables"))
    return _focus_options(draw(seed), uses, generator(seed, "keeping faults"))


def _focus_options(options: BrokerOptions, uses: WorkloadFeatures, random: Random) -> BrokerOptions:
    """Return a copy for a cluster of three with one topic and few other faults, which uses these features."""
    return replace(
        options,
        seeds=3,
        joiners=0,
        rough_start=0.0,
        topics=1,
        partitions_max=random.choice((1, 2, 3)),
        topic_life_s=60.0,
        factors=(3,),
        segment_bytes=4 * KIB,
        retention_bytes=None if uses.compacted else random.choice((None, 12 * KIB)),
        value_bytes=random.choice((40, 300)),
        producers=1,
        readers=1,
        committers=1,
        pause_ms=random.choice((50, 100)),
        safety_s=20.0,
        answer_loss=random.choice((0.02, 0.1)),
        quiesce_after_ticks=0,
        faults=tuple(fault for fault in FOCUSED if random.random() < 0.5),
        elasticity=NO_ELASTICITY,
        gossip=None,
        uses=uses,
    )


def _draw_uses(random: Random) -> WorkloadFeatures:
    """Draw the features that clients use, at the level of whole brokers."""
    return draw_uses(random, members=random.random() < 0.4, records=random.random() < 0.4)


def _draw_gossip(random: Random) -> GossipOptions | None:
    """Draw the options of gossip; None to switch it off."""
    if random.random() < 0.4:
        return None
    return GossipOptions(
        shares_cuts=random.random() < 0.6,
        interference=random.choice((0.0, 0.02, 0.2)),
        loss=random.choice((0.0, 0.05, 0.3)),
    )


def _draw_faults(random: Random) -> tuple[Fault, ...]:
    """Draw a share of all faults, and up to two that occur more often."""
    share = random.choice((0.15, 0.3, 0.6))
    several = [fault for fault in FAULTS if random.random() < share]
    focus = random.sample(FOCUS, random.choice((0, 1, 2)))
    return (*several, *(fault for fault in focus for _ in range(FOCUS_WEIGHT)))
