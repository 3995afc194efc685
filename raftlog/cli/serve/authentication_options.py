"""Options of `raftlog serve` about logins of clients, and their conversion to requirements of its listeners.

--authentication required          for all listeners of clients: http, and the Kafka listeners
--authentication kafka=none        for the listener of this name, in place of the value for all
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from raftlog.api.authentication import ListenerAuthentication
from raftlog.cli.options import broker_option, combine_decorators, usage_errors
from raftlog.cli.serve.cluster_options import is_loopback
from raftlog.cli.serve.tls_options import HTTP, split_by_listener
from raftlog.partitions.security.authenticator import Authenticator
from raftlog.partitions.security.bearer_keys import BearerKeys
from raftlog.partitions.security.service import FIRST_USER_VARIABLE
from raftlog.security.bearer import BearerSettings, BearerVerifier, check_settings
from raftlog.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN
from raftlog.security.tls_files import ClientCertificates, ServerTls

_logger = logging.getLogger(__name__)
REQUIRED: Final = "required"
_MODES: Final = ("none", REQUIRED)

authentication_options = combine_decorators(
    broker_option(
        "--authentication",
        metavar="[NAME=]none|required",
        multiple=True,
        help="Whether clients have to log in, for all listeners or for the listener NAME: http, or a name of --kafka; "
        "may be repeated. [default: none]",
    ),
    broker_option(
        "--sasl-mechanisms",
        metavar="[NAME=]MECHANISM,…",
        multiple=True,
        help=f"Mechanisms of logins, for all listeners or for one: {', '.join(MECHANISMS)}. Over HTTP, OAUTHBEARER is "
        "Bearer, and the others are Basic. [default: all that are configured; PLAIN only with TLS]",
    ),
    broker_option(
        "--oauth-jwks",
        metavar="FILE|URL",
        help="Public keys of bearer tokens, a JWK set: a file, or an https URL, read again every 5 minutes and for "
        "tokens with unknown keys.",
    ),
    broker_option("--oauth-issuer", metavar="TEXT", help="Issuer (iss) that bearer tokens must have."),
    broker_option("--oauth-audience", metavar="TEXT", help="Audience (aud) that bearer tokens must have."),
    broker_option(
        "--oauth-principal-claim",
        default="sub",
        metavar="NAME",
        help="Claim of bearer tokens with the name of the user.",
    ),
)
"""Options whose values `authentication_plan_from` takes."""


class AuthenticationPlan(NamedTuple):
    """Configured authentication of a broker. `mechanisms`: by the name of each listener that requires a login."""

    mechanisms: Mapping[str, Sequence[str]]
    bearer: BearerSettings | None
    is_insecure: bool

    def prepare(self, authenticator: Authenticator) -> None:
        """Begin to read the keys of bearer tokens, if bearer tokens are configured."""
        if self.bearer is not None:
            authenticator.bearer = BearerKeys(BearerVerifier(self.bearer))
            authenticator.bearer.start()

    def check_reach(self, flag: str, host: str, name: str, tls: Mapping[str, ServerTls]) -> None:
        """Raise `UsageError` if clients on other machines need no login at a listener, unless --insecure allows it."""
        if self.is_insecure or self.identifies(name, tls) or is_loopback(host):
            return
        raise click.UsageError(
            f"other machines can reach {flag} without a login: give --authentication {name}=required or "
            f"--client-certificates {name}=required, listen on 127.0.0.1, or give --insecure"
        )

    def identifies(self, name: str, tls: Mapping[str, ServerTls]) -> bool:
        """Return whether every client of a listener has to log in or to show a certificate."""
        found = tls.get(name)
        is_certified = found is not None and found.files.client_certificates is ClientCertificates.REQUIRED
        return is_certified or name in self.mechanisms

    def warn_without_users(self, has_users: bool) -> None:
        """Log a warning if logins are required but no client can log in."""
        if self.mechanisms and self.bearer is None and not has_users:
            _logger.warning(
                "logins are required, and the cluster has no users: restart one broker with %s=NAME:PASSWORD",
                FIRST_USER_VARIABLE,
            )

    def requirement(self, listener: str, authenticator: Authenticator) -> ListenerAuthentication | None:
        """Return the login that a listener requires; None if it requires none."""
        mechanisms = self.mechanisms.get(listener)
        return None if mechanisms is None else ListenerAuthentication(authenticator, mechanisms, self.is_insecure)


def authentication_plan_from(
    arguments: dict[str, Any], kafka: Collection[str], tls: Mapping[str, ServerTls], *, insecure: bool
) -> AuthenticationPlan:
    """Remove the values of `authentication_options` from `arguments`; return the plan. Raises `UsageError`.

    `kafka`: names of the Kafka listeners. `tls`: configurations of the listeners with TLS, by name."""
    names = (HTTP, *kafka)
    modes = split_by_listener(arguments.pop("authentication"), "authentication", names)
    for mode in modes.values():
        if mode not in _MODES:
            raise click.UsageError(f"--authentication {mode!r} is not {' or '.join(_MODES)}")
    texts = split_by_listener(arguments.pop("sasl_mechanisms"), "sasl_mechanisms", names)
    chosen = {name: _parse_mechanisms(text) for name, text in texts.items()}
    bearer = _parse_bearer_settings(arguments)
    required = [name for name in names if modes.get(name, modes.get("")) == REQUIRED]
    mechanisms = {name: chosen.get(name, chosen.get("", MECHANISMS)) for name in required}
    for name, found in mechanisms.items():
        if bearer is None and OAUTHBEARER in found and found is not MECHANISMS:
            raise click.UsageError(
                f"--sasl-mechanisms {OAUTHBEARER} needs --oauth-jwks, --oauth-issuer and --oauth-audience"
            )
        is_open = name == HTTP or name in tls or insecure
        if PLAIN in found and found is not MECHANISMS and not is_open:
            raise click.UsageError(
                f"--sasl-mechanisms: {PLAIN} shows passwords to the network, and the listener {name} has no TLS: give "
                "--tls-certificate and --tls-key, leave PLAIN out, or give --insecure"
            )
    return AuthenticationPlan(mechanisms, bearer, insecure)


def _parse_mechanisms(text: str) -> tuple[str, ...]:
    """Return the SASL mechanisms in a comma-separated list, each once. Raises `UsageError`."""
    found = tuple(dict.fromkeys(part.strip().upper() for part in text.split(",") if part.strip()))
    unknown = [name for name in found if name not in MECHANISMS]
    if unknown or not found:
        raise click.UsageError(f"--sasl-mechanisms {text!r}: the mechanisms are {', '.join(MECHANISMS)}")
    return found


def _parse_bearer_settings(arguments: dict[str, Any]) -> BearerSettings | None:
    """Return the settings of bearer tokens; None without their flags. Raises `click.UsageError` if some are missing."""
    keys, issuer, audience = (arguments.pop(name) for name in ("oauth_jwks", "oauth_issuer", "oauth_audience"))
    claim = arguments.pop("oauth_principal_claim")
    if not (keys or issuer or audience):
        return None
    if not (keys and issuer and audience):
        raise click.UsageError("--oauth-jwks, --oauth-issuer and --oauth-audience must be given together")
    settings = BearerSettings(keys, issuer, audience, claim)
    with usage_errors():
        check_settings(settings)
    return settings
