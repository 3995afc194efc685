"""`raftlog cluster rolling-restart`: its steps on a fake cluster, and a complete run on a real one."""

import asyncio
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from raftlog.cli.cluster.upgrade import upgrade
from raftlog.cli.dev.control import SOCKET_NAME, DevControl, send_request
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.rolling import steps as rolling_steps
from raftlog.cli.rolling import verb as rolling
from raftlog.cli.rolling.cluster import ClusterReading, LeaderView
from raftlog.cli.rolling.record import RollingRecord
from raftlog.cli.rolling.restart_lag import RestartLag, degraded_reason, unhealthy_reason
from raftlog.cli.rolling.restarters import CommandRestarter, DevRestarter
from raftlog.cli.rolling.steps import RestartUnit, RollingRestart, RollingStep
from raftlog.cli.rolling.verb import rolling_restart
from raftlog.client import BrokerDescription, ClusterHealth
from raftlog.errors import InvalidArgument, Unavailable
from tests.cli.writing import SteadyWriters
from tests.integration.cluster_load import create_topic
from tests.layouts import DOCS
from tests.waiting import until

UNITS = [RestartUnit(node, (node,)) for node in (1, 2, 3)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_steps, "POLL_S", 0.001)


class FakeCluster:
    """Three brokers; `journal` has the operations on them."""

    def __init__(self, *, controller: int = 1) -> None:
        self.controller = controller
        self.journal: list[str] = []
        self.down: set[int] = set()
        self.in_maintenance: set[int] = set()
        self.epochs = {1: 1, 2: 1, 3: 1}
        self.behind = 0
        self.failures = 0
        """Requests that end without an answer, as a count to use up."""

    async def read(self) -> ClusterReading:
        if self.failures:
            self.failures -= 1
            raise Unavailable("no broker answers")
        reasons = [f"node {node} does not answer" for node in sorted(self.down)]
        if self.behind:
            reasons.append(f"{self.behind} partitions lack replicas in sync: …")
        brokers = tuple(make_broker(node, is_alive=node not in self.down) for node in self.epochs)
        health = make_health([f"t/{number}" for number in range(self.behind)]).copy_with(
            is_healthy=not reasons,
            unhealthy_reasons=reasons,
            controller=self.controller,
            nodes_down=sorted(self.down),
        )
        return ClusterReading(brokers, health, frozenset(self.in_maintenance), dict(self.epochs))

    async def set_maintenance(self, node: int, is_on: bool) -> None:
        (self.in_maintenance.add if is_on else self.in_maintenance.discard)(node)
        self.journal.append(f"maintenance of {node} {'on' if is_on else 'off'}")

    async def leading_reason(self, node: int) -> str | None:
        return None

    async def leaders(self) -> LeaderView:
        return LeaderView(Counter({2: 4}), Counter(), Counter())

    async def prefer_others_than(self, nodes: Sequence[int]) -> None:
        pass

    # the restarter

    async def restart(self, unit: RestartUnit) -> dict[str, Any]:
        self.journal.append(f"restart {unit.node_id}")
        self.down.discard(unit.node_id)
        self.epochs[unit.node_id] += 1
        return {}

    def description(self, unit: RestartUnit) -> str:
        return f"start {unit.node_id}"


def make_broker(node: int, *, is_alive: bool = True, host: str = "") -> BrokerDescription:
    return msgspec.convert(
        {
            "node_id": node,
            "is_alive": is_alive,
            "membership_status": "active",
            "version": "0.2.0",
            "http_address": f"127.0.0.1:{8000 + node}",
            "host": host or f"host-{node}",
        },
        BrokerDescription,
    )


def make_health(lacking: list[str]) -> ClusterHealth:
    """Return the health of a cluster whose only problem is that these partitions lack in-sync replicas."""
    return msgspec.convert(
        {
            "is_healthy": not lacking,
            "unhealthy_reasons": [f"{len(lacking)} partitions lack replicas in sync: …"],
            "controller_id": 1,
            "all_nodes": [1, 2, 3],
            "nodes_down": [],
            "leaderless_partitions": [],
            "leaderless_count": 0,
            "under_replicated_partitions": lacking,
            "under_replicated_count": len(lacking),
            "nodes_in_maintenance": [],
            "nodes_draining": [],
            "reconfigurations_count": 0,
            "lagging_partitions": lacking,
            "lagging_count": len(lacking),
            "electing_partitions": [],
            "electing_count": 0,
        },
        ClusterHealth,
    )


async def roll(
    cluster: FakeCluster,
    units: Sequence[RestartUnit] = UNITS,
    timeout_s: float = 5.0,
    *,
    keep_maintenance: bool = False,
) -> list[RollingStep]:
    """Run a rolling restart of the cluster, and return its steps."""
    steps: list[RollingStep] = []
    done: list[RestartUnit] = []
    rolling = RollingRestart(
        cluster,
        cluster,
        timeout_s=timeout_s,
        on_step=steps.append,
        on_wait=lambda what: None,
        done=done.append,
        keep_maintenance=keep_maintenance,
    )
    await rolling.run(units)
    assert sorted(done) == sorted(units)
    return steps


async def test_brokers_restart_one_after_another_and_the_controllers_leader_last() -> None:
    cluster = FakeCluster(controller=1)
    steps = await roll(cluster)
    assert cluster.journal == [
        action
        for node in (2, 3, 1)
        for action in (f"maintenance of {node} on", f"restart {node}", f"maintenance of {node} off")
    ]
    assert [step.event for step in steps if step.node_id == 2] == ["begins", "drained", "restarted", "in_sync", "done"]
    assert steps[0].more == {"leaders": 4}


async def test_a_single_broker_is_restarted_without_maintenance() -> None:
    cluster = FakeCluster()
    cluster.epochs = {1: 1}
    await roll(cluster, UNITS[:1])
    assert cluster.journal == ["restart 1"]


async def test_a_definitely_refused_request_is_not_repeated() -> None:
    class Strict(FakeCluster):
        async def set_maintenance(self, node: int, is_on: bool) -> None:
            self.journal.append("asked")
            raise InvalidArgument("it has no owner")

    cluster = Strict()
    with pytest.raises(CommandFailed, match="refused: maintenance of node 2 begins: it has no owner"):
        await roll(cluster)
    assert cluster.journal == ["asked"]


async def test_a_run_continues_where_an_earlier_one_ended() -> None:
    cluster = FakeCluster(controller=1)
    cluster.down, cluster.in_maintenance = {3}, {3}
    await roll(cluster)
    # What is down is not drained, and is what keeps the cluster from being healthy.
    assert cluster.journal[:2] == ["restart 3", "maintenance of 3 off"]
    cluster = FakeCluster(controller=1)
    cluster.in_maintenance = {3}
    await roll(cluster)
    assert cluster.journal[0] == "maintenance of 3 on"
    assert not cluster.in_maintenance


@pytest.mark.parametrize("keeps", [False, True])
async def test_an_earlier_maintenance_is_reported_and_can_be_kept(keeps: bool) -> None:
    cluster = FakeCluster(controller=1)
    cluster.in_maintenance = {3}
    rolling = RollingRestart(
        cluster,
        cluster,
        timeout_s=1,
        on_step=lambda step: None,
        on_wait=lambda what: None,
        done=lambda unit: None,
        keep_maintenance=keeps,
    )
    said = "is in maintenance already " + "and stays in it" if keeps else "which ends after the restart"
    assert [said in step.text for step in await rolling.plan(UNITS)] == [True, False, False]
    steps = await roll(cluster, keep_maintenance=keeps)
    assert cluster.in_maintenance == ({3} if keeps else set())
    assert [said in step.text for step in steps if step.event == "already_in_maintenance"] == [True]
    assert [step.node_id for step in steps if step.event == "done"] == ([2, 1] if keeps else [3, 2, 1])
    assert [step.node_id for step in steps if step.event == "stays_in_maintenance"] == ([3] if keeps else [])


async def test_no_broker_is_stopped_while_replicas_are_out_of_sync() -> None:
    cluster = FakeCluster()
    cluster.behind = 2
    with pytest.raises(CommandFailed, match=r"until the cluster is healthy: 2 partitions lack replicas: t/0, t/1"):
        await roll(cluster, timeout_s=0.02)
    assert cluster.journal == []


async def test_replicas_that_lag_only_for_a_moment_are_waited_for_once() -> None:
    """With many busy partitions some lag at every look, and each look finds others."""
    lagging = RestartLag()
    assert lagging.add_reading(make_health(["t/0", "t/1"]), 1.0) == ["t/0", "t/1"]
    assert lagging.add_reading(make_health(["t/1", "t/2"]), 1.5) == ["t/1"]
    assert lagging.add_reading(make_health(["t/0"]), 2.0) == []
    assert lagging.add_reading(make_health(["t/0"]), 3.9) == ["t/0"], "it was in sync too long ago"
    found = make_health(["t/0"])
    assert unhealthy_reason(found, []) is None
    assert degraded_reason(found, []) is None
    assert lagging.add_reading(found.copy_with(lagging_count=2_000), 4.0) == ["t/0"], "not all of them are named"


def test_an_election_in_progress_is_waited_for() -> None:
    """Health reports the partition as unhealthy only after a while, which is too late for stopping a broker."""
    electing = make_health([]).copy_with(unhealthy_reasons=[], electing_partitions=["t/0"], electing_count=1)
    assert unhealthy_reason(electing, []) == "1 partitions have no leader at this moment"
    assert degraded_reason(electing, []) == "1 partitions have no leader at this moment"


async def test_a_broker_that_does_not_return_ends_the_run() -> None:
    class Lost(FakeCluster):
        async def restart(self, unit: RestartUnit) -> dict[str, Any]:
            await super().restart(unit)
            self.down.add(unit.node_id)
            return {}

    cluster = Lost(controller=1)
    with pytest.raises(CommandFailed, match="node 2 is back and every partition in sync: node 2 does not answer yet"):
        await roll(cluster, timeout_s=0.02)
    assert [action for action in cluster.journal if action.startswith("restart")] == ["restart 2"]
    assert cluster.in_maintenance == {2}


def roll_and_fail(cluster: FakeCluster, tmp_path: Path, *, timeout_s: float = 0.02) -> str:
    """Run a rolling restart that must fail; return its error message."""
    voice = rolling._StepPrinter(as_json=True)
    description = rolling._RestartFlags(timeout_s, keep_maintenance=False, dry_run=False)
    with pytest.raises(CommandFailed) as failed:
        asyncio.run(rolling._restart_units(cluster, cluster, UNITS, description, voice, RollingRecord(tmp_path, None)))
    return str(failed.value)


def test_the_error_names_a_broker_left_in_maintenance_and_the_remedy(tmp_path: Path) -> None:
    class Lost(FakeCluster):
        async def restart(self, unit: RestartUnit) -> dict[str, Any]:
            self.down.add(unit.node_id)
            raise CommandFailed("node 2 ended at once")

    words = roll_and_fail(Lost(controller=1), tmp_path)
    assert words.startswith("node 2 ended at once. Node 2 is left in maintenance, and leads nothing: ")
    assert "`raftlog broker maintenance disable 2` ends it. Left to be restarted: 1,2,3; " in words


class Stuck(FakeCluster):
    """Cluster in which node 2 keeps its leaderships."""

    async def leading_reason(self, node: int) -> str | None:
        return "node 3 lags behind" if node == 2 else None


def test_a_broker_that_was_not_stopped_leaves_maintenance_when_the_run_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Stuck(controller=1)
    words = roll_and_fail(cluster, tmp_path)
    assert "until node 2 leads nothing any more: node 3 lags behind. Left to be restarted" in words
    assert cluster.journal == ["maintenance of 2 on", "maintenance of 2 off"]
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"event": "maintenance_ended", "node_id": 2}


def test_a_maintenance_started_by_an_operator_outlasts_a_failed_run(tmp_path: Path) -> None:
    cluster = Stuck(controller=1)
    cluster.in_maintenance = {2}
    assert "`raftlog broker maintenance disable 2` ends it" in roll_and_fail(cluster, tmp_path)
    assert cluster.in_maintenance == {2}


def test_a_maintenance_that_cannot_be_ended_is_named(tmp_path: Path) -> None:
    class Deaf(Stuck):
        async def set_maintenance(self, node: int, is_on: bool) -> None:
            if not is_on:
                raise Unavailable("the controller has no leader")
            await super().set_maintenance(node, is_on)

    assert "`raftlog broker maintenance disable 2` ends it" in roll_and_fail(Deaf(controller=1), tmp_path)


async def test_ctrl_c_names_the_broker_left_in_maintenance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = asyncio.Event()

    class Slow(FakeCluster):
        async def restart(self, unit: RestartUnit) -> dict[str, Any]:
            began.set()
            await asyncio.Event().wait()
            return {}

    cluster, description = Slow(controller=1), rolling._RestartFlags(5, keep_maintenance=False, dry_run=False)
    run = asyncio.ensure_future(
        rolling._restart_units(cluster, cluster, UNITS, description, rolling._StepPrinter(as_json=True), None)
    )
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert "`raftlog broker maintenance disable 2` ends it. Left to be restarted: 1,2,3" in capsys.readouterr().err


async def test_a_command_that_restarts_nothing_is_detected() -> None:
    class Idle(FakeCluster):
        async def restart(self, unit: RestartUnit) -> dict[str, Any]:
            return {}

    with pytest.raises(CommandFailed, match="node 2 was not restarted: its boot epoch is the same as before"):
        await roll(Idle(), timeout_s=0.02)


async def test_requests_without_an_answer_are_repeated() -> None:
    cluster = FakeCluster()
    cluster.failures = 3
    await roll(cluster)
    assert cluster.epochs == {1: 2, 2: 2, 3: 2}


async def test_a_dry_run_changes_nothing() -> None:
    cluster = FakeCluster(controller=2)
    rolling = RollingRestart(
        cluster, cluster, timeout_s=1, on_step=lambda step: None, on_wait=lambda what: None, done=lambda unit: None
    )
    steps = await rolling.plan(UNITS)
    assert [(step.node_id, step.more["leaders"], step.more["how"]) for step in steps] == [
        (1, 0, "start 1"),
        (3, 0, "start 3"),
        (2, 4, "start 2"),
    ]
    assert cluster.journal == []


def test_finished_steps_are_recorded_until_all_are_done(tmp_path: Path) -> None:
    record = RollingRecord(tmp_path, None)
    assert record.remaining_units(UNITS) == UNITS
    record.add_restarted(UNITS[1])
    assert RollingRecord(tmp_path, None).remaining_units(UNITS) == [UNITS[0], UNITS[2]]
    assert RollingRecord(tmp_path, "/another/python").remaining_units(UNITS) == UNITS
    again = RollingRecord(tmp_path, None)
    assert again.remaining_units(UNITS) == [UNITS[0], UNITS[2]]
    again.add_restarted(UNITS[0])
    assert RollingRecord(tmp_path, None).remaining_units(UNITS) == [UNITS[2]]
    again.end()
    assert RollingRecord(tmp_path, None).remaining_units(UNITS) == UNITS
    (tmp_path / "rolling-restart.json").write_text("?")
    assert RollingRecord(tmp_path, None).remaining_units(UNITS) == UNITS


def test_all_workers_of_a_node_stop_together(tmp_path: Path) -> None:
    nodes = [{"node_id": node, "http": "x", "command": ["python", "-m", "raftlog.cli"]} for node in (1, 2)]
    restarter = DevRestarter(tmp_path, {"nodes": nodes}, "/other/python")
    brokers = [make_broker(node, host=f"dev-{node % 1000}") for node in (1, 2, 1001, 1002)]
    assert restarter.units(brokers) == [RestartUnit(1, (1, 1001)), RestartUnit(2, (2, 1002))]
    assert restarter.description(RestartUnit(1, (1,))) == "/other/python -P -m raftlog.cli"
    without_node_2 = [make_broker(1, host="dev-1"), make_broker(1001, host="dev-1")]
    assert restarter.units(without_node_2) == [RestartUnit(1, (1, 1001))]


async def test_a_command_restarts_each_broker(tmp_path: Path) -> None:
    brokers = [make_broker(1), make_broker(2, host="-oProxyCommand=evil")]
    there = tmp_path / "there"
    restarter = CommandRestarter(f"sh -c 'echo {{node_id}} at {{http}} > {there}'", brokers, 5)
    assert await restarter.restart(RestartUnit(1, (1,))) == {}
    assert there.read_text() == "1 at 127.0.0.1:8001\n"
    restarter = CommandRestarter("sh -c 'echo no unit of this name; exit 5'", brokers, 5)
    with pytest.raises(CommandFailed, match="exit code 5: no unit of this name"):
        await restarter.restart(RestartUnit(1, (1,)))
    with pytest.raises(CommandFailed, match=r"^false ended with exit code 1, and without output$"):
        await CommandRestarter("false", brokers, 5).restart(RestartUnit(1, (1,)))
    with pytest.raises(CommandFailed, match="did not end within"):
        await CommandRestarter("sleep 60", brokers, 0.05).restart(RestartUnit(1, (1,)))
    with pytest.raises(CommandFailed, match=r"no \{host\} that a command could be given"):
        CommandRestarter("ssh {host} true", brokers, 5).description(RestartUnit(2, (2,)))
    with pytest.raises(click.UsageError, match="cannot be read"):
        CommandRestarter("ssh '", brokers, 5)


async def test_the_control_socket_is_accessible_only_to_its_user(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-directory-with-a-long-name"] * 5)
    deep.mkdir(parents=True)
    with pytest.raises(CommandFailed, match="no `raftlog dev` runs in"):
        await send_request(deep, {"order": "nodes"})

    async def answer(order: dict[str, Any]) -> dict[str, Any]:
        if order["order"] == "refuse":
            raise CommandFailed("not now")
        return {"heard": order}

    control = DevControl(deep, answer)
    await control.start()
    assert stat.S_IMODE(os.stat(deep / SOCKET_NAME).st_mode) == 0o600
    assert await send_request(deep, {"order": "nodes"}) == {"heard": {"order": "nodes"}}
    with pytest.raises(CommandFailed, match="not now"):
        await send_request(deep, {"order": "refuse"})
    control.stop()
    with pytest.raises(CommandFailed, match="no `raftlog dev` runs in"):
        await send_request(deep, {"order": "nodes"})
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--only", "one"), "is not a list of node ids"),
        (("--python", "/nowhere/python"), "cannot be executed"),
        (("--python", sys.executable, "--command", "true"), "for nodes of raftlog dev"),
    ],
)
def test_invalid_options_are_refused(flags: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(rolling_restart, flags)
    assert done.exit_code == 2
    assert why in " ".join(done.output.split())


@pytest.mark.parametrize("verb", [rolling_restart, upgrade])
def test_the_document_names_every_flag(verb: click.Command) -> None:
    document = (DOCS / "how-to" / "restart-and-upgrade.md").read_text(encoding="utf-8")
    document += (DOCS / "CLI.md").read_text(encoding="utf-8").partition("\n## ")[0]  # flags of all commands
    flags = [flag for parameter in verb.params if isinstance(parameter, click.Option) for flag in parameter.opts]
    assert [flag for flag in flags if flag not in document] == []


def test_a_directory_without_a_running_dev_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(rolling_restart, ("--data-dir", str(tmp_path)))
    assert isinstance(done.exception, CommandFailed)
    assert "no `raftlog dev` runs in" in str(done.exception)


def test_a_dev_cluster_is_restarted_under_writes(spawn: Any, run: Any, tmp_path: Path, base_port: int) -> None:
    directory = str(tmp_path / "dev")
    process = spawn("dev", "--data-dir", directory, "--base-port", str(base_port), "--json")
    nodes = json.loads(process.stdout.readline())["nodes"]
    create_topic(nodes[0]["http"], "t", 3)
    with SteadyWriters([node["http"] for node in nodes], "t", 3) as writing:
        plan = run("cluster", "rolling-restart", "--data-dir", directory, "--dry-run")
        assert len(plan.stdout.splitlines()) == 3
        done = run("cluster", "rolling-restart", "--data-dir", directory, "--json")
        writing.wait_for_acknowledged()
    assert writing.report.failed == 0, writing.report.reasons
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(step["node_id"] for step in steps if step["event"] == "restarted") == [1, 2, 3]
    assert steps[-1]["event"] == "finished"
    pids = {step["node_id"]: step["pid"] for step in steps if step["event"] == "restarted"}
    assert not set(pids.values()) & {node["pid"] for node in nodes}
    os.kill(pids[2], 9)  # dev supervises those that it has restarted
    said = b""
    while b"killed by SIGKILL" not in said:
        said = process.stderr.readline()
        assert said, "dev has ended"
    assert f"node 2 (pid {pids[2]}) ended, killed by SIGKILL" in said.decode()
    again = asyncio.run(send_request(Path(directory), {"order": "restart", "node_id": 2, "python": None}))
    assert again["pid"] not in pids.values()
    process.send_signal(15)
    assert process.wait(20) == 0
    assert not (tmp_path / "dev" / SOCKET_NAME).exists()


async def test_waits_are_printed_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling, "WARN_AFTER_S", 0.05)
    voice = rolling._StepPrinter(False)

    def repeat() -> str:
        """Repeat two texts of one wait; return what was printed."""
        voice.wait_for("waiting until node 2 is back")
        voice.wait_for("waiting until node 2 is back: node 2 does not answer yet")
        return capsys.readouterr().err

    with voice:
        voice.wait_for("waiting until the brokers answer")
        voice.wait_for("")
        said = await until(repeat)
    assert said == "waiting until node 2 is back: node 2 does not answer yet\n"
