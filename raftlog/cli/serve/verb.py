"""`raftlog serve`: the composition root, which builds broker and listeners and waits for a signal.

Exit codes: 0 after SIGTERM or Ctrl-C; 1 when the broker cannot start, fails (its disk failed), or does not stop in
time.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
import threading
from typing import Any

import click
import orjson
import uvloop

import raftlog
from raftlog.api.http.server.origins import allowed_host
from raftlog.api.http.server.server import CONSOLE_OFF, CONSOLE_ON, HttpSettings
from raftlog.cli.options import NumberRange, broker_option, read_defaults, settings_option, settings_options
from raftlog.cli.outcome import EXIT_FAILED, CommandFailed, print_error
from raftlog.cli.serve import logs
from raftlog.cli.serve.authentication_options import authentication_options
from raftlog.cli.serve.authorization_options import authorization_options
from raftlog.cli.serve.cluster_options import cluster_options
from raftlog.cli.serve.config_file import config_option
from raftlog.cli.serve.gossip_options import gossip_options
from raftlog.cli.serve.kafka_options import kafka_options
from raftlog.cli.serve.listener_plan import ListenerPlan
from raftlog.cli.serve.listeners import Listeners, make_listeners
from raftlog.cli.serve.plan import plan_broker
from raftlog.cli.serve.process_secrets import forbid_core_dumps, take_variable
from raftlog.cli.serve.service_manager import ServiceManager
from raftlog.cli.serve.tls_options import RPC, tls_options
from raftlog.cli.serve.tls_reload import watch_certificates
from raftlog.cli.serve.workers import supervise, workers_option
from raftlog.errors import DiskRefused, InvalidArgument, RaftlogError, StorageError
from raftlog.events import event
from raftlog.partitions.broker import Broker
from raftlog.partitions.security.service import FIRST_USER_VARIABLE, check_first_user
from raftlog.partitions.settings import SYNC_METHODS, BrokerSettings
from raftlog.records.partitioner import PARTITIONERS
from raftlog.runtime.heap import Collections
from raftlog.runtime.loop_holds import LOOP_HOLDS

logger = logging.getLogger(__name__)

DATA_DIR_DEFAULT = "./raftlog-data"
HTTP_DEFAULT = "127.0.0.1:8082"
REQUESTS_GRACE_SECONDS = 1.25
"""Time that requests in flight have at a stop; then their connections are closed."""
LAST_ANSWERS_SECONDS = 0.25
"""Time, before that grace, in which open connections still take requests; each is closed after its next answer."""
LINES_HELD_SECONDS = 1.0
"""Bound on the time that log lines wait for the ready line."""
STOP_SECONDS_MAX = 4.5
"""Bound on the duration of the whole stop."""

_TUNING = {
    "memory_budget_bytes": "Maximum memory for all connections, in bytes: a quarter for frames from other brokers, "
    "three eighths each for request bodies and for answers.",
    "partitions_per_topic_max": "Maximum number of partitions of a topic.",
    "open_files_max": "Maximum number of segment files kept open; others are reopened when they are read.",
    "sync_threads": "Maximum number of concurrent syncs.",
    "producers_max": "Maximum number of idempotent producers per partition; beyond it the least recently used expire.",
    "partition_pending_bytes_max": "Maximum bytes of one partition that wait for their sync; beyond it producers wait.",
    "broker_pending_bytes_max": "Maximum bytes of all partitions together that wait for their sync.",
    "accumulate_bytes_max": "Maximum size of a batch built from single records, in bytes.",
    "fetch_bytes_max": "Maximum size of a fetch answer, in bytes; a larger first batch is still returned whole.",
    "fetch_wait_ms_max": "Maximum time that a fetch waits for new records, in milliseconds.",
    "opened_bytes_max": "Maximum decompressed size of a batch, in bytes; a larger one is returned in stored form only.",
    "retention_interval_s": "Interval between checks for segments to delete or compact, in seconds.",
    "storage_min_free_bytes": "Free disk space below which records are refused, in bytes; reads and deletes continue.",
    "replica_lag_time_max_ms": "Age up to which a replica must hold committed records to be shown as in sync, in "
    "milliseconds.",
    "catch_up_bytes_per_s": "Maximum rate to all replicas that catch up or are repaired together, in bytes per second.",
    "scrub_interval_days": "Days in which the scrub reads and checks every byte once; 0 disables it.",
    "metadata_growth_bytes_max": "Growth after which a metadata or offsets log is compacted, in bytes.",
    "default_partitions": "Number of partitions of a topic that is created without a number.",
    "offsets_partitions": "Number of partitions of __consumer_offsets, fixed when that topic is created.",
    "offsets_retention_ms": "Time without members and commits after which the committed offsets of a consumer group "
    "expire, in milliseconds.",
    "group_min_session_timeout_ms": "Minimum session timeout of a group member, in milliseconds.",
    "group_max_session_timeout_ms": "Maximum session timeout of a group member, in milliseconds.",
    "group_initial_rebalance_delay_ms": "Time that an empty consumer group waits for further members after the first, "
    "in milliseconds.",
    "group_members_max": "Maximum number of members of a consumer group.",
    "groups_max": "Maximum number of consumer groups per partition of __consumer_offsets.",
    "transaction_partitions": "Number of partitions of __transaction_state, fixed when that topic is created.",
    "transaction_max_timeout_ms": "Maximum transaction timeout that a producer may ask for, in milliseconds.",
    "transactional_id_expiration_ms": "Time without a transaction after which a transactional id expires, in "
    "milliseconds.",
    "transactional_ids_max": "Maximum number of transactional ids per partition of __transaction_state.",
    "consumer_instances_max": "Maximum number of REST consumer instances of this broker.",
    "consumer_instance_timeout_ms": "Idle time after which a REST consumer instance is deleted, in milliseconds.",
    "body_bytes_max": "Maximum size of a request body, in bytes.",
    "body_timeout_ms": "Maximum time for a request body to arrive, or between two parts of a streamed body, in "
    "milliseconds.",
    "body_bytes_per_s_min": "Minimum rate at which a request body must arrive, in bytes per second.",
    "keepalive_timeout_s": "Idle time after which an HTTP connection is closed, in seconds.",
    "http_connections_max": "Maximum number of HTTP connections; lowered where few file descriptors (ulimit -n) are "
    "allowed.",
    "metrics_partitions_max": "Maximum number of partitions with metrics of their own; further ones count in the sums "
    "of their topics.",
}


def _parse_allowed_host(text: str) -> str:
    """Return an allowed host. Raises `BadParameter`."""
    try:
        return allowed_host(text)
    except InvalidArgument as error:
        raise click.BadParameter(str(error)) from None


_tuning_options = settings_options(
    read_defaults(BrokerSettings) | read_defaults(HttpSettings), _TUNING, make=broker_option
)
"""Options for all bounds of the broker and of its HTTP server, with the defaults from their settings."""


@click.command()
@config_option
@broker_option(
    "--data-dir",
    type=click.Path(),
    default=DATA_DIR_DEFAULT,
    help="Directory of all data; created if it is missing.",
)
@broker_option(
    "--http",
    default=HTTP_DEFAULT,
    metavar="HOST:PORT",
    help="Address to listen on for clients; port 0: any free port.",
)
@broker_option(
    "--advertise-http",
    metavar="HOST:PORT",
    help="Address that clients are given, if they cannot use the address of --http. [default: the address of --http]",
)
@broker_option(
    "--allowed-host",
    "allowed_hosts",
    metavar="HOST",
    multiple=True,
    callback=lambda _context, _parameter, names: [_parse_allowed_host(name) for name in names],
    help="Host name that clients may use, besides loopback and advertised addresses; may be repeated. Once it is "
    "given, requests for other hosts are refused on every address; by default only if --http is a loopback address.",
)
@broker_option(
    "--console",
    type=click.Choice([CONSOLE_ON, CONSOLE_OFF]),
    default=CONSOLE_ON,
    help="Web console for operators at /console/ of the address of --http.",
)
@broker_option(
    "--console-writes",
    is_flag=True,
    help="Allow changes by the console, such as to produce a record or to remove a topic; it is read-only otherwise.",
)
@broker_option(
    "--node-id",
    type=click.IntRange(0, (1 << 31) - 1),
    default=1,
    help="Number of this broker, unique in the cluster; a data directory belongs to one number.",
)
@broker_option(
    "--insecure",
    is_flag=True,
    help="Allow addresses that other machines can reach, without TLS: every program there can read and write all data.",
)
@kafka_options
@authentication_options
@authorization_options
@cluster_options
@tls_options
@gossip_options
@workers_option
@broker_option(
    "--partitioner",
    type=click.Choice(list(PARTITIONERS)),
    default="murmur2",
    help="Hash of the key that chooses the partition, for producers that name none; the same on all brokers.",
)
@broker_option(
    "--sync-method",
    type=click.Choice(list(SYNC_METHODS)),
    default="auto",
    help="Method for the syncs of commits; auto: the faster of Linux AIO and threads, as measured.",
)
@broker_option(
    "--trace",
    "trace_ratio",
    type=NumberRange(0, 1),
    help="Trace produce requests with a sampled W3C trace context, and this share of those without one. [default: no "
    "tracing]",
)
@settings_option(
    "Default of a topic setting, such as retention.ms=-1; may be repeated.",
    "--topic-config",
    envvar="RAFTLOG_TOPIC_CONFIG",
)
@broker_option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    default="info",
    help="Lowest level to log to stderr.",
)
@broker_option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    default="text",
    help="Format of the log and of the ready line.",
)
@_tuning_options
def serve(log_level: str, log_format: str, workers: int, **settings: Any) -> None:
    """Run a broker until SIGTERM or Ctrl-C. When it is ready, one line on stdout has its addresses."""
    if not __debug__:
        raise CommandFailed(
            "raftlog serve refuses to run under `python -O`, which disables the assertions that protect the data; "
            "start it without -O"
        )
    manager = ServiceManager.take()
    if workers > 1:
        supervise(click.get_current_context().params, manager)
        return
    first_user = take_variable(FIRST_USER_VARIABLE)
    if first_user is not None:
        check_first_user(first_user)
    logs.configure(log_level, log_format)
    broker_settings, plan = plan_broker(settings)
    try:
        uvloop.run(_serve(broker_settings, plan, log_format, first_user, manager))
    except RaftlogError as error:  # a failed sync has an unknown outcome for its writer, not for this process
        raise CommandFailed(str(error)) from error
    finally:
        logs.write_held()  # before the error that ends the process, which is its last line


def _raise_open_files() -> None:
    """Raise the soft limit on open files to the hard limit.

    Each partition takes a few descriptors; the usual soft limit of 1,024 is for programs that use select."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(
    settings: BrokerSettings,
    plan: ListenerPlan,
    line_format: str,
    first_user: str | None,
    manager: ServiceManager,
) -> None:
    """Run a broker until a signal or a failure; if the cluster refused its disk, run it again with a new disk UUID."""
    _raise_open_files()
    if settings.secret is not None or plan.tls or plan.logins.mechanisms:
        forbid_core_dumps()
    collections = Collections()
    collections.begin()
    LOOP_HOLDS.begin()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    between = {} if settings.tls is None else {RPC: settings.tls}
    reloading = watch_certificates({**plan.tls, **between})
    try:
        await _run(settings, plan, line_format, stop, collections, first_user, manager)
    except DiskRefused as error:
        logger.error("%s; restarting as that disk", error)
        await _run(settings, plan, line_format, stop, collections, first_user, manager)
    finally:
        reloading.cancel()


async def _run(
    settings: BrokerSettings,
    plan: ListenerPlan,
    line_format: str,
    stop: asyncio.Event,
    collections: Collections,
    first_user: str | None,
    manager: ServiceManager,
) -> None:
    """Run a broker until it stops.

    Raises `DiskRefused` if the cluster refused the data directory; the next start registers it as a new disk."""
    loop = asyncio.get_running_loop()
    is_ready = asyncio.Event()
    lines = asyncio.ensure_future(logs.write_when_ready(is_ready, LINES_HELD_SECONDS))
    start = {"node": settings.node_id, "version": raftlog.__version__, "data_dir": settings.data_dir}
    event(logger, "process_started", **start, pid=os.getpid())
    broker = await Broker.open(settings)
    loop.set_exception_handler(lambda loop, context: _handle_loop_error(broker, loop, context))
    listeners = make_listeners(broker, plan)
    try:
        await listeners.start()
        if await _start(broker, listeners, stop, first_user):
            plan.logins.warn_without_users(broker.security.users.has_any)
            collections.settle()
            _print_ready(broker, listeners, line_format)
            manager.notify_ready(f"node {broker.node_id} serves at {listeners.advertised}")
            is_ready.set()
            await _wait_for_end(broker, stop)
    finally:
        manager.notify_stopping()
        await _stop(broker, listeners)
        lines.cancel()


def _handle_loop_error(broker: Broker, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that reached the loop, and stop the broker: after a broken invariant its state cannot be trusted."""
    loop.default_exception_handler(context)
    error = context.get("exception")
    if isinstance(error, AssertionError):
        broker.fail(StorageError(f"broken invariant: {error}; please report it with the log"))


async def _start(broker: Broker, listeners: Listeners, stop: asyncio.Event, first_user: str | None) -> bool:
    """Start the broker; return False if a signal comes before it is ready, since a cluster may take long to form."""
    starting = asyncio.ensure_future(broker.start(listeners.advertised, listeners.kafka, first_user))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await _wait_for_first(starting, stopping, broker.ended)
        if starting.done():
            starting.result()
            return True
        _raise_failure(broker)
        return False
    finally:
        starting.cancel()
        stopping.cancel()


async def _wait_for_end(broker: Broker, stop: asyncio.Event) -> None:
    """Wait until a signal, or until the broker ends; raises the error that ended it."""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await _wait_for_first(stopping, broker.ended)
    finally:
        stopping.cancel()
    _raise_failure(broker)


async def _wait_for_first(*ends: "asyncio.Future[Any]") -> None:
    """Wait until one of the futures is done."""
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)


def _raise_failure(broker: Broker) -> None:
    """Raise the error that ended the broker, if an error ended it."""
    failure = broker.ended.result() if broker.ended.done() else None
    if isinstance(failure, DiskRefused):
        raise failure
    if failure is not None:
        raise CommandFailed(f"the broker stopped: {failure}")


async def _stop(broker: Broker, listeners: Listeners) -> None:
    """Stop the listeners, then the broker, within a bounded time; end the process if it takes longer."""
    if not broker.ended.done():
        event(logger, "process_stopping", node=broker.node_id)
    watch = threading.Timer(STOP_SECONDS_MAX, _end_process, [broker])
    watch.daemon = True
    watch.start()
    try:
        await listeners.stop(REQUESTS_GRACE_SECONDS, LAST_ANSWERS_SECONDS)
        await broker.close()
        event(logger, "process_stopped", node=broker.node_id)
    finally:
        watch.cancel()


def _end_process(broker: Broker) -> None:
    """End the process with an error, from a thread of its own: the loop or another thread may wait for a disk.

    The kernel keeps a process that waits for a disk without interruption until the disk answers."""
    try:
        logs.write_held()
        try:
            _raise_failure(broker)
        except (CommandFailed, DiskRefused) as failure:
            print_error(str(failure))
        print_error(
            f"the broker did not stop within {STOP_SECONDS_MAX:g} s; acknowledged records are safe, "
            "and the next start checks the others"
        )
        sys.stdout.flush()
    finally:
        os._exit(EXIT_FAILED)


def _print_ready(broker: Broker, listeners: Listeners, line_format: str) -> None:
    """Log and print that the broker is ready, with its addresses."""
    http, kafka, rpc = listeners.advertised, listeners.first_kafka, broker.rpc_address
    where = {"http": http, "kafka": kafka, "rpc": rpc}
    event(logger, "process_ready", node=broker.node_id, cluster_id=broker.cluster_id, **where)
    if line_format == "json":
        line = orjson.dumps(
            {
                "event": "ready",
                **where,
                "gossip": broker.gossip_address,
                "node_id": broker.node_id,
                "cluster_id": broker.cluster_id,
                "data_dir": broker.settings.data_dir,
                "sync_method": broker.sync_method,
                "pid": os.getpid(),
            }
        ).decode()
    else:
        cluster = f", cluster {broker.cluster_id}" if rpc is not None else ""
        line = (
            f"raftlog is ready: node {broker.node_id} serves {'' if '://' in http else 'http://'}{http}"
            f"{f' and Kafka at {kafka}' if kafka else ''}, "
            f"data in {broker.settings.data_dir}, syncs by {broker.sync_method}{cluster}"
        )
    # The line is for convenience, so a closed stdout is no reason to stop.
    try:
        click.echo(line)
        sys.stdout.flush()
    except OSError as error:
        logger.warning("the ready line could not be written: %s", error)
