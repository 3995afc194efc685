"""`raftlog serve --workers N`: N broker processes that share nothing, usually one per core, under one supervisor.

Worker w (from 1) has the ports + 10·(w-1), the node id n + 1000·(w-1), and as data directory the given one, or
`{data-dir}/.raftlog/workers/{w}` from w = 2 on. All have the same host label, so replicas of a partition are never on
two of them. A killed worker is restarted, a few times; a worker that fails prints its error, and then all workers end,
because the same error would stop it again. Without `--rpc` only the workers use RPC, and the secret that they share is
created at the first start, in `{data-dir}/.raftlog/cluster.secret`.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import orjson

from raftlog.cli.children import Child, run_until
from raftlog.cli.options import broker_option, split_address
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.serve.service_manager import ServiceManager
from raftlog.cluster_secret import ensure_secret

PORT_STEP: Final = 10
NODE_ID_STEP: Final = 1000
GOSSIP_OFF: Final = "off"
KAFKA_DEFAULT: Final = "127.0.0.1:9092"
RPC_PORT_STEP: Final = 2
"""Distance of the default RPC port from the HTTP port."""
WORKERS_MAX: Final = 256
RESTARTS_MAX: Final = 3
RESTARTS_WITHIN_S: Final = 60.0
READY_PREFIX: Final = "raftlog is ready: "


workers_option = broker_option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    default=1,
    help="Number of broker processes on this host, usually one per core; each has ports + 10 and node id + 1000 of "
    "the one before.",
)


def worker_ids(node_id: int, workers: int) -> range:
    """Return the node ids of a node's workers."""
    return range(node_id, node_id + NODE_ID_STEP * workers, NODE_ID_STEP)


def supervise(given: Mapping[str, Any], manager: ServiceManager) -> None:
    """Run the workers until a signal; `given` are the values of the options of `serve`. Raises `CommandFailed`."""
    flags = [worker_flags(given, worker) for worker in range(1, given["workers"] + 1)]
    secret = secret_flags(given)
    # The typed arguments stay unchanged; of a repeated flag the later one counts.
    commands = [[sys.executable, "-P", "-m", "raftlog.cli", *sys.argv[1:], *each, *secret] for each in flags]
    asyncio.run(_WorkerSupervisor(commands, given["log_format"], manager).run())


def secret_flags(given: Mapping[str, Any]) -> list[str]:
    """Return the flag with a generated secret for workers; empty if `--rpc` or a secret is given."""
    if given["rpc"] is not None or given["cluster_secret_file"] is not None:
        return []
    return ["--cluster-secret-file", ensure_secret(os.path.join(given["data_dir"], ".raftlog", "cluster.secret"))]


def worker_flags(given: Mapping[str, Any], worker: int) -> list[str]:
    """Return the flags in which worker `worker` differs from the broker described by `given`. Raises `UsageError`."""
    rpc = given["rpc"] or _find_rpc_address(given["http"])
    node_id = worker_ids(given["node_id"], worker)[-1]
    data_dir = given["data_dir"] if worker == 1 else os.path.join(given["data_dir"], ".raftlog", "workers", str(worker))
    flags = ["--workers", "1", "--node-id", str(node_id), "--data-dir", data_dir]
    flags += ["--host-label", given["host_label"] or f"node-{given['node_id']}"]
    flags += [
        "--http",
        _make_worker_address(given["http"], worker, "--http"),
        "--rpc",
        _make_worker_address(rpc, worker, "--rpc"),
    ]
    for name in ("advertise_http", "advertise_rpc", "gossip", "advertise_gossip"):
        if given[name] not in (None, GOSSIP_OFF):
            flag = f"--{name.replace('_', '-')}"
            flags += [flag, _make_worker_address(given[name], worker, flag)]
    if given["rpc"] is None and not given["kafka"]:
        flags += ["--kafka-default", _make_worker_address(KAFKA_DEFAULT, worker, "--kafka")]
    flags += ["--kafka-port-shift", str(PORT_STEP * (worker - 1))]
    if worker > 1 and not given["seeds"]:
        flags += ["--seeds", given["advertise_rpc"] or rpc]
    return flags


def _find_rpc_address(http: str) -> str:
    """Return the default RPC address for an HTTP address: its port plus `RPC_PORT_STEP`."""
    host, port = split_address(http, "--http")
    if port == 0:
        raise click.UsageError("--workers above 1 needs --rpc HOST:PORT, because --http has port 0")
    return _format_address(host, port + RPC_PORT_STEP)


def _make_worker_address(address: str, worker: int, flag: str) -> str:
    """Return the address of a worker by its number; port 0 stays 0. Raises `click.UsageError` for RPC on port 0."""
    host, port = split_address(address, flag)
    if port == 0 and flag == "--rpc":
        raise click.UsageError("--workers above 1 needs --rpc with a fixed port instead of 0, to connect the workers")
    return _format_address(host, port + PORT_STEP * (worker - 1) if port else 0)


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _WorkerSupervisor:
    """Supervisor of the workers of `raftlog serve --workers`."""

    def __init__(self, commands: Sequence[list[str]], line_format: str, manager: ServiceManager) -> None:
        self._workers = [Child(f"worker {number}", command) for number, command in enumerate(commands, start=1)]
        self._line_format, self._manager = line_format, manager
        self._stop = asyncio.Event()
        self._restarts: deque[float] = deque(maxlen=RESTARTS_MAX)

    async def run(self) -> None:
        """Run the workers until a signal or an error, then stop them; raise the error."""
        work = await run_until(self._stop, (signal.SIGTERM, signal.SIGINT), self._start_and_watch())
        self._manager.notify_stopping()
        codes = await asyncio.gather(*(worker.end() for worker in self._workers))
        if not work.cancelled():
            work.result()
        if any(codes):
            raise CommandFailed(f"{sum(map(bool, codes))} of {len(codes)} workers did not stop cleanly")

    async def _start_and_watch(self) -> None:
        """Start all workers, print that they are ready, and restart killed ones. Raises `CommandFailed`."""
        for worker in self._workers:
            await worker.start()
        self._print_ready(await asyncio.gather(*(worker.read_ready_line() for worker in self._workers)))
        self._manager.notify_ready(f"{len(self._workers)} workers serve")
        try:
            async with asyncio.TaskGroup() as group:
                for worker in self._workers:
                    group.create_task(self._keep_running(worker))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _keep_running(self, worker: Child) -> None:
        """Restart a worker whenever it is killed; stop all workers when it ends without an error.

        Ctrl-C in a terminal reaches every process, in any order."""
        while (code := await worker.wait()) != 0:
            how = worker.describe_exit()
            if code > 0:
                raise CommandFailed(
                    f"{worker.name} ended ({how}), and so all workers were stopped; see its error above"
                )
            now = asyncio.get_running_loop().time()
            if len(self._restarts) == RESTARTS_MAX and now - self._restarts[0] < RESTARTS_WITHIN_S:
                raise CommandFailed(
                    f"{worker.name} ended ({how}) after {RESTARTS_MAX} restarts in {RESTARTS_WITHIN_S:g} s, and so "
                    "all workers were stopped; see the log above"
                )
            self._restarts.append(now)
            click.echo(f"{worker.name} ended ({how}); restarting it", err=True)
            await worker.start()
            await worker.read_ready_line()
        self._stop.set()

    def _print_ready(self, lines: Sequence[bytes]) -> None:
        """Print one ready line for all workers."""
        if self._line_format == "json":
            workers = [orjson.loads(line) for line in lines]
            first = {key: value for key, value in workers[0].items() if key != "pid"}
            click.echo(orjson.dumps({**first, "pid": os.getpid(), "workers": workers}))
        else:
            texts = [line.decode().strip().removeprefix(READY_PREFIX) for line in lines]
            click.echo(f"{READY_PREFIX}{len(texts)} workers: {'; '.join(texts)}")
        sys.stdout.flush()
