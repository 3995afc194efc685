"""Run of one seed of whole brokers, or of their founding: inject faults, check the recovery."""

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jepsen.simulation.brokers import founding
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.convergence import Convergence
from jepsen.simulation.brokers.nemesis import Nemesis
from jepsen.simulation.brokers.options import BrokerOptions, draw, draw_group_options, draw_record_options
from jepsen.simulation.brokers.site import Site, SiteOptions
from jepsen.simulation.brokers.workload.workload import Workload
from jepsen.simulation.outcome import Failure, Outcome, failure_of, log_to_timeline, shape_of
from jepsen.simulation.verdicts import PropertyBroken, reraise_recorded


def simulate_brokers(
    seed: int,
    options: BrokerOptions | None = None,
    level: str = "broker",
    *,
    unordered_syncs: bool = False,
    lost_files: bool = False,
    early_changes: bool = False,
    growth: bool = False,
    kafka: bool = False,
    transactions: bool = False,
) -> Outcome:
    """Run a seed to its end or to the first broken property.

    The arguments after `level` switch on features that the seed does not choose."""
    options = options or draw(seed)
    if unordered_syncs:
        options = replace(options, unordered_syncs=True)
    if lost_files:
        options = options.with_lost_files()
    if early_changes:
        options = options.with_early_changes()
    if growth:
        options = replace(options, growth=True)
    if kafka:
        options = options.with_kafka()
    if transactions:
        options = options.with_transactions()
    cluster = BrokerCluster(options)
    workload = Workload(cluster)

    def run() -> None:
        """Start the cluster, inject faults, and check the recovery. Raises `PropertyBroken`."""
        nemesis = Nemesis(cluster, cluster.random("nemesis"))
        cluster.start()
        nemesis.start()
        workload.start()
        cluster.loop.run_until_time(options.safety_s)
        Convergence(cluster, workload, nemesis).check()

    shape = shape_of(
        unordered_syncs=options.unordered_syncs,
        lost_files=options.lost_files,
        early_changes=options.early_changes is not None,
        growth=options.growth,
        kafka=options.kafka and not options.transactions,
        transactions=options.transactions,
    )
    return _simulate(level, cluster, options, run, workload.acknowledged, shape)


def simulate_groups(seed: int, *, unordered_syncs: bool = False) -> Outcome:
    """Simulate brokers with a focus on consumer groups."""
    return simulate_brokers(seed, draw_group_options(seed), "groups", unordered_syncs=unordered_syncs)


def simulate_records(seed: int, *, unordered_syncs: bool = False) -> Outcome:
    """Simulate brokers with a focus on idempotent producers, compaction, and deletion of records."""
    return simulate_brokers(seed, draw_record_options(seed), "records", unordered_syncs=unordered_syncs)


def simulate_founding(
    seed: int, options: founding.FoundingOptions | None = None, *, unordered_syncs: bool = False
) -> Outcome:
    """Simulate the founding of a cluster."""
    options = options or founding.draw(seed)
    if unordered_syncs:
        options = replace(options, unordered_syncs=True)
    site = founding.Founding(options)
    shape = shape_of(unordered_syncs=options.unordered_syncs)
    return _simulate("founding", site, options, site.run, lambda: len(site.taken), shape)


def _simulate(
    level: str,
    site: Site[Any],
    options: SiteOptions,
    run: Callable[[], None],
    acknowledged: Callable[[], int],
    shape: str,
) -> Outcome:
    """Execute `run`, and return its outcome with the failure, if a property was broken, and statistics."""
    began = time.process_time()
    gc.disable()  # a run is short, and what it leaves behind is collected at once
    failure: Failure | None = None
    PropertyBroken.raised.clear()
    site.loop.after_step = reraise_recorded
    try:
        with log_to_timeline(site.loop):
            run()
    except Exception as error:  # noqa: BLE001 - whatever ends a run is its outcome
        failure = failure_of(site.loop, error)
    trace = site.loop.trace
    digest, steps, virtual_s = trace.digest(), trace.steps, site.loop.now_ns / 1e9
    site.close()
    gc.enable()
    gc.collect()
    cpu_s = time.process_time() - began
    return Outcome(options.seed, failure, str(options), digest, virtual_s, cpu_s, steps, acknowledged(), level, shape)
