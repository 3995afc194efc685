"""Options of `raftlog serve` about its Kafka listeners, and their conversion to listeners."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import click

from raftlog.api.kafka.settings import DEFAULTS, KafkaSettings
from raftlog.cli.options import broker_option, combine_decorators, split_address
from raftlog.cli.serve.cluster_options import EVERY_ADDRESS
from raftlog.cli.serve.workers import KAFKA_DEFAULT
from raftlog.partitions.addresses import join_host_port
from raftlog.partitions.controller.machine.schema import LISTENER_NAME_BYTES_MAX, LISTENERS_MAX, TEXT_BYTES_MAX
from raftlog.topic_config import DAY_MS, GIB, KIB

KAFKA_OFF: Final = "none"
NAME_DEFAULT: Final = "kafka"
_RESERVED: Final = ("http", "rpc", KAFKA_OFF)
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LISTENER_NAME_BYTES_MAX - 1}}}")
_PORT_MAX: Final = 65_535


class KafkaAddresses(NamedTuple):
    """Addresses of one listener. `advertised`: HOST:PORT for clients; empty: the address to listen on."""

    name: str
    host: str
    port: int
    advertised: str = ""


class KafkaPlan(NamedTuple):
    """Kafka listeners of a broker. `is_optional`: the broker starts without them when their ports are taken."""

    listeners: Sequence[KafkaAddresses]
    is_optional: bool
    settings: KafkaSettings


kafka_options = combine_decorators(
    broker_option(
        "--kafka",
        metavar="[NAME=]HOST:PORT|none",
        multiple=True,
        help="Address to listen on for clients of the Kafka protocol; may be repeated with names. Port 0: any free "
        f"port. [default: {KAFKA_DEFAULT} if that port is free, and none with --rpc]",
    ),
    broker_option(
        "--advertise-kafka",
        metavar="[NAME=]HOST:PORT",
        multiple=True,
        help="Address that Kafka clients are given, if they cannot use the address of --kafka with this name.",
    ),
    # `--workers` passes this to the processes that it starts.
    click.option("--kafka-default", hidden=True, metavar="HOST:PORT"),
    click.option("--kafka-port-shift", hidden=True, type=click.IntRange(0), default=0),
    broker_option(
        "--kafka-request-bytes-max",
        type=click.IntRange(KIB, GIB),
        default=DEFAULTS.request_bytes_max,
        help="Maximum size of a Kafka request, in bytes; a larger one ends its connection.",
    ),
    broker_option(
        "--kafka-connections-max",
        type=click.IntRange(1, 1_000_000),
        default=DEFAULTS.connections_max,
        help="Maximum number of connections of a Kafka listener; lowered where few file descriptors (ulimit -n) are "
        "allowed.",
    ),
    broker_option(
        "--kafka-pipelined-requests-max",
        type=click.IntRange(1, 10_000),
        default=DEFAULTS.pipelined_requests_max,
        help="Maximum number of unanswered requests of a Kafka connection; further ones wait in the socket.",
    ),
    broker_option(
        "--kafka-idle-ms-max",
        type=click.IntRange(1, 7 * DAY_MS),
        default=DEFAULTS.idle_ms_max,
        help="Idle time after which a Kafka connection is closed, in milliseconds.",
    ),
    broker_option(
        "--auto-create-topics",
        is_flag=True,
        help="Create unknown topics that Kafka clients ask for, with --default-partitions.",
    ),
)
"""Options whose values `kafka_plan_from` takes."""


def kafka_plan_from(arguments: dict[str, Any], *, is_alone: bool) -> KafkaPlan:
    """Remove the values of `kafka_options` from `arguments`; return the plan. Raises `UsageError`.

    `is_alone`: the broker is a cluster of one."""
    texts, advertised = arguments.pop("kafka"), arguments.pop("advertise_kafka")
    shift, default = arguments.pop("kafka_port_shift"), arguments.pop("kafka_default")
    settings = KafkaSettings(
        **{name: arguments.pop(f"kafka_{name}") for name in KafkaSettings._fields if name != "auto_create_topics"},
        auto_create_topics=arguments.pop("auto_create_topics"),
    )
    found = _parse_listeners(texts, default or (KAFKA_DEFAULT if is_alone else KAFKA_OFF), shift)
    _set_advertised(found, advertised, shift)
    for listener in found.values():
        _check_advertised(listener)
    return KafkaPlan(tuple(found.values()), not texts, settings)


def _parse_listeners(texts: Sequence[str], default: str, shift: int) -> dict[str, KafkaAddresses]:
    """Return the addresses to listen on by name of listener. Raises `click.UsageError`, such as for a repeated name."""
    wanted = texts or (default,)
    if KAFKA_OFF in wanted:
        if len(wanted) > 1:
            raise click.UsageError("--kafka none switches Kafka off: give no other --kafka beside it")
        return {}
    if len(wanted) > LISTENERS_MAX:
        raise click.UsageError(f"--kafka is given {len(wanted)} times; a broker has at most {LISTENERS_MAX} listeners")
    found: dict[str, KafkaAddresses] = {}
    for text in wanted:
        name, (host, port) = _parse_address(text, "--kafka", shift if texts else 0)
        if name in found:
            raise click.UsageError(
                f"--kafka {text}: two listeners have the name {name!r}; give each a name, such as inside={text}"
            )
        found[name] = KafkaAddresses(name, host, port)
    return found


def _set_advertised(found: dict[str, KafkaAddresses], texts: Sequence[str], shift: int) -> None:
    """Set the advertised address of each named listener; `shift` is added to its port (`--workers`)."""
    for text in texts:
        name, (host, port) = _parse_address(text, "--advertise-kafka", shift)
        if name not in found:
            known = ", ".join(found) or "none: give --kafka HOST:PORT"
            raise click.UsageError(
                f"--advertise-kafka {text}: no listener has the name {name!r}; the listeners are {known}"
            )
        if found[name].advertised:
            raise click.UsageError(f"--advertise-kafka is given twice for the listener {name!r}; give it once")
        if port == 0 or host in EVERY_ADDRESS:
            raise click.UsageError(f"--advertise-kafka {text}: clients cannot connect to it; give a host and a port")
        found[name] = found[name]._replace(advertised=join_host_port(host, port))


def _parse_address(text: str, flag: str, shift: int) -> tuple[str, tuple[str, int]]:
    """Return name, host and port of `[NAME=]HOST:PORT`; `shift` is added to a port other than 0."""
    name, equals, address = text.strip().rpartition("=")
    name = name if equals else NAME_DEFAULT
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise click.UsageError(
            f"{flag} {text}: {name!r} cannot be the name of a listener; use at most {LISTENER_NAME_BYTES_MAX} letters, "
            f"digits, - and _, and not {' or '.join(_RESERVED)}"
        )
    host, port = split_address(address, flag)
    if len(address.encode()) > TEXT_BYTES_MAX or any(character.isspace() for character in host):
        raise click.UsageError(f"{flag} {text!r} is not HOST:PORT, such as {KAFKA_DEFAULT}")
    if port and port + shift > _PORT_MAX:
        raise click.UsageError(f"{flag} {text}: the ports of the workers end above {_PORT_MAX}; choose a lower port")
    return name, (host, port + shift if port else 0)


def _check_advertised(listener: KafkaAddresses) -> None:
    """Raise `UsageError` if clients cannot use the listener's advertised address."""
    at = join_host_port(listener.host, listener.port)
    if listener.host in EVERY_ADDRESS and not listener.advertised:
        raise click.UsageError(
            f"--kafka {at} listens on every address of this machine, and clients need one of them: "
            "give --advertise-kafka HOST:PORT"
        )
