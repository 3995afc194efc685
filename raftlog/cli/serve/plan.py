"""Conversion of the options of `raftlog serve` to the settings of a broker and the plan of its listeners.

Files that the options name are read, but nothing is started, so `raftlog config check` and `doctor` can use it too."""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

from raftlog.api.http.server.server import HttpSettings
from raftlog.cli.options import split_address
from raftlog.cli.serve.authentication_options import authentication_plan_from
from raftlog.cli.serve.cluster_options import cluster_settings_from
from raftlog.cli.serve.config_file import keys_of
from raftlog.cli.serve.gossip_options import gossip_settings_from
from raftlog.cli.serve.kafka_options import kafka_plan_from
from raftlog.cli.serve.listener_plan import ListenerPlan
from raftlog.cli.serve.tls_options import HTTP, check_reach, tls_plan_from
from raftlog.errors import InvalidArgument
from raftlog.partitions.settings import AUTHORIZATION_ACL, AUTHORIZATION_OFF, BrokerSettings
from raftlog.setting_bounds import bounds_of
from raftlog.topic_config import TopicConfig

_NOT_OF_THE_BROKER: Final = ("log_level", "log_format", "workers")


def plan_broker(given: Mapping[str, Any]) -> tuple[BrokerSettings, ListenerPlan]:
    """Return the broker's settings and its listeners. Raises `UsageError` and `InvalidArgument`.

    `given`: values of the options of `raftlog serve`."""
    settings = dict(given)
    http, advertise_http, insecure = (settings.pop(name) for name in ("http", "advertise_http", "insecure"))
    data_dir, topic_config = settings.pop("data_dir"), settings.pop("topic_config")
    host, port = split_address(http, "--http")
    if advertise_http is not None:
        split_address(advertise_http, "--advertise-http")
    if not data_dir:
        raise click.UsageError("--data-dir is empty; name a directory")
    with _names_of_flags():
        http_settings = HttpSettings(**{each.name: settings.pop(each.name) for each in fields(HttpSettings)})
    kafka = kafka_plan_from(settings, is_alone=settings["rpc"] is None)
    tls = tls_plan_from(settings, [each.name for each in kafka.listeners])
    logins = authentication_plan_from(settings, [each.name for each in kafka.listeners], tls, insecure=insecure)
    check_reach(f"--http {http}", host, tls.get(HTTP), insecure=insecure)
    logins.check_reach(f"--http {http}", host, HTTP, tls)
    for each in kafka.listeners:
        check_reach(f"--kafka {each.host}:{each.port}", each.host, tls.get(each.name), insecure=insecure)
        logins.check_reach(f"--kafka {each.host}:{each.port}", each.host, each.name, tls)
    default_authorization = AUTHORIZATION_ACL if logins.mechanisms else AUTHORIZATION_OFF
    settings["authorization"] = settings["authorization"] or default_authorization
    cluster_settings = cluster_settings_from(settings, insecure)
    rpc, advertised, seeds = (cluster_settings[name] for name in ("rpc", "advertise_rpc", "seeds"))
    gossip_settings = gossip_settings_from(settings, rpc, advertised, seeds, cluster_settings["secret"])
    with _names_of_flags():
        broker_settings = BrokerSettings(
            data_dir=os.path.abspath(data_dir),
            topic_config=TopicConfig.from_strings(topic_config),
            advertise_http=advertise_http or "",
            **cluster_settings,
            **gossip_settings,
            **settings,
        )
    return broker_settings, ListenerPlan(host, port, http_settings, kafka, tls, logins)


@contextmanager
def _names_of_flags() -> Iterator[None]:
    """Name the flag in place of the field in the error of a setting that is out of range."""
    try:
        yield
    except InvalidArgument as error:
        name, equals, text = str(error).partition("=")
        if not equals or name not in bounds_of(BrokerSettings) | bounds_of(HttpSettings):
            raise
        raise InvalidArgument(f"--{name.replace('_', '-')}={text}") from None


class ServeSettings(NamedTuple):
    """Settings of a broker, the plan of its listeners, and the value of each option with its source.

    `path`: the configuration file. `given`: by key of the file."""

    path: str | None
    broker: BrokerSettings
    listeners: ListenerPlan
    given: dict[str, tuple[Any, ParameterSource | None]]


def read_serve_settings(path: str | None, flags: Sequence[str] = ()) -> ServeSettings:
    """Return the settings that a configuration file, the environment and flags give.

    Raises `CommandFailed`, `UsageError` and `InvalidArgument` as `raftlog serve` does."""
    serve: click.Command = importlib.import_module("raftlog.cli.serve.verb").serve
    named = ["--config", os.fspath(path)] if path is not None else []
    parent = click.Context(click.Group("raftlog"), info_name="raftlog", auto_envvar_prefix="RAFTLOG")
    with serve.make_context("serve", [*named, *flags], parent=parent) as context:
        keys = {option.name: key for key, option in keys_of(serve).items()}
        given = {
            key: (context.params[name], context.get_parameter_source(name))
            for name, key in keys.items()
            if name is not None
        }
        values = {name: value for name, value in context.params.items() if name not in _NOT_OF_THE_BROKER}
        return ServeSettings(path, *plan_broker(values), given)
