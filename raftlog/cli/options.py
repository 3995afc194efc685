"""Options that several verbs share, and the parsers of their values."""

import importlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftlog.errors import InvalidArgument

if TYPE_CHECKING:
    from raftlog.client.addresses import BrokerAddresses

F = TypeVar("F", bound=Callable[..., Any])

#: Every option of this command shows its default and its environment variable.
option = partial(click.option, show_default=True, show_envvar=True)

BOOTSTRAP_DEFAULT = "127.0.0.1:8082"
_CONNECTION = "raftlog.connection"
"""Key of the arguments of `BrokerAddresses` in the context of a command."""
_HIDDEN_VALUE: dict[str, Any] = {"expose_value": False, "is_eager": True}
"""Settings of an option that is parsed before other options, and is not passed to the command."""
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def broker_option(flag: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """Return an option of a broker, whose variable is named after the flag: `RAFTLOG_NODE_ID` for `--node-id`."""
    return option(flag, *names, envvar=f"RAFTLOG_{flag.removeprefix('--').replace('-', '_').upper()}", **settings)


def settings_options(
    defaults: Mapping[str, Any], texts: Mapping[str, str], make: Callable[..., Callable[[Any], Any]] = option
) -> Callable[[F], F]:
    """Return an option for each setting that has a help text: `--in-flight` for `in_flight`, with its default."""
    return combine_decorators(
        *(
            make(f"--{name.replace('_', '-')}", name, type=type(defaults[name]), default=defaults[name], help=text)
            for name, text in texts.items()
        )
    )


def read_defaults(settings: type[Any]) -> dict[str, Any]:
    """Return the defaults of a dataclass of settings, by name."""
    return {each.name: each.default for each in fields(settings)}


@contextmanager
def usage_errors() -> Iterator[None]:
    """Report errors in settings as usage errors of the command."""
    try:
        yield
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from None


def combine_decorators(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Combine decorators into one, the first outermost."""
    return lambda function: reduce(lambda inner, decorate: decorate(inner), reversed(decorators), function)


def bootstrap_option(function: F) -> F:
    """Add `--bootstrap` and the options of connections; the command gets them as `bootstrap: BrokerAddresses`."""
    addresses = option(
        "--bootstrap",
        envvar="RAFTLOG_BOOTSTRAP",
        default=BOOTSTRAP_DEFAULT,
        metavar="[https://]HOST:PORT,…",
        callback=_read_bootstrap,
        help="Brokers to ask; the first that answers is used.",
    )
    files = (
        _connection_option(flag, name, type=click.Path(), metavar="FILE", help=text)
        for flag, name, text in (
            (
                "--ca",
                "ca",
                "Certificates (PEM) of the authorities to trust with https://. [default: those of the system]",
            ),
            ("--client-certificate", "certificate", "Certificate (PEM) that proves this client with https://."),
            ("--client-key", "key", "Private key of --client-certificate (PEM), if it is in another file."),
        )
    )
    others = getattr(function, "params", None) or getattr(function, "__click_params__", [])
    is_taken = any("--user" in each.opts for each in others)  # the user that a quota limits
    flag = "--login-user" if is_taken else "--user"
    user = _connection_option(
        flag, "user", envvar="RAFTLOG_USER", metavar="NAME", help="User that logs in; needs --password-file."
    )
    password = _connection_option(
        "--password-file", "password_file", type=click.Path(), metavar="FILE", help="File with the user's password."
    )
    return combine_decorators(addresses, *files, user, password)(function)


def _connection_option(flag: str, name: str, **settings: Any) -> Callable[[F], F]:
    """Return an option that becomes the argument `name` of `BrokerAddresses`; it is read before `--bootstrap`."""

    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        """Store the value of a connection option for `_read_bootstrap`."""
        context.meta.setdefault(_CONNECTION, {})[name] = value

    variable = f"RAFTLOG_{flag.removeprefix('--').replace('-', '_').upper()}"
    return option(flag, f"connection_{name}", **{"envvar": variable, **settings}, **_HIDDEN_VALUE, callback=keep)


def _read_bootstrap(context: click.Context, _parameter: click.Parameter, text: str) -> "BrokerAddresses":
    """Return the addresses with the connection options, which were parsed before."""
    addresses = importlib.import_module("raftlog.client.addresses")  # other commands do not need the client
    found: BrokerAddresses = addresses.BrokerAddresses(text, **context.meta.get(_CONNECTION, {}))
    return found


def json_option(help_text: str) -> Callable[[F], F]:
    """Return the option `--json`."""
    return option("--json", "as_json", is_flag=True, help=help_text)


def settings_option(help_text: str, *names: str, envvar: str | None = None) -> Callable[[F], F]:
    """Return a repeatable option `KEY=VALUE`; its value is a dict."""
    return option(*names, multiple=True, metavar="KEY=VALUE", callback=_read_settings, help=help_text, envvar=envvar)


def _read_settings(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of `KEY=VALUE` arguments; raises `click.BadParameter` if one is wrong."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        settings[key] = value
    return settings


def read_separator(_context: click.Context, _parameter: click.Parameter, text: str | None) -> bytes | None:
    r"""Parse a separator into bytes, with escapes such as \t, since shells make tabs hard to type; None stays None."""
    if text is None:
        return None
    if not text:
        raise click.BadParameter("the separator cannot be empty")
    return unescape(text).encode("utf-8", "surrogateescape")


def unescape(text: str) -> str:
    r"""Replace `\t`, `\n`, `\r`, `\0` and `\\` by their characters; other backslashes stay."""
    return re.sub(r"\\([tnr0\\])", lambda match: _ESCAPES[match[1]], text)


def separator_option(help_text: str) -> Callable[[F], F]:
    """Return the option `--key-separator`; its value is bytes, or None."""
    return option("--key-separator", callback=read_separator, metavar="TEXT", help=help_text)


class NumberRange(click.FloatRange):
    """Range of numbers, without NaN, which is neither below nor above a bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert an argument to a number in the range; NaN is a usage error."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def give_up_option(help_text: str) -> Callable[[F], F]:
    """Return the option `--give-up-after`, in seconds."""
    seconds = NumberRange(min=0)
    return option("--give-up-after", type=seconds, default=30.0, metavar="SECONDS", help=help_text)


def split_address(text: str, label: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, with `[…]` around an IPv6 host; port 0 is any free port. Raises `UsageError`."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"{label} {text!r} is not HOST:PORT, such as 127.0.0.1:8082")
    return host, int(port)


def parse_partition(text: str) -> tuple[str, int]:
    """Parse `topic/partition`; raises `UsageError`."""
    topic, slash, number = text.rpartition("/")
    if not slash or not topic or not number.isdecimal():
        raise click.UsageError(f"{text!r} is not TOPIC/PARTITION, such as orders/0")
    return topic, int(number)
