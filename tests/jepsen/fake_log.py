"""A log in the memory of this process that answers like a broker: correct, or broken in one way on purpose.

All its nodes share one memory. A kill drops nothing, unless that is the way in which it is broken.
"""

import asyncio
import base64
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import web

from jepsen.nemeses.fault import Link
from jepsen.nemeses.victims import WithoutFaults
from raftlog.records import build_batch, read_records, split_batches, stamp
from raftlog.types import TopicPartition

BATCHES = "application/vnd.raftlog.batches"
TOPIC_ID = "X-Raftlog-Topic-Id"
EPOCH = 3
FORGOTTEN = 5


class FakeLog(WithoutFaults):
    """System with an optional bug; `bug` is None or the wrong behaviour, which the methods show."""

    def __init__(self, bug: str | None = None, nodes: int = 2) -> None:
        self._bug, self._nodes = bug, nodes
        self._records: dict[tuple[str, int], list[bytes]] = {}
        self._starts: dict[tuple[str, int], int] = {}
        """Records below are deleted."""
        self._topics: dict[str, str] = {}
        """Uuids by name."""
        self._groups: dict[str, dict[tuple[str, int], int]] = {}
        self._addresses: dict[int, str] = {}
        self._up: dict[int, bool] = {}
        self._requests = 0
        self._runner: web.AppRunner | None = None

    # what a trial asks of a system

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)

    def close(self) -> None:
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
            self._runner = None
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    @property
    def addresses(self) -> Mapping[int, str]:
        return self._addresses

    @property
    def client_addresses(self) -> Mapping[int, str]:
        return self._addresses

    def is_up(self, node: int) -> bool:
        return self._up[node]

    def is_serving(self, node: int) -> bool:
        return self._up[node]

    def kill(self, node: int) -> str:
        self._up[node] = False
        if self._bug == "forgets at a kill":
            for records in self._records.values():
                del records[-FORGOTTEN:]
        return "nobody was hurt"

    def is_available(self) -> bool:
        return all(self._up.values())

    def change(self, shape: str, node: int, place: TopicPartition) -> str:
        return "nobody was asked"

    def terminate(self, node: int) -> str:
        self._up[node] = False
        return "nobody was hurt"

    def launch(self, node: int) -> None:
        self._up[node] = True

    def pause(self, node: int) -> str:
        return "nobody was hurt"

    def resume(self, node: int) -> None:
        pass

    def is_healthy(self) -> bool:
        return self.is_available()

    def cut(self, rpc: Sequence[Link], gossip: Sequence[Link]) -> None:
        pass

    def leader(self, place: TopicPartition) -> int | None:
        return 1

    def unexpected_exits(self) -> list[str]:
        return []

    def recover(self, timeout_s: float) -> list[str]:
        return []

    def stop(self) -> list[str]:
        return []

    def data_dirs(self) -> Mapping[int, Path]:
        return {}

    def logs(self) -> Mapping[int, str]:
        return {1: '{"exception": "Traceback (most recent call last): …"}\n'} if self._bug == "breaks inside" else {}

    # what a broker answers

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_post("/v3/clusters/-/topics", self._create)
        app.router.add_get("/v3/clusters/-/topics/{topic}", self._describe)
        app.router.add_delete("/v3/clusters/-/topics/{topic}", self._delete)
        app.router.add_post("/topics/{topic}/partitions/{partition}", self._append_batches)
        app.router.add_post("/topics/{topic}", self._append_json)
        app.router.add_get("/topics/{topic}/partitions/{partition}/records", self._fetch)
        app.router.add_delete("/topics/{topic}/partitions/{partition}/records", self._trim)
        app.router.add_get("/topics/{topic}/partitions/{partition}/offsets", self._offsets)
        app.router.add_post("/groups/{group}/offsets", self._commit)
        app.router.add_get("/groups/{group}/offsets", self._committed)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        for node in range(1, self._nodes + 1):
            site = web.TCPSite(self._runner, "127.0.0.1", 0)
            await site.start()
            host, port = site._server.sockets[0].getsockname()[:2]
            self._addresses[node], self._up[node] = f"{host}:{port}", True

    async def _create(self, request: web.Request) -> web.Response:
        fields = await request.json()
        name = fields["topic_name"]
        if name in self._topics:
            return _refuse(400, 40002, f"topic {name!r} exists already")
        self._topics[name] = str(uuid4())
        for partition in range(fields["partitions_count"]):
            kept = self._records.get((name, partition), []) if self._bug == "keeps what was deleted" else []
            self._records[name, partition], self._starts[name, partition] = kept, 0
        return web.json_response({"topic_id": self._topics[name]}, status=201)

    async def _describe(self, request: web.Request) -> web.Response:
        name = request.match_info["topic"]
        if name not in self._topics:
            return _refuse(404, 40403, "no such topic")
        count = sum(topic == name for topic, _ in self._records)
        return web.json_response({"topic_id": self._topics[name], "partitions_count": count})

    async def _delete(self, request: web.Request) -> web.Response:
        name = request.match_info["topic"]
        if self._topics.pop(name, None) is None:
            return _refuse(404, 40403, "no such topic")
        if self._bug == "deletes another one as well" and len(self._topics) > 1:
            self._topics.popitem()
        if self._bug != "keeps what was deleted":
            self._records = {place: records for place, records in self._records.items() if place[0] != name}
        return web.Response(status=204)

    def _requested_partition(self, request: web.Request) -> tuple[str, int] | None:
        """Return the partition of a request."""
        place = request.match_info["topic"], int(request.match_info["partition"])
        return place if place[0] in self._topics and place in self._records else None

    def _append(self, place: tuple[str, int], payloads: Sequence[bytes]) -> int:
        """Append records; return the offset of the first."""
        self._requests += 1
        records = self._records[place]
        base = len(records)
        if self._bug != "acknowledges and drops" or self._requests % 20:
            records += payloads
        if self._bug == "stores twice" and self._requests % 20 == 0:
            records += payloads
        return base

    def _is_refusing(self) -> bool:
        return self._bug == "refuses everything" or (self._bug == "stores what it refuses" and self._requests % 20 == 0)

    async def _append_batches(self, request: web.Request) -> web.Response:
        place = self._requested_partition(request)
        if place is None:
            return _refuse(404, 40401, "no such topic")
        payloads = [
            record.value or b"" for _, batch in split_batches(await request.read()) for record in read_records(batch)
        ]
        refuses = self._is_refusing()
        if self._bug == "refuses everything":
            return _unavailable()
        base = self._append(place, payloads)
        if refuses:
            return _unavailable()
        row = {"partition": place[1], "offset": base, "error_code": None, "error": None}
        after = base + len(payloads)
        return web.json_response(
            {"offsets": [row], "next_offset": after, "leader_epoch": EPOCH, "high_watermark": after},
            headers={TOPIC_ID: self._topics[place[0]]},
        )

    async def _append_json(self, request: web.Request) -> web.Response:
        if self._bug == "refuses everything":
            return _unavailable()
        rows: list[dict[str, Any]] = []
        for record in orjson.loads(await request.read())["records"]:
            place = request.match_info["topic"], record["partition"]
            base = self._append(place, [base64.b64decode(record["value"])])
            rows.append({"partition": place[1], "offset": base, "error_code": None, "error": None})
        return web.json_response({"offsets": rows})

    async def _fetch(self, request: web.Request) -> web.Response:
        offset, place = int(request.query["offset"]), self._requested_partition(request)
        if place is None:
            return _refuse(404, 40401, "no such topic")
        topic_id, records = self._topics[place[0]], self._records[place]
        if offset < self._starts[place] and self._bug == "skips what was deleted":
            offset = self._starts[place]
        elif offset < self._starts[place]:
            bounds = {"beginning_offset": self._starts[place], "end_offset": len(records)}
            return _refuse(400, 40002, f"offset {offset} is out of range", **bounds)
        body = b""
        if offset < len(records):
            batch = build_batch(records[offset : offset + 100])
            stamp(batch, offset, EPOCH)
            body = bytes(batch)
        else:
            await asyncio.sleep(min(int(request.query["timeout"]), 20) / 1000)
        return web.Response(body=body, content_type=BATCHES, headers={TOPIC_ID: topic_id})

    async def _trim(self, request: web.Request) -> web.Response:
        place, before = self._requested_partition(request), int(request.query["before"])
        if place is None:
            return _refuse(404, 40401, "no such topic")
        start = max(before, self._starts[place])
        if self._bug == "deletes more than was asked":
            start = len(self._records[place])
        if self._bug != "answers and deletes nothing":
            self._starts[place] = start
        return web.json_response({"log_start_offset": start})

    async def _offsets(self, request: web.Request) -> web.Response:
        place = self._requested_partition(request)
        if place is None:
            return _refuse(404, 40401, "no such topic")
        self._requests += 1
        end = len(self._records[place])
        if self._bug == "tells an old end" and self._requests % 20 == 0:
            end = max(0, end - FORGOTTEN)
        if self._bug == "brings back what was deleted" and self._starts[place] and self._requests % 3 == 0:
            self._starts[place] = 0
        return web.json_response({"beginning_offset": self._starts[place], "end_offset": end})

    async def _commit(self, request: web.Request) -> web.Response:
        marks = self._groups.setdefault(request.match_info["group"], {})
        for row in (await request.json())["offsets"]:
            place = row["topic"], row["partition"]
            marks[place] = max(marks.get(place, 0), row["offset"])
        return await self._committed(request)

    async def _committed(self, request: web.Request) -> web.Response:
        marks = self._groups.get(request.match_info["group"], {})
        rows = [{"topic": topic, "partition": partition, "offset": at} for (topic, partition), at in marks.items()]
        return web.json_response({"offsets": rows})


def _unavailable() -> web.Response:
    return _refuse(503, 50302, "not now")


def _refuse(status: int, code: int, why: str, **more: int) -> web.Response:
    return web.json_response({"error_code": code, "message": why, "outcome": "failed", **more}, status=status)
