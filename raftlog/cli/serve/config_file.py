"""Configuration file of `raftlog serve`: TOML with the names of its flags, without the leading dashes.

    flag > variable > file > default

A key that is no flag is refused, and the error names the nearest flag; a value of a wrong type or beyond its bounds is
refused, and the error names the key. A repeatable flag has a list, `topic-config` a table. `format`: always 1."""

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import click

from raftlog.cli.options import F, broker_option
from raftlog.cli.outcome import CommandFailed
from raftlog.errors import InvalidArgument
from raftlog.topic_config import TopicConfig

FORMAT: Final = 1
_FORMAT_KEY: Final = "format"
_TABLE: Final = "topic-config"
_OTHER: Final = ("config", "help")


def config_option(function: F) -> F:
    """Add `--config`; the file is read before other options, because it changes their defaults."""
    decorate: Callable[[F], F] = broker_option(
        "--config",
        type=click.Path(),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_use_file,
        help="Configuration file (TOML) with names of these flags; flags and variables have precedence.",
    )
    return decorate(function)


def _use_file(context: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    """Use the values of the file as defaults of the options."""
    if path is not None:
        context.default_map = {**(context.default_map or {}), **read_config(context, path)}


def read_config(context: click.Context, path: str) -> dict[str, Any]:
    """Return the values of a file by name of parameter. Raises a `CommandFailed` that names file, key and remedy."""
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise CommandFailed(f"the configuration file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} is not TOML: {error}") from None
    found = values.pop(_FORMAT_KEY, FORMAT)
    if type(found) is not int or found < 1:
        raise CommandFailed(f"{path}: {_FORMAT_KEY} is {found!r}; this release reads {_FORMAT_KEY} = {FORMAT}")
    if found > FORMAT:
        raise CommandFailed(
            f"{path} has format {found}, and this release reads format {FORMAT}: it is for a newer raftlog"
        )
    options = keys_of(context.command)
    read: dict[str, Any] = {}
    for key, value in values.items():
        option = options.get(key)
        if option is None:
            hint = _nearest(key.replace("_", "-"), options) or "; `raftlog serve --help` lists the flags"
            raise CommandFailed(f"{path}: {key!r} is no setting{hint}")
        is_table = key == _TABLE and isinstance(value, dict)
        given = _topic_settings(path, value) if is_table else value
        read[option.name or key] = _checked(context, path, key, option, given)
    return read


def _nearest(key: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known key; empty if none is near."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _topic_settings(path: str, table: Mapping[str, object]) -> list[str]:
    """Return the topic settings of a TOML table as texts `KEY=VALUE`, as the flag has them. Raises `CommandFailed`."""
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in table.items()}
    known = TopicConfig().as_strings()
    for name in texts:
        value = table[name]
        if isinstance(value, dict):  # TOML reads a dot without quotes as the name of a table
            whole = f"{name}.{next(iter(value), '')}"
            raise CommandFailed(f'{path}: {_TABLE}: {whole} needs quotes, as names with dots do: "{whole}" = …')
        if name not in known:
            raise CommandFailed(f"{path}: {_TABLE}: {name!r} is no setting of a topic{_nearest(name, known)}")
    try:
        TopicConfig.from_strings(texts)
    except InvalidArgument as error:
        raise CommandFailed(f"{path}: {_TABLE}: {error}") from None
    return [f"{name}={text}" for name, text in texts.items()]


def keys_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by key: the flag without its dashes."""
    found: dict[str, click.Option] = {}
    for each in command.params:
        if isinstance(each, click.Option) and not each.hidden:
            key = next(flag for flag in each.opts if flag.startswith("--"))[2:]
            if key not in _OTHER:
                found[key] = each
    return found


def _checked(context: click.Context, path: str, key: str, option: click.Option, value: object) -> object:
    """Return a value of the file after a check of its type and bounds. Raises `CommandFailed`."""
    expected = _expected(option)
    if option.multiple:
        items = value if isinstance(value, list) else [value]
        if not all(_has_type(option, each) for each in items):
            raise CommandFailed(f"{path}: {key} is {_show(value)}; it must be a list, each item {expected}")
    elif not _has_type(option, value):
        raise CommandFailed(f"{path}: {key} is {_show(value)}; it must be {expected}")
    else:
        items = [value]
    for each in items:
        try:
            option.type.convert(each, option, context)
        except click.BadParameter as error:
            raise CommandFailed(f"{path}: {key} is {_show(value)}: {error.message.removesuffix('.')}") from None
    return items if option.multiple else value


def _expected(option: click.Option) -> str:
    """Return a description of the TOML type that an option accepts."""
    if option.is_flag:
        return "true or false"
    if isinstance(option.type, click.types.IntParamType):
        return "a whole number"
    if isinstance(option.type, click.types.FloatParamType):
        return "a number"
    return "a string"


def _has_type(option: click.Option, value: object) -> bool:
    """Return whether a TOML value has the type of an option; a boolean is no number."""
    if option.is_flag:
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if isinstance(option.type, click.types.IntParamType):
        return isinstance(value, int)
    if isinstance(option.type, click.types.FloatParamType):
        return isinstance(value, int | float)
    return isinstance(value, str)


def _show(value: object) -> str:
    """Return a setting's value as text."""
    return str(value).lower() if isinstance(value, bool) else repr(value)
