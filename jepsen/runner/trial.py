"""Trial: one test from the start of the system to the comparison of replicas.

    start → topics → clients ready → load with faults → heal, restart → drain → stop → compare → check

After any early end all processes are ended, and the history so far is kept and checked.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from jepsen.nemeses.fault import Fault, InjectedFault
from jepsen.nemeses.schedule import WARM_UP_S
from jepsen.runner.finding import Finding
from jepsen.runner.load import Load
from jepsen.runner.options import REPLICATION_MAX, RunOptions
from jepsen.runner.replicas import check_replicas
from jepsen.runner.stage import FoundEnough, Script, Stage, play_drawn_faults
from jepsen.runner.store import Store
from jepsen.runner.system import System, SystemFailed
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.configuration import Period
from jepsen.workloads.client.recording import MERGED_CLOCK, HistoryWriter, clock_since
from jepsen.workloads.drain import Drain, Drained
from raftlog.client import BrokerClient
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable

LOOK_S: Final = 0.02
BEGIN_IN_S: Final = 0.2
MORE_LOAD_S_MAX: Final = 180.0
"""Seconds by which the load may exceed its planned time: on a slow machine a script takes longer."""
TOPIC_ATTEMPTS: Final = 20
Progress = Callable[[str, float, dict[str, int], list[str]], None]
"""Called often with the stage, its completed share (0 to 1), the clients' figures and the present faults."""


class Outcome(NamedTuple):
    """Outcome of a run, before its history is checked. `broken` is the reason why the test could not be finished."""

    schedule: tuple[Fault, ...]
    happened: tuple[InjectedFault, ...]
    unseen: tuple[InjectedFault, ...]
    """Injected faults without an observed effect."""
    begin_ns: int
    """Beginning of the load on the history's clock."""
    load_s: float
    """Duration of the load, in seconds."""
    figures: dict[str, int]
    recovered_s: float | None
    drained: Drained | None
    findings: tuple[Finding, ...]
    broken: str | None


class Trial:
    """One run of a test, without the check of its history; `run` is called once.

    `script` injects the faults; by default they are drawn from the options' seed."""

    def __init__(
        self, options: RunOptions, system: System, store: Store, progress: Progress, script: Script = play_drawn_faults
    ) -> None:
        """Prepare one run of the system, recorded in `store`.

        `script` injects the faults, by default the drawn ones."""
        self._options, self._system, self._store, self._progress = options, system, store, progress
        self._script = script
        self._epoch_ns = MERGED_CLOCK()
        self._findings: list[Finding] = []
        self._figures: dict[str, int] = {}
        self._stage: Stage | None = None
        self._begin_ns = 0
        self._load_s = 0.0
        self._recovered_s: float | None = None
        self._drained: Drained | None = None
        self._history = HistoryWriter(store.part_path("nemesis"), clock_since(self._epoch_ns))

    def run(self) -> Outcome:
        """Run the trial without raising for failures of the system; `KeyboardInterrupt` counts as the end."""
        broken = None
        try:
            self._run()
        except SystemFailed as error:
            broken = str(error)
        except KeyboardInterrupt:
            broken = "interrupted"
        finally:
            self._history.close()
            logs = self._system.logs()
            self._system.close()
        for node, text in logs.items():
            (self._store.logs / f"node-{node}.log").write_text(text)
        self._store.merge_history(has_incarnations=bool(self._options.plan.topics_per_client))
        return Outcome(
            schedule=self._stage.schedule if self._stage is not None else (),
            happened=tuple(self._stage.nemesis.happened) if self._stage is not None else (),
            unseen=tuple(self._stage.nemesis.unseen) if self._stage is not None else (),
            begin_ns=self._begin_ns,
            load_s=self._load_s,
            figures=self._figures,
            recovered_s=self._recovered_s,
            drained=self._drained,
            findings=tuple(self._findings),
            broken=broken,
        )

    def _run(self) -> None:
        """Run all stages: brokers, topics, clients, load with faults, recovery, drain, and comparison of replicas.

        End after the load if enough was found."""
        self._report_progress("starting the brokers", 0)
        self._system.start()
        asyncio.run(self._create_topics())
        system = self._system
        load = Load(self._options, system.client_addresses, self._store, self._epoch_ns, system.kafka_addresses)
        try:
            self._report_progress("starting the clients", 0)
            load.wait_ready()
            self._run_load(load)
        finally:
            load.close()
        if self._options.is_enough(self._findings):
            return
        self._recover()
        self._report_progress("reading everything back", 0)
        self._drained = asyncio.run(self._drain())
        self._record_drain_findings(self._drained)
        self._compare_replicas(self._drained)

    async def _create_topics(self) -> None:
        """Create the topics of the workload's plan."""
        options = self._options
        async with BrokerClient(list(self._system.addresses.values())) as client:
            for topic, partitions in options.plan.partitions.items():
                copies = min(options.nodes, REPLICATION_MAX)
                await _create_topic(client, topic, partitions, copies, options.plan.configs.get(topic, {}))

    def _run_load(self, load: Load) -> None:
        """Run the script while clients send requests, until the load ends or enough was found.

        Then end all faults and wait for the last answers."""
        options = self._options
        begin_ns = MERGED_CLOCK() + round(BEGIN_IN_S * 1e9)
        self._begin_ns = begin_ns - self._epoch_ns

        def now_s() -> float:
            """Return the seconds since the beginning of the load."""
            return (MERGED_CLOCK() - begin_ns) / 1e9

        def follow(under_way: list[str]) -> None:
            """Record exits of brokers, and show the progress of the clients."""
            self._record_exits()
            self._figures = load.read_output()
            self._report_progress("load", min(1.0, now_s() / options.seconds), under_way)

        load.begin(Period(begin_ns, begin_ns + round((options.seconds + MORE_LOAD_S_MAX) * 1e9)))
        stage = self._stage = Stage(self._system, options, self._note, now_s, follow)
        try:
            if self._script is not play_drawn_faults:
                stage.wait(WARM_UP_S)
            self._script(stage)
            stage.play_to_the_end()
        except FoundEnough:
            self._report_progress("enough was found", 1)
        finally:
            self._load_s = now_s()
            self._findings += stage.findings
        stage.nemesis.finish()
        self._report_progress("last answers", 1)
        load.end()
        self._figures = load.wait()

    def _recover(self) -> None:
        """Wait until all brokers serve without faults; record how long it took, and problems as findings."""
        self._report_progress("waiting until all brokers serve", 0)
        began = time.monotonic()
        problems = self._system.recover(self._options.recovery_s)
        self._recovered_s = time.monotonic() - began
        self._history.nemesis("everything is healed")
        self._findings += [Finding("not-recovered", problem) for problem in problems]

    async def _drain(self) -> Drained:
        """Write to and read all partitions on every node (`Drain`); return the result."""
        async with Access(self._system.addresses) as access:
            client = self._options.clients + 1
            plan = self._options.plan
            drain = Drain(
                access,
                self._history,
                plan.places(),
                client,
                self._options.recovery_s,
                is_keyed=plan.is_keyed,
                names=plan.all_recreated_names(self._options.clients),
            )
            return await drain.run()

    def _record_drain_findings(self, drained: Drained) -> None:
        """Record everything that the drain did not reach in time as findings."""
        bound = f"within {self._options.recovery_s:g} s after everything was healed"
        for place in drained.unsettled:
            self._findings.append(Finding("not-writable", f"{place} took no write {bound}"))
        for topic in drained.disputed:
            self._findings.append(Finding("topics-differ", f"nodes did not agree {bound} on who is {topic}"))
        for place in drained.unread:
            self._findings.append(Finding("not-readable", f"{place} did not show all records {bound}"))
        for description in drained.unanswered:
            self._findings.append(Finding("not-readable", f"{description}: no answer {bound}"))

    def _compare_replicas(self, drained: Drained) -> None:
        """Stop the brokers and compare their files; record differences and files of deleted topics as findings."""
        self._record_exits()
        self._report_progress("stopping the brokers", 0)
        self._findings += [Finding("unclean-stop", problem) for problem in self._system.stop()]
        self._report_progress("comparing the replicas", 0)
        data_dirs = self._system.data_dirs()
        if data_dirs:
            self._findings += check_replicas(data_dirs, drained.ends, are_compacted=self._options.plan.is_keyed)
        for node, path in data_dirs.items():
            kept = [name for name in drained.deleted if (path / name).exists()]
            self._findings += [
                Finding("kept-files", f"node {node} has files of {name}, which is deleted") for name in kept
            ]

    def _record_exits(self) -> None:
        """Record each broker that exited on its own, in the history and as finding."""
        for death in self._system.unexpected_exits():
            self._history.nemesis(death.splitlines()[0])
            self._findings.append(Finding("broker-died", death))

    def _note(self, description: str, more: dict[str, Any]) -> None:
        """Write an entry of the nemesis into the history."""
        self._history.nemesis(description, **more)

    def _report_progress(self, stage: str, share: float, under_way: list[str] | None = None) -> None:
        """Report the stage, its progress from 0 to 1, and the faults under way."""
        self._progress(stage, share, self._figures, under_way or [])


async def _create_topic(client: BrokerClient, topic: str, partitions: int, copies: int, config: dict[str, str]) -> None:
    """Create a topic. Raises `SystemFailed` when this fails."""
    for attempt in range(TOPIC_ATTEMPTS):
        try:
            await client.create_topic(topic, partitions, copies, config)
        except (Unavailable, OutcomeUnknown):
            await asyncio.sleep(0.1)
        except RaftlogError as error:
            if attempt > 0 and "exists already" in str(error):
                return  # an attempt before had no answer
            raise SystemFailed(f"topic {topic} could not be made: {error}") from error
        else:
            return
    raise SystemFailed(f"topic {topic} could not be made in {TOPIC_ATTEMPTS} attempts")
