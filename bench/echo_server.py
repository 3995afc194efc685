"""Server without a log, aiohttp alone: baseline of the HTTP figures.

It parses the JSON of a produce and answers in the shape of a produce, on uvloop, access log off, as the broker does."""

import asyncio
import sys

import orjson
import uvloop
from aiohttp import web

from bench.service import HOST, READY_PATH


async def _produce(request: web.Request) -> web.Response:
    """Answer as a broker would, without storing the records."""
    records = orjson.loads(await request.read())["records"]
    offsets = [{"partition": 0, "offset": 5, "error_code": None, "error": None} for _ in records]
    body = {"offsets": offsets, "key_schema_id": None, "value_schema_id": None}
    return web.Response(body=orjson.dumps(body), content_type="application/json")


async def _ready(request: web.Request) -> web.Response:
    return web.Response(body=b'{"status":"ready"}', content_type="application/json")


async def _serve(port: int) -> None:
    """Serve on the port until the process is killed."""
    application = web.Application()
    application.router.add_post("/topics/{topic}", _produce)
    application.router.add_get(READY_PATH, _ready)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
