"""HTTP requests to the first broker that takes them.

Addresses are tried in turn, beginning with the partition's leader where an answer has named it (`X-Raftlog-Leader`),
then with the one that answered last. What may be tried again depends on how far a
request got: before the connection stood, anything; after it was sent, only what changes nothing. A request that was
sent, changes something and got no answer has an unknown outcome and is never repeated here.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from raftlog.client.addresses import bootstrap_addresses, checked_address
from raftlog.client.failures import NotListening, error_of
from raftlog.client.leaders import LeaderCache, Place
from raftlog.client.slow_answers import SlowAnswers
from raftlog.context import AsyncClosedAtExit
from raftlog.errors import InvalidArgument, LogClosed, OutcomeUnknown, RaftlogError, Unavailable
from raftlog.types import Buffer

LEADER_HEADER = "X-Raftlog-Leader"
CONNECT_SECONDS_MAX = 5.0
CONNECTIONS_MAX = 1024
"""A long poll keeps its connection, so this many partitions can be followed at once."""


class HttpAnswer(NamedTuple):
    """A successful answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpTransport(AsyncClosedAtExit):
    """Requests to one of several addresses. Made inside a running event loop; closed by its owner."""

    def __init__(self, bootstrap: str | Sequence[str]) -> None:
        """Raises `InvalidArgument` for what is no address."""
        self._addresses = bootstrap_addresses(bootstrap)
        self.leaders = LeaderCache()
        self._slow = SlowAnswers()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX),
            auto_decompress=False,
        )

    async def close(self) -> None:
        await self._session.close()

    def add(self, addresses: Iterable[str]) -> None:
        """More addresses, which are tried after those that were given. What is none is left out: nobody typed it."""
        for address in addresses:
            with contextlib.suppress(InvalidArgument):
                checked = checked_address(address)
                if checked not in self._addresses:
                    self._addresses.append(checked)

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
        place: Place | None = None,
        wait_s: float = 0.0,
    ) -> HttpAnswer:
        """Send and read the answer; raises what the broker reported, `Unavailable` when none could be reached, and
        `OutcomeUnknown` when a request that changes something was sent and not answered, and no later attempt
        succeeded. `only_reads`: it changes nothing, whatever its method. With a `place` its leader is asked first.
        `wait_s`: for how long the broker may rightly hold the answer back; a second later the wait is logged."""
        target = f"{path}?{urlencode(query)}" if query else path
        reasons, refused = [], True
        lost: str | None = None
        for address in self._order(place):
            if self._session.closed:
                raise LogClosed("the client is closed")
            try:
                with self._slow.watch(address, f"{method} {path}", timeout_s, wait_s):
                    answer = await self._send(address, method, target, timeout_s, headers, body)
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                reason = f"{address}: {_reason(error, timeout_s)}"
                self._forget(place, address)
                if method != "GET" and not only_reads and not _never_sent(error):
                    lost = f"{method} {path} was sent and not answered ({reason})"
                    if not repeatable:
                        raise OutcomeUnknown(lost) from error
                reasons.append(reason)
                refused = refused and _is_refusal(error)
                continue
            self._prefer(address)
            self._slow.note_status(address, answer.status)
            self._learn(place, address, answer)
            if answer.status >= 400:
                told = _error_of(answer, method)
                raise told if lost is None else OutcomeUnknown(f"{lost}, and may have been done; then: {told}")
            return answer
        nobody = f"no broker answers ({'; '.join(reasons)}); is it running, and is the address right?"
        if lost is not None:
            raise OutcomeUnknown(f"{method} {path} was sent, and may have been done: {nobody}")
        raise (NotListening if refused else Unavailable)(nobody)

    async def _send(
        self,
        address: str,
        method: str,
        target: str,
        timeout_s: float,
        headers: Mapping[str, str] | None,
        body: Buffer | None,
    ) -> HttpAnswer:
        url = URL(f"http://{address}{target}", encoded=True)
        once = _ONCE if method in _REPEATED_BY_AIOHTTP else None
        async with (
            asyncio.timeout(timeout_s),
            self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False, middlewares=once
            ) as response,
        ):
            return HttpAnswer(response.status, response.headers, await response.read())

    def _order(self, place: Place | None) -> list[str]:
        leader = self.leaders.address_of(place) if place is not None else None
        if leader is None:
            return list(self._addresses)
        return [leader, *(address for address in self._addresses if address != leader)]

    def _prefer(self, address: str) -> None:
        """Only of the addresses that were given: one that was learned may be gone with its broker."""
        if self._addresses[0] != address and address in self._addresses:
            self._addresses.remove(address)
            self._addresses.insert(0, address)

    def _learn(self, place: Place | None, address: str, answer: HttpAnswer) -> None:
        if place is None:
            return
        named = answer.headers.get(LEADER_HEADER)
        if named is not None:
            with contextlib.suppress(InvalidArgument):  # a hint that cannot be used is none
                self.leaders.learn(place, checked_address(named))
        elif answer.status >= 500:
            self.leaders.forget(place, address)

    def _forget(self, place: Place | None, address: str) -> None:
        if place is not None:
            self.leaders.forget(place, address)


class _BrokenOff(aiohttp.ClientError):
    """The connection ended before there was an answer."""


async def _sent_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """aiohttp sends these methods a second time when an old connection breaks. When that is refused, because the broker
    just died, it looks as if nothing had been sent at all."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _BrokenOff("the connection was closed") from error


_ONCE = (_sent_once,)
_REPEATED_BY_AIOHTTP = frozenset(("PUT", "DELETE"))
"""And those that only read, where it does no harm."""


def _error_of(answer: HttpAnswer, method: str) -> RaftlogError:
    """A read changes nothing, so its failure is definite whatever a broker in trouble says."""
    error = error_of(answer.status, answer.body)
    return Unavailable(str(error)) if method == "GET" and error.outcome == "unknown" else error


def _never_sent(error: BaseException) -> bool:
    """Whether the connection did not stand yet."""
    return isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError)


def _reason(error: BaseException, timeout_s: float) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT_SECONDS_MAX:g} s"
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "connection refused" if _is_refusal(error) else str(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed"
    return str(error) or type(error).__name__
