"""What a produce request is answered: a row for each record, in their order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import orjson
from aiohttp import web

from raftlog.api.http.server.answers import answer, json_answer
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.api.http.server.paced_answer import send_parts
from raftlog.api.http.server.problems import error_body, retry_headers
from raftlog.errors import RaftlogError
from raftlog.partitions.results import RecordResult
from raftlog.values.error_codes import status_and_code

DUPLICATE: Final[dict[str, int | str | None]] = {"duplicate": True}
"""Of records that an idempotent producer had sent before; their offsets are those of then."""
_ONE_DONE: Final = (
    b'{"offsets":[{"partition":%d,"offset":%d,"error_code":null,"error":null}],'
    b'"key_schema_id":null,"value_schema_id":null}'
)
_SENT_AT_ONCE_MAX: Final = 1_000
"""An answer of more rows is written in parts of so many."""


def one_done(result: RecordResult) -> web.Response | None:
    """The answer to a request of one record that is stored now; None for any other result."""
    partition, offset, error, is_duplicate = result
    if error is None and offset is not None and not is_duplicate:
        return answer(_ONE_DONE % (partition, offset))
    return None


async def records_answer(
    request: web.BaseRequest, results: Sequence[RecordResult], headers: dict[str, str]
) -> web.StreamResponse:
    """200 when any record is done, otherwise the status of an error, unknown before failed. An answer of very many rows
    is on its way when this returns, with these headers."""
    errors = [result.error for result in results if result.error is not None]
    status, fields = 200, {"key_schema_id": None, "value_schema_id": None}
    retry: dict[str, str] = {}
    if len(errors) == len(results):
        worst = next((error for error in errors if error.outcome == "unknown"), errors[0])
        (status, body), retry = error_body(worst), retry_headers(worst)
        fields = orjson.loads(body)
        if len(results) == 1:
            return json_answer(fields, status, retry)
    if len(results) > _SENT_AT_ONCE_MAX:
        parts = _parts(results, fields)
        return await send_parts(request, status, {"Content-Type": JSON_TYPE, **headers, **retry}, parts)
    if errors or results[0].is_duplicate:
        rows = [_described(result) for result in results]
    else:
        rows = [
            {"partition": partition, "offset": offset, "error_code": None, "error": None}
            for partition, offset, *_ in results
        ]
    return json_answer({"offsets": rows, **fields} if status == 200 else {**fields, "offsets": rows}, status, retry)


async def _parts(results: Sequence[RecordResult], fields: dict[str, Any]) -> AsyncIterator[bytes]:
    """The answer in parts of a few milliseconds each."""
    start = b'{"offsets":['
    for first in range(0, len(results), _SENT_AT_ONCE_MAX):
        rows = orjson.dumps([_described(result) for result in results[first : first + _SENT_AT_ONCE_MAX]])
        yield start + rows[1:-1]
        start = b","
        await asyncio.sleep(0)
    yield b"]," + orjson.dumps(fields)[1:]


def _described(result: RecordResult) -> dict[str, int | str | None]:
    error: RaftlogError | None = result.error
    if error is None:
        row: dict[str, int | str | None] = {
            "partition": result.partition,
            "offset": result.offset,
            "error_code": None,
            "error": None,
        }
        return row | DUPLICATE if result.is_duplicate else row
    return {
        "partition": result.partition,
        "offset": None,
        "error_code": status_and_code(error)[1],
        "error": str(error),
        "outcome": error.outcome,
    }
