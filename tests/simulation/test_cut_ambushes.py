"""Log cuts during held segment syncs: they occur, detect their planted bug, and change no other run."""

from collections.abc import Callable

import pytest
from click.testing import CliRunner

from jepsen.simulation import VirtualLoop
from jepsen.simulation.__main__ import main
from jepsen.simulation.machine import Machine
from jepsen.simulation.nemesis.cut_ambushes import CutAmbushes
from jepsen.simulation.nemesis.sync_delays import UnorderedDelays
from jepsen.simulation.options import draw, generator
from jepsen.simulation.report import failure_text, repeat_command
from jepsen.simulation.run import simulate
from jepsen.simulation.timed_disk import TimedDisk
from raftlog.runtime.process.large_appends import LargeAppends
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index

SEEDS = (range(1, 2), pytest.param(range(2, 7), marks=pytest.mark.slow))
FOUND_WITHIN = range(1, 31)


@pytest.fixture
def triggered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return machines whose log was cut while a sync of theirs was held."""
    found: list[str] = []
    spring = CutAmbushes._on_cut

    def record_ambush(ambushes: CutAmbushes, machine: Machine) -> None:
        before = ambushes.triggered
        spring(ambushes, machine)
        found.extend([machine.name] * (ambushes.triggered - before))

    monkeypatch.setattr(CutAmbushes, "_on_cut", record_ambush)
    return found


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_fixed_seeds_survive_cuts_that_meet_syncs(triggered: list[str], seeds: range) -> None:
    for seed in seeds:
        outcome = simulate(seed, cut_ambushes=True)
        if outcome.failure is not None:
            pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)
        assert "cut_ambushes = True" in outcome.options
        assert repeat_command(outcome).endswith(f"jepsen.simulation --cut-ambushes --seeds 1 --from {seed}")
    assert len(triggered) >= len(seeds)


def test_cuts_during_syncs_detect_large_appends_that_a_cut_does_not_shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids would be journaled after the cut; in-order syncs and hundreds of other seeds do not detect it."""

    def spare(_appends: LargeAppends, _group: PartitionReplica, _index: Index) -> None:
        return None

    monkeypatch.setattr(LargeAppends, "cut", spare)
    assert any(simulate(seed, cut_ambushes=True).failure is not None for seed in FOUND_WITHIN)


def test_the_option_is_never_drawn_from_a_seed() -> None:
    assert not any(draw(seed).cut_ambushes for seed in range(100))


def test_cuts_during_syncs_are_only_for_drivers() -> None:
    done = CliRunner().invoke(main, ["--level", "broker", "--cut-ambushes"])
    assert (done.exit_code, "--level driver" in done.stderr) == (2, True)


def test_held_syncs_return_after_their_release_and_others_at_once(loop: VirtualLoop) -> None:
    disk = TimedDisk(generator(1), loop, 1_000, UnorderedDelays(generator(2)))
    disk.process = loop.add_node("n1").start()
    disk.make_directory("/journal")
    segment, journal = disk.open("/a.log", create=True), disk.open("/journal/1", create=True)
    done: list[str] = []

    def note(name: str) -> Callable[[OSError | None], None]:
        return lambda _: done.append(name)

    disk.hold()
    for name, file in (("segment", segment), ("journal", journal), ("again", segment)):
        disk.submit_sync([file], [], note(name))
    loop.run_for(1.0)
    assert (done, disk.has_held) == (["journal"], True)
    disk.release()
    loop.run_for(1.0)
    assert (done, disk.has_held) == (["journal", "segment", "again"], False)
