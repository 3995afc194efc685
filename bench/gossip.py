"""Measures of the traffic of idle gossip, and of failure detection with a hundred members and lost datagrams."""

from bench.child import run_in_child
from bench.measure import Figure, Measure, Values, Workspace, require
from jepsen.simulation.gossip.nemesis import Nemesis
from jepsen.simulation.gossip.options import CONTRACT_S, draw_steady
from jepsen.simulation.gossip.run import FOUNDING_S, simulate_watched
from jepsen.simulation.gossip.watch import Watch
from raftlog.membership.member import MemberState

MEMBERS = 100
MANY = 500
LOSS = 0.05
SEEDS = (1, 2, 3)
IDLE_S = 120.0


def measure_idle(members: int) -> dict[str, float]:
    """Return the traffic per idle member, including exchanges of digests; in a child process."""
    watch = Watch(draw_steady(1, members=members, loss=0.0))
    Nemesis(watch).start_members()
    watch.world.run_until(FOUNDING_S)
    before = watch.world.bytes
    watch.world.run_until(FOUNDING_S + IDLE_S)
    return {"kb_per_s": (watch.world.bytes - before) / IDLE_S / members / 1000}


def run_cost(_workspace: Workspace) -> Values:
    return {f"members_{count}": run_in_child(measure_idle, members=count)["kb_per_s"] for count in (MEMBERS, MANY)}


def measure_lossy(seed: int) -> dict[str, float]:
    """Simulate ten minutes with lost datagrams once; in a child process."""
    watch = Watch(draw_steady(seed, members=MEMBERS, loss=LOSS))
    outcome = simulate_watched(watch)
    failure = outcome.failure
    require(failure is None or failure.is_property, failure.what if failure else "")
    return {
        "false_deaths": float(failure is not None and failure.name == "healthy-declared-dead"),
        "unknown_deaths": float(failure is not None and failure.name != "healthy-declared-dead"),
        "slowest_s": max(watch.deaths.values(), default=0.0),
        "deaths": len(watch.deaths),
        "suspicions": watch.declared[MemberState.SUSPECT],
    }


def run_lossy(_workspace: Workspace) -> Values:
    """Simulate gossip with lost datagrams for each seed; return the sums and maxima over the runs."""
    runs = [run_in_child(measure_lossy, seed=seed) for seed in SEEDS]
    require(sum(each["deaths"] for each in runs) > 0, "no member crashed")
    return {
        "false_deaths": sum(each["false_deaths"] for each in runs),
        "slowest_periods": max(each["slowest_s"] for each in runs),
        "unknown_deaths": sum(each["unknown_deaths"] for each in runs),
        "deaths": sum(each["deaths"] for each in runs),
    }


MEASURES = (
    Measure(
        "gossip-cost",
        f"gossip of {MEMBERS} and of {MANY} members when idle (simulated)",
        f"All members know each other; after {FOUNDING_S:g} virtual seconds all bytes are counted for {IDLE_S:g}: "
        "payload, seal, UDP and IP headers of datagrams, and exchanges of digests with the headers of their segments.",
        (
            Figure(f"members_{MEMBERS}", f"sent by each of {MEMBERS}", "kB/s", at_most=3),
            Figure(f"members_{MANY}", f"… of {MANY}", "kB/s", at_most=3),
        ),
        run_cost,
    ),
    Measure(
        "gossip-loss",
        f"{MEMBERS} members that lose {LOSS:.0%} of all datagrams for {CONTRACT_S / 60:g} virtual minutes (simulated)",
        f"{len(SEEDS)} seeds; every 45 s on the average a member crashes, leaves, returns or changes its description. "
        "Counted are runs in which a live member is declared dead, and runs in which ten periods after an "
        "event a member has not learned of it; and the longest time from a death until the last one has declared it.",
        (
            Figure("false_deaths", "runs with a healthy member declared dead", "", at_most=0),
            Figure("slowest_periods", "a crash detected by all, the slowest", "periods", at_most=10),
            Figure("unknown_deaths", "runs in which a member did not learn in time", "", at_most=0),
        ),
        run_lossy,
    ),
)
