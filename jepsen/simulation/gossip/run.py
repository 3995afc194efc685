"""Run of one seed of gossip: inject faults into the members, end them, check that all agree."""

import gc
import time
import traceback

from jepsen.simulation.gossip.nemesis import Nemesis
from jepsen.simulation.gossip.options import GossipOptions, draw, draw_steady
from jepsen.simulation.gossip.watch import Watch
from jepsen.simulation.outcome import TIMELINE_LINES, Failure, Outcome
from jepsen.simulation.verdicts import PropertyBroken

FOUNDING_S = 15.0
"""Time, in seconds, within which all members of a new cluster of a hundred know each other."""


def simulate_gossip(seed: int, members: int | None = None, loss: float | None = None) -> Outcome:
    """Run a seed to its end or to the first broken property.

    With `members` or `loss` the run is steady and takes ten minutes; the defaults are 100 members and a loss of
    0.05."""
    if members is None and loss is None:
        return simulate_options(draw(seed))
    options = draw_steady(seed, members=members or 100, loss=0.05 if loss is None else loss)
    return simulate_options(options)._replace(shape=f" --members {options.members} --loss {options.loss}")


def simulate_options(options: GossipOptions) -> Outcome:
    """Run a simulation with these options to its end or to the first broken property."""
    return simulate_watched(Watch(options))


def simulate_watched(watch: Watch) -> Outcome:
    """Run a simulation with the caller's observer, which the caller can inspect afterwards."""
    options, world = watch.world.options, watch.world
    began = time.process_time()
    gc.disable()  # a run is short, and what it leaves behind is collected at once
    PropertyBroken.raised.clear()
    failure: Failure | None = None
    try:
        _run(watch, Nemesis(watch))
    except PropertyBroken as broken:
        failure = Failure(broken.name, str(broken), True, watch.world.trace.timeline(TIMELINE_LINES))
    except Exception as error:  # noqa: BLE001 - whatever ends a run is its outcome
        text = "".join(traceback.format_exception(error))
        failure = Failure(type(error).__name__, text, False, watch.world.trace.timeline(TIMELINE_LINES))
    gc.enable()
    cpu_s = time.process_time() - began
    return Outcome(
        options.seed, failure, str(options), world.trace.digest(), world.now, cpu_s, world.datagrams, 0, "gossip"
    )


def _run(watch: Watch, nemesis: Nemesis) -> None:
    """Start the members, inject the faults, end them, and check the views. Raises `PropertyBroken`."""
    options, world = watch.world.options, watch.world
    nemesis.start_members()
    world.run_until(FOUNDING_S)
    before = world.bytes
    if options.is_steady:
        nemesis.plan_single_events(FOUNDING_S, options.safety_s)
    else:
        nemesis.plan_faults(FOUNDING_S, options.safety_s)
    world.run_until(options.safety_s)
    if options.is_steady:
        watch.check_traffic(world.bytes - before, options.safety_s - FOUNDING_S)
    nemesis.heal()
    world.run_until(options.safety_s + options.settling_s)
    watch.check_agreement()
