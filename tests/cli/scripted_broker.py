"""HTTP server with prepared answers that records its requests."""

import http.server
import json
import threading
from typing import Any


class ScriptedBroker:
    """Broker that answers by path, or by method and path; `"PUT /v1/…"` takes precedence over `"/v1/…"`."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[str] = []
        self.ordered: list[tuple[str, Any]] = []
        """Method, path and query without the timeout, and body, of whatever was no GET."""
        broker = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                broker.asked.append(path)
                status, fields = broker.answers[path]
                self._answer(status, fields)

            def do_PUT(self) -> None:
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kept = "&".join(part for part in query.split("&") if not part.startswith("timeout="))
                named = f"{self.command} {path}"
                broker.ordered.append((named + (f"?{kept}" if kept else ""), json.loads(body) if body else None))
                status, fields = broker.answers[named]
                self._answer(status, fields)

            do_DELETE = do_POST = do_PUT  # noqa: N815 - the library's names

            def _answer(self, status: int, fields: Any) -> None:
                # An answer can be a list of answers, the last of which stays.
                if isinstance(fields, AnswerSequence):
                    fields = fields.next()
                body = json.dumps(fields).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class AnswerSequence:
    """Answers returned in turn; the last one is repeated."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def next(self) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
