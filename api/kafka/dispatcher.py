"""Table of served APIs: decodes a request, calls its handler, and encodes the answer.

    unknown API, or a version that is not served   ApiVersions: its answer v0 with error 35; others: the connection ends
    MalformedRequest                               the connection ends
    RaftlogError of a handler                      the answer's top-level error code; without one the connection ends
    any other error                                logged with its traceback, and the connection ends

`connection` calls it with complete frames; `handlers` has the handlers."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest, RequestConnection
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.handlers.versions import ApiVersionsHandler
from raftlog.api.kafka.mutation_quota import quotas_of
from raftlog.api.kafka.wire import schemas
from raftlog.api.kafka.wire.errors import MalformedRequest
from raftlog.api.kafka.wire.headers import is_flexible
from raftlog.api.kafka.wire.throttle_time import set_throttle_time
from raftlog.errors import RaftlogError
from raftlog.partitions.caller import Caller
from raftlog.partitions.counters import KafkaCounters
from raftlog.partitions.security.client_rates import DELAY_S_MAX, FETCHED, PRODUCED, REQUESTS, UNLIMITED, ClientRates
from raftlog.runtime.histogram import Histogram
from raftlog.runtime.timed_steps import TimedSteps
from raftlog.types import Buffer

logger = logging.getLogger(__name__)

_LARGE_BYTES: Final = 32 * 1024
"""Size from which on the body of a request is decoded in a thread: the schemas need about 1 ms for 4 KiB."""
_INT32_MAX: Final = (1 << 31) - 1
_KNOWN_KEYS: Final = frozenset(map(int, ApiKey))
Answer: TypeAlias = Sequence[Buffer] | None


class ConnectionRefused(Exception):
    """Error in a request that ends its connection without an answer; the message is logged."""


class KafkaRoute:
    """Codec, handler and counters of one version of one API."""

    __slots__ = (
        "decode",
        "encode",
        "handle",
        "is_answer_tagged",
        "is_pipelined",
        "is_raw",
        "is_request_tagged",
        "key",
        "name",
        "needs_schemas",
        "quotas",
        "skips_body",
        "times",
        "version",
    )

    def __init__(
        self, api: KafkaApi, version: int, times: Histogram, *, skips_body: bool = False, is_raw: bool = False
    ) -> None:
        """Create the route of one version of an API; `times` records durations of its requests."""
        self.key, self.version, self.handle, self.is_pipelined = api.key, version, api.handle, api.is_pipelined
        self.name = name_of(api.key)
        self.times = times
        self.decode: Callable[[memoryview, int], Any] = api.decode or partial(schemas.decode, api.key)
        self.encode: Callable[[Any, int], Sequence[Buffer]] = api.encode or schemas.encode
        self.needs_schemas = api.decode is None or api.encode is None
        self.quotas = quotas_of(api.key, version)
        """Quotas that delay the connection after a request."""
        self.is_request_tagged = is_flexible(api.key, version)
        self.is_answer_tagged = self.is_request_tagged and api.key is not ApiKey.API_VERSIONS
        self.skips_body = skips_body
        """Whether the body is not decoded, because its version is unknown."""
        self.is_raw = is_raw
        """Whether request and answer have no headers."""

    def __repr__(self) -> str:
        return f"{self.name} v{self.version}"


def name_of(key: ApiKey) -> str:
    """Return Kafka's name of an API."""
    return key.name.title().replace("_", "")


class Dispatcher:
    """Table of the served APIs of one listener; passes requests to their handlers.

    `counters` are shared by all listeners."""

    def __init__(
        self,
        apis: Sequence[KafkaApi],
        counters: KafkaCounters,
        raw_login: KafkaApi | None = None,
        rates: ClientRates = UNLIMITED,
    ) -> None:
        """Create the routes of all versions of the APIs.

        `raw_login` serves SASL tokens without Kafka headers, if logins are required."""
        self.counters, self.rates = counters, rates
        versions = ApiVersionsHandler()
        apis = (*apis, versions.api())
        assert len({api.key for api in apis}) == len(apis), "two handlers for one API"
        versions.set_apis(apis)
        self.raw_login = (
            None if raw_login is None else KafkaRoute(raw_login, 0, self._create_counters(raw_login.key), is_raw=True)
        )
        """Route of SASL tokens without Kafka headers, as sent after SaslHandshake v0."""
        self._importing: asyncio.Task[None] | None = None
        self._routes: dict[tuple[int, int], KafkaRoute] = {}
        for api in apis:
            times = self._create_counters(api.key)
            first, last = api.versions
            refused = api._replace(handle=refuse_version, decode=None, encode=None, is_pipelined=False)
            for version in range(first, last + 1):
                is_served = version >= (first if api.served_from is None else api.served_from)
                self._routes[api.key, version] = KafkaRoute(api if is_served else refused, version, times)
            if api.key is ApiKey.API_VERSIONS:
                unsupported = api._replace(handle=versions.refuse, decode=lambda body, version: None)
                self._unsupported_versions = KafkaRoute(unsupported, 0, times, skips_body=True)

    def _create_counters(self, key: ApiKey) -> Histogram:
        """Create the counters of an API unless they exist; return its histogram of request times."""
        name, counters = name_of(key), self.counters
        counters.requests.setdefault(name, 0)
        counters.errors.setdefault(name, 0)
        return counters.times.setdefault(name, Histogram())

    def route(self, key: int, version: int) -> KafkaRoute:
        """Return the route of a request. Raises `ConnectionRefused`."""
        route = self._routes.get((key, version))
        if route is not None:
            return route
        if key == ApiKey.API_VERSIONS:
            return self._unsupported_versions
        name = name_of(ApiKey(key)) if key in _KNOWN_KEYS else f"the API {key}"
        raise ConnectionRefused(f"{name} v{version} is not served")

    async def wait_for_schemas(self) -> None:
        """Import the schemas in a thread, at the first request that needs them: they take 0.1 s and some MiB."""
        if schemas.is_loaded():
            return
        if self._importing is None:
            importing = asyncio.to_thread(schemas.load)
            self._importing = asyncio.get_running_loop().create_task(importing, name="import of Kafka's schemas")
        await asyncio.shield(self._importing)

    def answer(
        self,
        route: KafkaRoute,
        body: memoryview,
        caller: Caller,
        login: Any = None,
        connection: RequestConnection | None = None,
    ) -> Awaitable[Answer]:
        """Return the encoded body of the answer; None if the client expects none. Raises `ConnectionRefused`.

        With quotas it counts bytes and time of the client, and the answer has the throttle time (KIP-219)."""
        work = self._answer(route, body, caller, login, connection)
        return self._answer_within_quotas(route, body, caller, work) if self.rates.is_on else work

    async def _answer_within_quotas(
        self, route: KafkaRoute, body: memoryview, caller: Caller, work: Coroutine[Any, Any, Answer]
    ) -> Answer:
        """Return the answer that `work` makes; charge its cost to the caller's quotas."""
        timed, rates = TimedSteps(work), self.rates
        try:
            pieces = await timed
        finally:
            rates.charge(REQUESTS, caller, timed.seconds)
            if route.key is ApiKey.PRODUCE:
                rates.charge(PRODUCED, caller, len(body))
        if pieces is not None and route.key is ApiKey.FETCH:
            rates.charge(FETCHED, caller, sum(map(len, pieces)))
        if pieces is not None and not route.needs_schemas and (delay_s := rates.delay_s(caller)):
            set_throttle_time(route.key, pieces, math.ceil(delay_s * 1000), is_tagged=route.is_answer_tagged)
        return pieces

    def throttle_s(self, route: KafkaRoute, caller: Caller) -> float:
        """Return the seconds for which a connection is muted after a request, and count them."""
        return min(self.rates.throttle_s(caller, *route.quotas), DELAY_S_MAX)

    async def _answer(
        self,
        route: KafkaRoute,
        body: memoryview,
        caller: Caller,
        login: Any,
        connection: RequestConnection | None,
    ) -> Answer:
        """Decode and handle a request; return the encoded answer, or None if the request has none.

        Raises `ConnectionRefused` for a malformed request; other errors become error answers."""
        if route.needs_schemas and not schemas.is_loaded():
            await self.wait_for_schemas()
        version = route.version
        try:
            if route.needs_schemas:
                return await self._answer_by_schema(route, body, caller, connection)
            message = None if route.skips_body else route.decode(body, version)
            answer = await route.handle(KafkaRequest(route.key, version, message, caller, login, connection))
            return None if answer is None else route.encode(answer, version)
        except MalformedRequest as error:
            raise ConnectionRefused(f"{route!r} is malformed: {error}") from None
        except RaftlogError as error:
            self.counters.errors[route.name] += 1
            return await self._error_answer(route, error)

    async def _answer_by_schema(
        self, route: KafkaRoute, body: memoryview, caller: Caller, connection: RequestConnection | None
    ) -> Answer:
        """Answer a request; large messages are decoded and encoded in a thread, so that they do not hold the loop."""
        version = route.version
        if len(body) > _LARGE_BYTES:
            message = await asyncio.to_thread(route.decode, body, version)
        else:
            message = route.decode(body, version)
        answer = await route.handle(KafkaRequest(route.key, version, message, caller, connection=connection))
        if answer is None:
            return None
        if self.rates.is_on and hasattr(answer, "throttle_time_ms"):
            delay_ms = math.ceil(self.rates.delay_s(caller, *route.quotas) * 1000)
            answer.throttle_time_ms = min(max(delay_ms, answer.throttle_time_ms or 0), _INT32_MAX)
        if schemas.is_large(answer):
            return await asyncio.to_thread(route.encode, answer, version)
        return route.encode(answer, version)

    def report_failure(self, route: KafkaRoute, error: Exception) -> None:
        """Log an error that no handler may raise; pass a broken invariant to the loop's exception handler."""
        self.counters.errors[route.name] += 1
        if isinstance(error, AssertionError):
            context = {"message": f"a handler of {route!r} found a broken invariant", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        else:
            logger.error("a handler of %r failed", route, exc_info=error)

    async def _error_answer(self, route: KafkaRoute, error: RaftlogError) -> Answer:
        """Return an answer of an error code only. Raises `ConnectionRefused` if the schema has no error code."""
        if route.is_raw:
            raise ConnectionRefused(f"{route!r} failed: {error}") from error
        await self.wait_for_schemas()
        answer = schemas.error_answer(route.key, route.version, code_of(error))
        if answer is None:
            raise ConnectionRefused(f"{route!r} failed, and its answer has no error code: {error}") from error
        return schemas.encode(answer, route.version)


async def refuse_version(request: KafkaRequest) -> Any:
    """Return an answer to Produce 0 to 2, UNSUPPORTED_VERSION for each partition; None with acks 0.

    ApiVersions lists these versions, because librdkafka does not compress for brokers without them."""
    assert request.key is ApiKey.PRODUCE, f"{request.key.name} has versions that are listed and refused"
    message = request.message
    if message.acks == 0:
        return None
    answer = schemas.answer_class(ApiKey.PRODUCE)
    topic_answer = answer.TopicProduceResponse
    partition_answer = topic_answer.PartitionProduceResponse
    version, code = request.version, int(ErrorCode.UNSUPPORTED_VERSION)
    topics = [
        topic_answer(
            version=version,
            name=topic.name,
            partition_responses=[
                partition_answer(version=version, index=partition.index, error_code=code, base_offset=-1)
                for partition in topic.partition_data
            ],
        )
        for topic in message.topic_data
    ]
    return answer(version=version, responses=topics)
