"""`raftlog serve`: the composition root. It puts broker and HTTP server together and waits for a signal.

Exit codes: 0 after SIGTERM or Ctrl-C, 1 when the broker cannot start, cannot go on (its disk failed), or cannot stop in
time.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
from dataclasses import fields
from typing import Any

import click
import orjson
import uvloop

import raftlog
from raftlog.api.http.listener import HttpListener
from raftlog.api.http.server import server as http_server
from raftlog.api.http.server.origins import allowed_host
from raftlog.api.http.server.server import requests_budget
from raftlog.cli.options import all_of, broker_option, settings_option, split_address
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.serve import logs
from raftlog.cli.serve.cluster_options import cluster_options, cluster_settings_from, is_loopback
from raftlog.cli.serve.gossip_options import gossip_options, gossip_settings_from
from raftlog.cli.serve.listeners import Listeners
from raftlog.cli.serve.workers import supervise, workers_option
from raftlog.config import TopicConfig
from raftlog.errors import DiskRefused, InvalidArgument, StorageError
from raftlog.events import event
from raftlog.partitions.broker import Broker
from raftlog.partitions.settings import BrokerSettings
from raftlog.records.partitioner import PARTITIONERS
from raftlog.runtime.heap import Collections

logger = logging.getLogger(__name__)

DATA_DIR_DEFAULT = "./raftlog-data"
HTTP_DEFAULT = "127.0.0.1:8082"
REQUESTS_GRACE_SECONDS = 1.25
"""Time for requests in flight at a stop; then their connections are closed."""
LAST_ANSWERS_SECONDS = 0.25
"""Time, before that, in which open connections still take requests; they are closed after the answers."""
LINES_HELD_SECONDS = 1.0
"""Bound on the time that log lines wait for the ready line."""
STOP_SECONDS_MAX = 4.5
"""The whole stop takes at most this."""

_TUNING = {
    "memory_budget_bytes": "Bytes held for all connections: a quarter for frames of brokers, three eighths each for "
    "request bodies and for answers.",
    "partitions_per_topic_max": "Most partitions of one topic.",
    "open_files_max": "Segment files kept open.",
    "sync_threads": "Syncs that run at once.",
    "producers_max": "Idempotent producers that a partition knows; for more the least recently used expire.",
    "partition_pending_bytes_max": "Bytes of one partition that may wait for their sync; then producers wait.",
    "broker_pending_bytes_max": "The same for all partitions together.",
    "accumulate_bytes_max": "Largest batch that single records are put into.",
    "fetch_bytes_max": "Most bytes that a fetch answers.",
    "fetch_wait_ms_max": "Longest time that a fetch waits for records.",
    "opened_bytes_max": "Largest opened size of a compressed batch that is decoded.",
    "retention_interval_s": "Seconds between two looks for segments to delete or compact.",
    "storage_min_free_bytes": "With less room on the file system no records are taken; reads and deletions go on.",
    "replica_lag_time_max_ms": "A replica is shown as in sync while it holds what was committed so long ago.",
    "catch_up_bytes_per_s": "Bytes a second that are sent to replicas which catch up or are repaired, all together.",
    "scrub_interval_days": "Days in which the scrub reads everything once; 0 turns it off.",
    "metadata_growth_bytes_max": "Growth after which a log of metadata or of committed offsets is made shorter.",
    "offsets_partitions": "Partitions of the internal topic for groups and their offsets, when it is created.",
    "offsets_retention_ms": "What a group without members committed is forgotten after so long without a commit.",
    "group_min_session_timeout_ms": "Shortest session timeout that a member of a group may have.",
    "group_max_session_timeout_ms": "Longest session timeout that a member of a group may have.",
    "group_initial_rebalance_delay_ms": "An empty group waits so long for more members after the first.",
    "group_members_max": "Most members of one group.",
    "groups_max": "Most groups of one partition of the internal topic.",
    "consumer_instances_max": "Most consumer instances (REST) that may live on this broker.",
    "consumer_instance_timeout_ms": "A consumer instance that nobody used for so long is deleted.",
}


_HTTP_TUNING = {
    "body_bytes_max": (http_server.BODY_BYTES_MAX, "Largest request body."),
    "body_timeout_ms": (
        http_server.BODY_TIMEOUT_MS,
        "Longest time that a body may take to arrive, or a streamed one be silent.",
    ),
    "body_bytes_per_s_min": (
        http_server.BODY_BYTES_PER_S_MIN,
        "Slowest rate at which a body may arrive, in bytes a second.",
    ),
    "keepalive_timeout_s": (http_server.KEEPALIVE_TIMEOUT_S, "Seconds after which an idle connection is closed."),
    "http_connections_max": (
        http_server.CONNECTIONS_MAX,
        "Most connections of HTTP clients; fewer where descriptors (ulimit -n) are short.",
    ),
    "metrics_partitions_max": (
        http_server.METRICS_PARTITIONS_MAX,
        "Partitions with metrics of their own; the others are in the sums of their topics.",
    ),
}


def _allowed_host(text: str) -> str:
    try:
        return allowed_host(text)
    except InvalidArgument as error:
        raise click.BadParameter(str(error)) from None


_DEFAULTS = {field.name: field.default for field in fields(BrokerSettings)}
_BOUNDS = {name: (_DEFAULTS[name], text) for name, text in _TUNING.items()} | _HTTP_TUNING
_tuning_options = all_of(
    *(
        broker_option(f"--{name.replace('_', '-')}", name, type=type(default), default=default, help=text)
        for name, (default, text) in _BOUNDS.items()
    )
)
"""An option for each bound of the broker and of its HTTP server, with the default that they have there."""


@click.command()
@broker_option(
    "--data-dir",
    type=click.Path(),
    default=DATA_DIR_DEFAULT,
    help="Where everything is kept; made when it is missing.",
)
@broker_option(
    "--http",
    default=HTTP_DEFAULT,
    metavar="HOST:PORT",
    help="Where to listen; port 0 takes a free one.",
)
@broker_option(
    "--advertise-http",
    metavar="HOST:PORT",
    help="The address that the ready line names, where clients reach this broker by another one than it listens on.",
)
@broker_option(
    "--allowed-host",
    "allowed_hosts",
    metavar="HOST",
    multiple=True,
    callback=lambda _context, _parameter, names: [_allowed_host(name) for name in names],
    help="A host that clients may name beside loopback and advertised addresses; may be repeated. With one, others are "
    "refused on every address; without, only where --http is a loopback address.",
)
@broker_option(
    "--node-id",
    type=click.IntRange(0, (1 << 31) - 1),
    default=1,
    help="The number of this broker; a data directory belongs to one number.",
)
@broker_option(
    "--insecure",
    is_flag=True,
    help="Allow addresses that other machines can reach: anyone there can read and write everything.",
)
@cluster_options
@gossip_options
@workers_option
@broker_option(
    "--partitioner",
    type=click.Choice(list(PARTITIONERS)),
    default="murmur2",
    help="How a key chooses its partition when the producer leaves it to the broker.",
)
@settings_option(
    "A setting of topics that do not say otherwise, such as retention.ms=-1; may be repeated.",
    "--topic-config",
    envvar="RAFTLOG_TOPIC_CONFIG",
)
@broker_option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    default="info",
    help="The least severe lines to log, to stderr.",
)
@broker_option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    default="text",
    help="Log and ready line as text or as JSON.",
)
@_tuning_options
def serve(
    data_dir: str,
    http: str,
    advertise_http: str | None,
    allowed_hosts: list[str],
    insecure: bool,
    topic_config: dict[str, str],
    log_level: str,
    log_format: str,
    workers: int,
    **settings: Any,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C. Once it serves, one line on stdout says where."""
    if not __debug__:
        raise CommandFailed("raftlog serve does not run under python -O: its assertions guard the data; leave -O out")
    if workers > 1:
        supervise(click.get_current_context().params)
        return
    host, port = split_address(http, "--http")
    if not insecure and not is_loopback(host):
        raise click.UsageError(
            f"--http {http} can be reached by other machines, and there is no TLS and no password yet; "
            "listen on 127.0.0.1, or give --insecure"
        )
    if advertise_http is not None:
        split_address(advertise_http, "--advertise-http")
    logs.configure(log_level, log_format)
    http_settings = {name: settings.pop(name) for name in _HTTP_TUNING} | {"allowed_hosts": allowed_hosts}
    cluster_settings = cluster_settings_from(settings, insecure)
    rpc, advertised, seeds = (cluster_settings[name] for name in ("rpc", "advertise_rpc", "seeds"))
    gossip_settings = gossip_settings_from(settings, rpc, advertised, seeds, cluster_settings["secret"])
    broker_settings = BrokerSettings(
        data_dir=os.path.abspath(data_dir),
        topic_config=TopicConfig.from_strings(topic_config),
        advertise_http=advertise_http or "",
        **cluster_settings,
        **gossip_settings,
        **settings,
    )
    try:
        uvloop.run(_serve(broker_settings, http_settings, host, port, log_format))
    finally:
        logs.write_out()  # before the error that ends the process, which is its last line


def _raise_open_files() -> None:
    """Raise the soft limit of open files to the hard limit.

    Each partition takes a few descriptors; the usual soft limit of 1,024 is for programs that use select."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(
    settings: BrokerSettings, http_settings: dict[str, Any], host: str, port: int, line_format: str
) -> None:
    _raise_open_files()
    Collections().begin()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await _run(settings, http_settings, host, port, line_format, stop)
    except DiskRefused as error:
        logger.error("%s; starting once more, as that", error)
        await _run(settings, http_settings, host, port, line_format, stop)


async def _run(
    settings: BrokerSettings, http_settings: dict[str, Any], host: str, port: int, line_format: str, stop: asyncio.Event
) -> None:
    """Run a broker until it stops. Raises `DiskRefused` when the next start counts as another disk for the cluster."""
    loop = asyncio.get_running_loop()
    is_ready = asyncio.Event()
    lines = asyncio.ensure_future(logs.let_out(is_ready, LINES_HELD_SECONDS))
    start = {"node": settings.node_id, "version": raftlog.__version__, "data_dir": settings.data_dir}
    event(logger, "process_started", **start, pid=os.getpid())
    broker = await Broker.open(settings)
    loop.set_exception_handler(lambda loop, context: _unforeseen(broker, loop, context))
    http = HttpListener(broker, host, port, settings.advertise_http, requests_budget(broker), **http_settings)
    listeners = Listeners([http])
    try:
        await listeners.start()
        if await _begin(broker, listeners.advertised, stop):
            _say_ready(broker, listeners.advertised, line_format)
            is_ready.set()
            await _until_the_end(broker, stop)
    finally:
        await _stop(broker, listeners)
        lines.cancel()


def _unforeseen(broker: Broker, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that reached the loop, and stop the broker: after a broken invariant its state cannot be trusted."""
    loop.default_exception_handler(context)
    error = context.get("exception")
    if isinstance(error, AssertionError):
        broker.fail(StorageError(f"a broken invariant: {error}; please report it with the log"))


async def _begin(broker: Broker, where: str, stop: asyncio.Event) -> bool:
    """Start the broker; return False if it is stopped before it is ready, since a cluster may take long to form."""
    starting = asyncio.ensure_future(broker.start(where))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await _first_of(starting, stopping, broker.ended)
        if starting.done():
            starting.result()
            return True
        _check_alive(broker)
        return False
    finally:
        starting.cancel()
        stopping.cancel()


async def _until_the_end(broker: Broker, stop: asyncio.Event) -> None:
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await _first_of(stopping, broker.ended)
    finally:
        stopping.cancel()
    _check_alive(broker)


async def _first_of(*ends: "asyncio.Future[Any]") -> None:
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)


def _check_alive(broker: Broker) -> None:
    failure = broker.ended.result() if broker.ended.done() else None
    if isinstance(failure, DiskRefused):
        raise failure
    if failure is not None:
        raise CommandFailed(f"the broker cannot go on: {failure}")


async def _stop(broker: Broker, listeners: Listeners) -> None:
    if not broker.ended.done():
        event(logger, "process_stopping", node=broker.node_id)
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await listeners.stop(REQUESTS_GRACE_SECONDS, LAST_ANSWERS_SECONDS)
            await broker.close()
        event(logger, "process_stopped", node=broker.node_id)
    except TimeoutError:
        raise CommandFailed(
            f"the broker did not stop within {STOP_SECONDS_MAX:g} s; what was acknowledged is safe, "
            "and the next start checks the rest"
        ) from None


def _say_ready(broker: Broker, where: str, line_format: str) -> None:
    rpc = broker.rpc_address
    event(logger, "process_ready", node=broker.node_id, cluster_id=broker.cluster_id, http=where, rpc=rpc)
    if line_format == "json":
        line = orjson.dumps(
            {
                "event": "ready",
                "http": where,
                "rpc": rpc,
                "gossip": broker.gossip_address,
                "node_id": broker.node_id,
                "cluster_id": broker.cluster_id,
                "data_dir": broker.settings.data_dir,
                "pid": os.getpid(),
            }
        ).decode()
    else:
        cluster = f", cluster {broker.cluster_id}" if rpc is not None else ""
        line = (
            f"raftlog is ready: node {broker.node_id} serves http://{where}, "
            f"data in {broker.settings.data_dir}{cluster}"
        )
    # Nobody needs to read it, so a closed stdout is no reason to stop.
    try:
        click.echo(line)
        sys.stdout.flush()
    except OSError as error:
        logger.warning("the ready line could not be written: %s", error)
