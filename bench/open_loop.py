"""Load at a fixed rate over HTTP, by `raftlog.loadgen`, with the latency of every write.

    latency = end of the answer − the moment at which the write was due

so the latency includes the time for which a stalled broker delays the sending of a write."""

from itertools import cycle

from bench.samples import VALUE_BYTES, percentile
from bench.service import HOST
from raftlog.loadgen import LoadMode, LoadPlan, LoadRun, LoadTarget, Mix, SocketWire, Targeting, Work

CONNECTIONS = 48
_ANSWER_S_MAX = 10.0


class _KeyedWork(Work):
    """Records with keys, `keys` different ones in turn."""

    def __init__(self, plan: LoadPlan, place: LoadTarget, keys: int) -> None:
        super().__init__(plan, place)
        self._keys = cycle(range(keys))

    def _make_records(self) -> tuple[str, bytes]:
        media_type, body = super()._make_records()
        return media_type, body.replace(b'{"value"', b'{"key":"offered %d","value"' % next(self._keys), 1)


def offer(
    ports: list[int],
    topic: str,
    per_s: int,
    seconds: float,
    with_samples: bool = False,
    keys: int = 0,
    headers: str = "",
) -> dict[str, float | list[tuple[float, float]]]:
    """Offer single records of 100 bytes, all different, to partition 0 of a topic, through these brokers in turn.

    With `keys` each record has one of that many keys in turn. `headers` are further header lines of each request.
    Latencies are those of successful writes. If wanted, `samples` has for each of these its due time
    (`time.perf_counter`) and its latency, in seconds.
    """
    plan = LoadPlan(
        mode=LoadMode.OPEN,
        targeting=Targeting.ANY,
        mix=Mix.parse("send"),
        rate=per_s,
        seconds=seconds,
        clients=1,
        in_flight=CONNECTIONS,
        value_bytes=VALUE_BYTES,
    )
    place = LoadTarget([f"{HOST}:{port}" for port in ports], topic, {}, {0: 0}, headers=headers)
    samples: list[tuple[float, float]] = []
    with SocketWire(_ANSWER_S_MAX) as wire:
        work = _KeyedWork(plan, place, keys) if keys else Work(plan, place)
        result = LoadRun(plan, wire, work, on_success=lambda due, at: samples.append((due, at - due))).run()
    latencies = sorted(latency for _, latency in samples)
    return {
        **({"samples": samples} if with_samples else {}),
        "offered": result.offered,
        "sent": result.ended,
        "succeeded": result.succeeded,
        "p50_ms": percentile(latencies, 50) * 1000,
        "p99_ms": percentile(latencies, 99) * 1000,
        "max_ms": latencies[-1] * 1000,
    }
