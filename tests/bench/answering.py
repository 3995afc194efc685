"""HTTP server with prepared answers on a thread, for tests of the measuring programs."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str, Any], tuple[int, bytes]]
"""Gets the path and the JSON of a request's body; gives status and body."""


class _Server(ThreadingHTTPServer):
    """HTTP server with a long accept queue whose threads do not block the exit."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


@contextmanager
def serve_answers(answer: Answer) -> Iterator[int]:
    """Serve HTTP requests with the results of `answer` inside the block; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, said = answer(self.path, json.loads(body) if body else None)
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = _answer  # noqa: N815 - the names that the library calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Log nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
