"""`raftlog maelstrom`: a node of a Maelstrom test on stdin and stdout, until stdin ends, SIGTERM or Ctrl-C.

Exit codes: 0 after any of these, 1 when it fails (its disk failed, its stdout is closed). The last line
on stderr is a JSON report of the node; one is also printed every ten seconds, because Maelstrom kills its nodes.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
import uvloop

from raftlog.api.maelstrom import MaelstromNode, MaelstromSettings
from raftlog.api.maelstrom.stdio import Input, Lines, Output
from raftlog.api.maelstrom.temporary import temporary_directory
from raftlog.cli.options import option, read_defaults, settings_options, usage_errors
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.serve import logs
from raftlog.errors import RaftlogError, StorageError

REPORT_S: Final = 10.0
_STDIN: Final = 0
_STDOUT: Final = 1
_LAST_ANSWERS_S: Final = 6.0
"""Time for pending requests after the end of stdin; each is answered within its timeout."""
_FLUSH_S: Final = 1.0
_SETTINGS: Final = {
    "groups": "Number of Raft groups that share the keys.",
    "tick_ms": "Raft tick in milliseconds; an election begins after 10 to 20 without a leader.",
    "linger_ms": "Time that a message waits for more to the same node, in milliseconds.",
    "gossip_ms": "Interval between broadcast messages to a neighbour, in milliseconds.",
    "timeout_ms": "Timeout of a request, in milliseconds.",
}


@click.command()
@option(
    "--data-dir",
    type=click.Path(),
    default=None,
    show_default="a temporary directory, removed at the end",
    help="Directory of the logs; each node uses a subdirectory of its name.",
)
@settings_options(read_defaults(MaelstromSettings), _SETTINGS)
@option(
    "--log-level",
    envvar="RAFTLOG_LOG_LEVEL",
    type=click.Choice(logs.LEVELS),
    default="warning",
    help="Lowest level to log to stderr.",
)
def maelstrom(data_dir: str | None, log_level: str, **settings: Any) -> None:
    """Run a node of a Jepsen Maelstrom test: echo, broadcast, g-set, lin-kv and kafka as JSON on stdin and stdout.

    maelstrom test -w kafka --bin "$(command -v raftlog)" --node-count 3 … -- maelstrom
    """
    if not __debug__:
        raise CommandFailed(
            "raftlog maelstrom refuses to run under `python -O`, which disables the assertions that protect the data"
        )
    logs.configure(log_level, "text")
    logs.write_held()
    with _open_directory(data_dir) as path:
        with usage_errors():
            checked = MaelstromSettings(data_dir=path, **settings)
        uvloop.run(_run(checked))


@contextlib.contextmanager
def _open_directory(data_dir: str | None) -> Iterator[str]:
    """Yield the path of the data directory, or of a temporary one that is deleted at the end."""
    if data_dir is not None:
        yield os.path.abspath(data_dir)
        return
    with temporary_directory() as path:
        yield path


async def _run(settings: MaelstromSettings) -> None:
    """Run a Maelstrom node on stdin and stdout until a signal or a failure. Raises `CommandFailed` for a failure."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[RaftlogError | None] = loop.create_future()

    def end(why: RaftlogError | None = None) -> None:
        """End the process, with an error or without."""
        if not stop.done():
            stop.set_result(why)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    output = Output(_STDOUT, lambda: end(StorageError("stdout of this node is closed")))
    await output.open()
    node = MaelstromNode(settings, output.write, end)
    loop.set_exception_handler(lambda loop, context: _handle_loop_error(end, loop, context))
    lines = Lines(node.receive, lambda size: node.refuse(f"a line of {size} bytes is too long"))
    reader = Input(_STDIN, lines, end)
    reports = loop.create_task(_report_regularly(node))
    failure = await stop
    reports.cancel()
    reader.stop()
    if failure is None:
        await node.settle(_LAST_ANSWERS_S)
    await node.close()
    await output.flush(_FLUSH_S)
    _print_report(node)
    if failure is not None:
        raise CommandFailed(f"the node cannot continue: {failure}")


async def _report_regularly(node: MaelstromNode) -> None:
    """Print the node's report whenever it has changed."""
    reported = 0
    while True:
        await asyncio.sleep(REPORT_S)
        if node.counts.operations.total() > reported:
            reported = node.counts.operations.total()
            _print_report(node)


def _print_report(node: MaelstromNode) -> None:
    """Print the counters of the node to stderr."""
    with contextlib.suppress(OSError):  # a closed stderr is no error
        click.echo(json.dumps(node.report()), err=True)
        sys.stderr.flush()


def _handle_loop_error(
    end: Callable[[RaftlogError], None], loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Log an error that reached the loop, and end the node: after a broken invariant its state cannot be trusted."""
    loop.default_exception_handler(context)
    error = context.get("exception")
    if isinstance(error, AssertionError):
        end(StorageError(f"broken invariant: {error}; please report it with the log"))
