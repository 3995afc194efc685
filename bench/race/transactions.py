"""Transactions of Java producers (`java/Transactions.java`): rate, time of a commit, effect on others, failover.

A transaction has ten records over three partitions, and counts when its commit has returned, after which nothing can
abort it. The program runs once for each measure, and warms up first."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bench.measure import MeasureFailed
from bench.race.accounting import raise_priority, run_generator, start_generator, stop_generator, wait_for_generator
from bench.race.system import Values

PARTITIONS: Final = 3
PRODUCERS: Final = 16
RECORDS: Final = 10
SECONDS: Final = 12
OFFERED_PER_S: Final = 100
OFFERED_S: Final = 15
PLAIN_CONNECTIONS: Final = 16
OPEN: Final = 50
"""Number of open transactions beside the plain producers."""
BESIDE_S: Final = 2
"""Seconds of each of the four runs of a round."""
BESIDE_ROUNDS: Final = 6
BEFORE_KILL_S: Final = 3.0

Command = Callable[..., list[str]]
"""Function that returns the command line of the Java program with the given arguments."""


def run_closed(command: Command, environment: Mapping[str, str], topic: str) -> Values:
    """Run transactions one after another with each of 16 producers."""
    return _run(command("closed", topic, PARTITIONS, PRODUCERS, RECORDS, SECONDS), environment)


def run_offered(command: Command, environment: Mapping[str, str], topic: str) -> Values:
    """Run 100 transactions a second, each at its due time."""
    shape = (PARTITIONS, PRODUCERS, RECORDS, OFFERED_PER_S, OFFERED_S)
    return _run(command("offered", topic, *shape), environment)


def run_beside_open(command: Command, environment: Mapping[str, str], topic: str, pids: Sequence[int]) -> Values:
    """Send records without transactions, in turns without and with 50 open transactions in the same partition.

    The open transactions have one record each and stay idle during a run: none begins or ends in it. `ratio` is the
    median of the rounds; it says little on a machine that other programs load, as `noise` shows. `cpu_ratio` suffers
    less from them: it is the CPU time of the nodes `pids` per record with open transactions ÷ without."""
    return _run(command("beside", topic, PLAIN_CONNECTIONS, OPEN, BESIDE_S, BESIDE_ROUNDS, *pids), environment)


def measure_stall(
    command: Command,
    environment: Mapping[str, str],
    topic: str,
    seconds: int,
    kill: Callable[[int], None],
    start: Callable[[int], None],
) -> Values:
    """Kill a coordinator that leads none of the written partitions; return the longest stall of its producers."""
    process = start_generator(command("stall", topic, PARTITIONS, PRODUCERS, seconds), environment)
    killed: int | None = None
    try:
        assert process.stdout is not None, "stdout is a pipe"
        described = process.stdout.readline()
        if not described:
            wait_for_generator(process)
            raise MeasureFailed("the producers ended before their load")
        killed = int(json.loads(described)["coordinator"])
        raise_priority([process.pid])
        time.sleep(BEFORE_KILL_S)
        kill(killed)
        return _require_success(json.loads(wait_for_generator(process).splitlines()[-1]))
    finally:
        stop_generator(process)
        if killed is not None:
            start(killed)


def _run(command: list[str], environment: Mapping[str, str]) -> Values:
    return _require_success(json.loads(run_generator(command, environment).splitlines()[-1]))


def _require_success(found: dict[str, Any]) -> Values:
    if found.pop("failed"):
        raise MeasureFailed("transactions failed")
    return {name: float(value) for name, value in found.items()}
