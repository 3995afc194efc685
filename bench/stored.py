"""Whether what was acknowledged over HTTP is there: asked of the broker, then read from its files after SIGKILL."""

from pathlib import Path

import raftlog
from bench.child import run_in_child
from bench.load import CONNECTIONS
from bench.measure import require
from bench.service import Service

_VALUES_COMPARED_MAX = 300_000


def inspect(path: str, compared_max: int) -> dict[str, int]:
    """Open a partition's directory as a log and read it; in a child."""
    with raftlog.Log.open(path, create=False) as log:
        end = log.end_offset
        values = [record.value for record in log.read(end=min(end, compared_max))]
        report = log.verify()
    return {
        "end_offset": end,
        "values": len(values),
        "different": len(set(values)),
        "records_verified": report.records,
        "problems": len(report.problems),
    }


def require_stored(
    service: Service, data_dir: Path, topic: str, requests: int, records_per_request: int, *, all_differ: bool = True
) -> dict[str, float]:
    """Kill the broker and raise `MeasureFailed` unless the topic holds every acknowledged record, once.

    Requests that were in flight when the load ended may be stored too: at most one for each connection.
    """
    acknowledged = requests * records_per_request
    said = service.end_offset(topic)
    service.kill()
    found = run_in_child(inspect, path=str(data_dir / topic / "0"), compared_max=_VALUES_COMPARED_MAX)
    stored = found["end_offset"]
    require(stored >= acknowledged, f"{acknowledged} records were acknowledged, {stored} are on disk")
    require(stored >= said, f"the broker said that its end offset is {said}; on disk it is {stored}")
    most = (requests + CONNECTIONS) * records_per_request
    require(stored <= most, f"{stored} records are on disk, but at most {most} were sent")
    require(found["problems"] == 0, f"{found['problems']} batches on disk are not sound")
    if all_differ:
        require(found["different"] == found["values"], "records are on disk twice")
    return {"records_acknowledged": acknowledged, "records_stored": stored, "values_compared": found["values"]}
