"""HTTP requests to the first broker that accepts them.

Addresses are tried in turn: the partition's leader if an answer has named it (`X-Raftlog-Leader`), then the address
that answered last. Retries depend on the progress of a request: before the connection is open, any request is retried;
after it was sent, only one that changes nothing. A request that was sent, changes state and got no answer has an
unknown outcome and is never repeated here."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from raftlog.client.addresses import HTTPS, BrokerAddresses, base_url, parse_address
from raftlog.client.failures import NotListening, error_of
from raftlog.client.leaders import LeaderCache, LeaderTarget
from raftlog.client.slow_answers import SlowAnswers
from raftlog.context import AsyncClosedAtExit
from raftlog.errors import InvalidArgument, LogClosed, NotServing, OutcomeUnknown, RaftlogError, Unavailable
from raftlog.security.client_tls import describe_failure
from raftlog.types import Buffer

LEADER_HEADER = "X-Raftlog-Leader"
CONNECT_SECONDS_MAX = 5.0
TOO_MANY_REQUESTS = 429
UNAVAILABLE = 503
"""HTTP status of a broker that cannot serve a request now."""
CONNECTIONS_MAX = 1024
"""Bound on connections. A long poll occupies one, so this many partitions can be followed at once."""


class HttpAnswer(NamedTuple):
    """Successful answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpTransport(AsyncClosedAtExit):
    """Requests to one of several addresses. Created inside a running event loop; closed by its owner."""

    def __init__(self, bootstrap: str | Sequence[str]) -> None:
        """Parse the addresses, and read the files that they name. Raises `InvalidArgument`."""
        given = BrokerAddresses.of(bootstrap)
        self._addresses, self._is_secure = list(given), given.is_secure
        self.leaders = LeaderCache()
        self._slow = SlowAnswers()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=given.ssl_context() or True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX),
            auto_decompress=False,
            headers=given.headers(),
        )

    async def close(self) -> None:
        await self._session.close()

    def add(self, addresses: Iterable[str]) -> None:
        """Add the addresses of further brokers, tried after the present ones; ignore invalid ones."""
        for address in addresses:
            checked = self._parse_named(address)
            if checked is not None and checked not in self._addresses:
                self._addresses.append(checked)

    def _parse_named(self, address: str) -> str | None:
        """Return an address that a broker named; None if it is invalid, or would be a downgrade to plain text."""
        with contextlib.suppress(InvalidArgument):
            checked = parse_address(address)
            if checked.startswith(HTTPS) or not self._is_secure:
                return checked
        return None

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout_s: float,
        repeatable: bool,
        only_reads: bool = False,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Buffer | None = None,
        target: LeaderTarget | None = None,
        wait_s: float = 0.0,
    ) -> HttpAnswer:
        """Send a request and read the answer.

        Raises the error that the broker reported, `Unavailable` when no broker could be reached, and `OutcomeUnknown`
        when a request that changes state was sent and not answered, and no later attempt succeeded. A broker that
        starts or stops did nothing, so the next one is tried. `only_reads`: the request changes nothing, whatever its
        method. With a `target` the target's leader is tried first. `wait_s`: time that the broker may hold the answer
        back; a second later the wait is logged."""
        path_and_query = f"{path}?{urlencode(query)}" if query else path
        reasons, refused = [], True
        lost: str | None = None
        not_ready: NotServing | None = None
        for address in self._list_addresses(target):
            if self._session.closed:
                raise LogClosed("the client is closed")
            try:
                with self._slow.watch(address, f"{method} {path}", timeout_s, wait_s):
                    answer = await self._send(address, method, path_and_query, timeout_s, headers, body)
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                reason = f"{address}: {_describe_reason(error, timeout_s)}"
                self._forget(target, address)
                if method != "GET" and not only_reads and not _was_not_sent(error):
                    lost = f"{method} {path} was sent and not answered ({reason})"
                    if not repeatable:
                        raise OutcomeUnknown(lost) from error
                reasons.append(reason)
                refused = refused and _is_refusal(error)
                continue
            if answer.status == UNAVAILABLE:
                self._postpone(address)
            elif answer.status != TOO_MANY_REQUESTS:
                self._prefer(address)
            self._slow.record_status(address, answer.status)
            self._learn(target, address, answer)
            if answer.status >= 400:
                reported = _error_of(answer, method)
                if isinstance(reported, NotServing):
                    not_ready, refused = reported, False
                    reasons.append(f"{address}: {reported}")
                    continue
                raise reported if lost is None else OutcomeUnknown(f"{lost}, and may have been done; then: {reported}")
            return answer
        failure = f"no broker answers ({'; '.join(reasons)}); check that it runs and that the address is right"
        if lost is not None:
            raise OutcomeUnknown(f"{method} {path} was sent, and may have been done: {failure}")
        if not_ready is not None:
            raise not_ready
        raise (NotListening if refused else Unavailable)(failure)

    async def _send(
        self,
        address: str,
        method: str,
        path_and_query: str,
        timeout_s: float,
        headers: Mapping[str, str] | None,
        body: Buffer | None,
    ) -> HttpAnswer:
        """Send one request without redirects and return the whole answer; raises `TimeoutError`."""
        url = URL(f"{base_url(address)}{path_and_query}", encoded=True)
        once = _ONCE if method in _REPEATED_BY_AIOHTTP else None
        async with (
            asyncio.timeout(timeout_s),
            self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False, middlewares=once
            ) as response,
        ):
            return HttpAnswer(response.status, response.headers, await response.read())

    def _list_addresses(self, target: LeaderTarget | None) -> list[str]:
        """Return the addresses in the order of attempts: the known leader of `target` first."""
        leader = self.leaders.address_of(target) if target is not None else None
        if leader is None:
            return list(self._addresses)
        return [leader, *(address for address in self._addresses if address != leader)]

    def _prefer(self, address: str) -> None:
        """Move a configured address to the front. Addresses from metadata stay: their broker may have been removed."""
        if self._addresses[0] != address and address in self._addresses:
            self._addresses.remove(address)
            self._addresses.insert(0, address)

    def _postpone(self, address: str) -> None:
        """Move a configured address to the end: its broker may be cut off, and another one can serve the retry."""
        if address in self._addresses:
            self._addresses.remove(address)
            self._addresses.append(address)

    def _learn(self, target: LeaderTarget | None, address: str, answer: HttpAnswer) -> None:
        """Update the known leader of the partition from the answer's header or status."""
        if target is None:
            return
        named = answer.headers.get(LEADER_HEADER)
        if named is not None:
            leader = self._parse_named(named)
            if leader is not None:
                self.leaders.learn(target, leader)
        elif answer.status >= 500:
            self.leaders.forget(target, address)

    def _forget(self, target: LeaderTarget | None, address: str) -> None:
        """Remove the address as known leader of `target`, if there is a target."""
        if target is not None:
            self.leaders.forget(target, address)


class _ConnectionLost(aiohttp.ClientError):
    """The connection ended before an answer arrived."""


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Stop aiohttp from sending a request twice when an old connection breaks.

    If the second attempt is refused, because the broker just crashed, the error looks as if nothing had been sent."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _ConnectionLost("the connection was closed") from error


_ONCE = (_send_once,)
_REPEATED_BY_AIOHTTP = frozenset(("PUT", "DELETE"))
"""Methods that aiohttp sends again; it repeats reads as well, where it does no harm."""


def _error_of(answer: HttpAnswer, method: str) -> RaftlogError:
    """Return the error of an answer; a read changes nothing, so its failure is always definite."""
    error = error_of(answer.status, answer.body)
    return Unavailable(str(error)) if method == "GET" and error.outcome == "unknown" else error


def _was_not_sent(error: BaseException) -> bool:
    """Return whether the request failed before the connection was open."""
    return isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def _is_refusal(error: BaseException) -> bool:
    """Return whether the address refused the connection."""
    return isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError)


def _describe_reason(error: BaseException, timeout_s: float) -> str:
    """Return the reason for a failed attempt, for an error message."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT_SECONDS_MAX:g} s"
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ssl.SSLError):
        return describe_failure(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return "connection refused" if _is_refusal(error) else str(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed"
    return str(error) or type(error).__name__
