"""`python -m jepsen.simulation`: exit codes, reports, and messages of failures."""

import json

import pytest
from click.testing import CliRunner, Result

import jepsen.simulation.__main__ as command
from jepsen.simulation.brokers.run import simulate_founding
from jepsen.simulation.outcome import Failure, Outcome
from jepsen.simulation.report import repeat_command


def outcome(seed: int, failure: Failure | None = None) -> Outcome:
    return Outcome(seed, failure, "seed = 1\nnodes = 3", "00ff", 45.0, 1.0, 1000, 10)


BROKEN = Failure("lost-write", "lost-write: value 7", True, "    1.000000 s  n1  crashes")


def invoke(monkeypatch: pytest.MonkeyPatch, failing: set[int], *arguments: str) -> Result:
    def run_seeds(seeds: list[int], _jobs: int, level: str, **_: float) -> list[Outcome]:
        return [outcome(seed, BROKEN if seed in failing else None)._replace(level=level) for seed in seeds]

    monkeypatch.setattr(command, "run_seeds", run_seeds)
    return CliRunner().invoke(command.main, arguments)


def test_help_shows_every_option_with_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    text = invoke(monkeypatch, set(), "--help").stdout
    for option in ("--seeds", "--from", "--jobs", "--failures-max", "--level", "--kept", "--json"):
        assert option in text
    assert text.count("default:") >= 4


def test_seeds_without_a_violation_exit_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, set(), "--seeds", "3")
    assert done.exit_code == 0
    assert "3 seeds, 0 failed" in done.stdout


def test_a_failure_prints_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, {5}, "--seeds", "3", "--from", "4")
    assert done.exit_code == 1
    for said in (
        "seed 5 failed: lost-write",
        "commit: ",
        "value 7",
        "    nodes = 3",
        "n1  crashes",
        "repeat: python -m jepsen.simulation --seeds 1 --from 5",
    ):
        assert said in done.stdout


def test_the_repeating_command_has_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, {1}, "--seeds", "1", "--level", "broker")
    assert "repeat: python -m jepsen.simulation --level broker --seeds 1 --from 1" in done.stdout


def test_the_repeating_command_has_members_and_loss() -> None:
    failed = outcome(3, BROKEN)._replace(level="gossip", shape=" --members 10 --loss 0.1")
    assert repeat_command(failed).endswith("--level gossip --members 10 --loss 0.1 --seeds 1 --from 3")


def test_members_and_loss_are_only_for_gossip(monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, set(), "--seeds", "1", "--members", "10")
    assert (done.exit_code, "--level gossip" in done.stderr) == (2, True)


def test_the_repeating_command_has_unordered_syncs() -> None:
    failed = simulate_founding(1, unordered_syncs=True)
    assert repeat_command(failed).endswith("--level founding --unordered-syncs --seeds 1 --from 1")
    assert "unordered_syncs = True" in failed.options


def test_unordered_syncs_are_not_for_gossip(monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, set(), "--seeds", "1", "--level", "gossip", "--unordered-syncs")
    assert (done.exit_code, "have disks" in done.stderr) == (2, True)


def test_the_command_stops_after_the_given_number_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, set(range(100)), "--seeds", "50", "--failures-max", "2")
    assert "2 seeds, 2 failed" in done.stdout


def test_json_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, {2}, "--seeds", "2", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (report["seeds"], report["failed"], report["digests"]) == (2, 1, {"1": "00ff", "2": "00ff"})
    assert report["failures"][0]["broken"] == "lost-write"
    assert report["failures"][0]["options"] == {"seed": "1", "nodes": "3"}
