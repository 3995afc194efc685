"""Node process: `python -m jepsen.control.node serve FLAGS`, with the HTTP API that the clients use.

It is started like a broker (`raftlog.testing.process`), and prints the same first line to stdout. It refuses requests
as not ready until it has applied all entries that a majority has agreed on. Then it reads records from its own copy;
for lists of offsets and for commits it waits for a majority."""

import argparse
import asyncio
import base64
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import web

from jepsen.control.peer import BUILDS, Marks, Peer, Refused, RelayedNode
from raftlog.records import build_batch, read_records, split_batches, stamp
from raftlog.types import Offset, Term

_BATCHES: Final = "application/vnd.raftlog.batches"
_RECORDS_MAX: Final = 100
"""Largest number of records in one answer; a hundred records of the largest size are a megabyte."""
_WAIT_S: Final = 0.02
_READY_ATTEMPT_S: Final = 1.0
_BODY_BYTES_MAX: Final = 1 << 22


class Node:
    """HTTP handlers of one node."""

    def __init__(self, peer: Peer, lists: int) -> None:
        """Serve `lists` replicated lists of `peer`, one for each partition."""
        self._peer, self._lists = peer, lists
        self._is_ready = False

    def add_routes(self, app: web.Application) -> None:
        """Add the routes of this node to the application."""
        app.router.add_get("/status", self._status)
        app.router.add_post("/v3/clusters/-/topics", self._convert_errors(self._create))
        app.router.add_post("/topics/{topic}", self._convert_errors(self._append_json))
        app.router.add_post("/topics/{topic}/partitions/{partition}", self._convert_errors(self._append_batches))
        app.router.add_get("/topics/{topic}/partitions/{partition}/records", self._convert_errors(self._fetch))
        app.router.add_get("/topics/{topic}/partitions/{partition}/offsets", self._convert_errors(self._offsets))
        app.router.add_post("/groups/{group}/offsets", self._convert_errors(self._commit))
        app.router.add_get("/groups/{group}/offsets", self._convert_errors(self._committed))

    async def become_ready(self) -> None:
        """Wait until this node has applied all entries that were agreed on before the call."""
        while not self._is_ready:
            try:
                await self._peer.linearizable_end(0, _READY_ATTEMPT_S)
            except (Refused, TimeoutError):
                continue
            self._is_ready = True

    def _convert_errors(self, handler: Callable[[web.Request], Awaitable[web.Response]]) -> Any:
        """Return the handler with exceptions converted to errors of the API."""

        async def answer(request: web.Request) -> web.Response:
            """Answer a request; on an error answer with status 503 if the request definitely failed, else 504."""
            if not self._is_ready:
                return _error(503, 50302, "not ready yet", "failed")
            try:
                return await handler(request)
            except Refused as error:
                outcome = "failed" if error.is_definite else "unknown"
                return _error(503 if error.is_definite else 504, 50302 if error.is_definite else 50401, error, outcome)
            except TimeoutError:
                return _error(504, 50401, "the library has not called back in time", "unknown")

        return answer

    async def _status(self, _request: web.Request) -> web.Response:
        """Answer with the node's readiness, role and term, and the library's own status."""
        peer = self._peer
        more = {"ready": self._is_ready, "leads": peer.is_leader, "term": peer.term}
        return web.json_response({"library": peer.status, **more})

    async def _create(self, request: web.Request) -> web.Response:
        """Confirm the creation of the lists, which exist from the start."""
        fields = await request.json()
        if fields["partitions_count"] != self._lists:
            return _error(400, 400, f"there are {self._lists} lists", "failed")
        return web.json_response({}, status=201)

    async def _append_batches(self, request: web.Request) -> web.Response:
        """Append the records of the batches in the body to a partition, and answer with their offsets."""
        partition = _partition(request)
        payloads = [
            record.value or b"" for _, batch in split_batches(await request.read()) for record in read_records(batch)
        ]
        row, after = await self._append(partition, payloads, _timeout_s(request))
        return web.json_response({"offsets": [row], "next_offset": after, "high_watermark": after})

    async def _append_json(self, request: web.Request) -> web.Response:
        """Append each record of the request by an operation of its own."""
        records = orjson.loads(await request.read())["records"]
        rows = await asyncio.gather(
            *(
                self._append_one(int(record["partition"]), base64.b64decode(record["value"]), _timeout_s(request))
                for record in records
            )
        )
        return web.json_response({"offsets": rows})

    async def _append_one(self, partition: int, payload: bytes, timeout_s: float) -> dict[str, Any]:
        """Append one record; return its row of the answer, with the error if it failed."""
        failed: dict[str, Any] = {"partition": partition, "offset": None}
        try:
            return (await self._append(partition, [payload], timeout_s))[0]
        except Refused as error:
            outcome = "failed" if error.is_definite else "unknown"
            return {
                **failed,
                "error_code": 50302 if error.is_definite else 50401,
                "error": str(error),
                "outcome": outcome,
            }
        except TimeoutError:
            return {**failed, "error_code": 50401, "error": "not called back in time", "outcome": "unknown"}

    async def _append(self, partition: int, payloads: list[bytes], timeout_s: float) -> tuple[dict[str, Any], int]:
        """Append payloads to a partition. Return the row of the answer, and the offset after the last payload."""
        base = await self._peer.append(partition, payloads, timeout_s)
        row = {"partition": partition, "offset": base, "error_code": None, "error": None}
        return row, base + len(payloads)

    async def _fetch(self, request: web.Request) -> web.Response:
        """Answer with a batch of the records from an offset on; without records, wait and answer with an empty body."""
        offset = int(request.query["offset"])
        found = self._peer.records(_partition(request), offset, _RECORDS_MAX)
        body = b""
        if found:
            batch = build_batch(found)
            stamp(batch, Offset(offset), Term(0))  # the library does not say which term a record is of
            body = bytes(batch)
        else:
            await asyncio.sleep(min(_timeout_s(request), _WAIT_S))
        return web.Response(body=body, content_type=_BATCHES)

    async def _offsets(self, request: web.Request) -> web.Response:
        """Answer with the first and end offset of a partition."""
        partition = _partition(request)
        if request.query.get("linearizable") == "true":
            end = await self._peer.linearizable_end(partition, _timeout_s(request))
        else:
            end = self._peer.end(partition)
        return web.json_response({"beginning_offset": 0, "end_offset": end})

    async def _commit(self, request: web.Request) -> web.Response:
        """Raise committed offsets of a group; answer with all its committed offsets."""
        rows = orjson.loads(await request.read())["offsets"]
        return await self._commit_marks(request, {(row["topic"], row["partition"]): row["offset"] for row in rows})

    async def _committed(self, request: web.Request) -> web.Response:
        """Answer with the committed offsets of a group, by a commit without offsets."""
        return await self._commit_marks(request, {})

    async def _commit_marks(self, request: web.Request, marks: Marks) -> web.Response:
        """Commit `marks`, offsets by topic and partition; answer with all committed offsets of the group."""
        agreed = await self._peer.commit(request.match_info["group"], marks, _timeout_s(request))
        rows = [{"topic": topic, "partition": partition, "offset": at} for (topic, partition), at in agreed.items()]
        return web.json_response({"offsets": rows})


def _partition(request: web.Request) -> int:
    """Return the number of the partition in the request's path."""
    return int(request.match_info["partition"])


def _timeout_s(request: web.Request) -> float:
    """Return the timeout of a request in seconds; its query has milliseconds."""
    return int(request.query["timeout"]) / 1000


def _error(status: int, code: int, message: object, outcome: str) -> web.Response:
    """Return an error response; `outcome` is "failed" or "unknown"."""
    body = {"error_code": code, "message": str(message), "outcome": outcome}
    return web.json_response(body, status=status)


def _arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--http", required=True)
    parser.add_argument("--log-format")  # said to every broker
    parser.add_argument("--own", required=True, help="where the library listens: the node's name")
    parser.add_argument("--other", action="append", default=[], help="NAME=PORT: another node, and where it is called")
    parser.add_argument("--lists", type=int, required=True)
    parser.add_argument("--build", choices=list(BUILDS), default="unmodified")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    """Run a node until SIGTERM; write its address to standard output once it serves HTTP."""
    others = [RelayedNode(name, int(port)) for name, _, port in (each.partition("=") for each in arguments.other)]
    peer = Peer(arguments.own, others, arguments.data_dir, arguments.lists, arguments.build)
    node = Node(peer, arguments.lists)
    app = web.Application(client_max_size=_BODY_BYTES_MAX)
    node.add_routes(app)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    host, _, port = arguments.http.rpartition(":")
    site = web.TCPSite(runner, host, int(port), reuse_address=True)
    await site.start()
    has_sigterm = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, has_sigterm.set)
    sys.stdout.buffer.write(orjson.dumps({"http": arguments.http}) + b"\n")
    sys.stdout.buffer.flush()
    getting_ready = asyncio.create_task(node.become_ready())
    await has_sigterm.wait()
    getting_ready.cancel()
    await runner.cleanup()
    peer.close()


def main() -> None:
    """Run a node by the command line."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    arguments = _arguments()
    arguments.data_dir.mkdir(parents=True, exist_ok=True)
    asyncio.run(_serve(arguments))


if __name__ == "__main__":
    main()
