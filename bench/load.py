"""Load from `wrk`: one thread, 64 connections with one request in flight each.

wrk reports through `report.lua`, one line of JSON with exact counts. Any answer of status 400 and above and any
socket error makes a run worthless: it fails the measure instead of scoring.
"""

import json
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import MeasureFailed, NotMeasured

CONNECTIONS = 64
SECONDS = 5
_ANSWER_S_MAX = 10
_HERE = Path(__file__).parent
_MARK = "RESULT "


class Load(NamedTuple):
    """Results of wrk: `requests` were answered completely; latencies are corrected for coordinated omission."""

    requests: int
    seconds: float
    bytes_read: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds


def run_wrk(script: str, url: str, *arguments: str, seconds: int = SECONDS, connections: int = CONNECTIONS) -> Load:
    """Run wrk with a script of this directory; raises `NotMeasured` without wrk, `MeasureFailed` on any error."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", f"{_ANSWER_S_MAX}s"]
    command += ["-s", str(_HERE / script), url, "--", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 3 * _ANSWER_S_MAX)
    except FileNotFoundError:
        raise NotMeasured("wrk is not installed; on Debian and Ubuntu: apt-get install wrk") from None
    except subprocess.TimeoutExpired:
        raise MeasureFailed("wrk did not end") from None
    line = next((line for line in done.stdout.splitlines() if line.startswith(_MARK)), None)
    if done.returncode or line is None:
        raise MeasureFailed(f"wrk ended with exit code {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
    return _parse_result(json.loads(line.removeprefix(_MARK)))


def _parse_result(result: dict[str, Any]) -> Load:
    """Return the load in the output of wrk. Raises `MeasureFailed` for errors, and if nothing was answered."""
    errors = {name: count for name, count in result["errors"].items() if count}
    if errors:
        raise MeasureFailed("wrk counted errors: " + ", ".join(f"{count} {name}" for name, count in errors.items()))
    if not result["requests"]:
        raise MeasureFailed("not one request was answered")
    return Load(
        result["requests"],
        result["duration_us"] / 1e6,
        result["bytes"],
        result["p50_us"] / 1000,
        result["p99_us"] / 1000,
        result["max_us"] / 1000,
    )


def raw_request(method: str, port: int, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return a whole HTTP/1.1 request as bytes, for `replay.lua`."""
    fields = {"Host": f"127.0.0.1:{port}", **headers}
    if body:
        fields["Content-Length"] = str(len(body))
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return head.encode() + b"\r\n" + body


def write_requests(file: Path, requests: Iterable[bytes]) -> Path:
    """Write requests for `replay.lua`, each after its length as four little-endian bytes."""
    with file.open("wb") as out:
        for request in requests:
            out.write(struct.pack("<I", len(request)))
            out.write(request)
    return file
