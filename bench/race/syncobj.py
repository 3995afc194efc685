"""pysyncobj as a system of the race; its clients run inside its members."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.peers import run_syncobj
from bench.race.system import RunningSystem, System, Values


@contextmanager
def start_syncobj(directory: Path) -> Iterator[RunningSystem]:
    """Prepare pysyncobj, whose three processes start anew for each run, since only its members can be clients."""
    runs = iter(range(1_000))

    def run_once() -> Values:
        place = directory / str(next(runs))
        place.mkdir()
        return run_syncobj(place, batching="batched")

    yield RunningSystem(list, {"closed": run_once})


SYSTEM: Final = System(
    "pysyncobj", "pysyncobj", "applied by the leader, not synced; the client inside it", start_syncobj
)
