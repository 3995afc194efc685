"""Answers to produce requests: a row for each record, in order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import orjson
from aiohttp import web

from raftlog.api.http.server.answers import json_answer, value_answer
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.api.http.server.paced_answer import send_parts
from raftlog.api.http.server.problems import error_body, retry_headers
from raftlog.partitions.results import RecordResult
from raftlog.values.error_codes import status_and_code
from raftlog.values.records import ProducedRecord, ProducedRecords
from raftlog.values.value import UNSET, to_json

_ONE_DONE: Final = (
    b'{"offsets":[{"partition":%d,"offset":%d,"error_code":null,"error":null}],'
    b'"key_schema_id":null,"value_schema_id":null}'
)
_SENT_AT_ONCE_MAX: Final = 1_400
"""Rows of an answer that are written at once, as many as 4 KiB have records; a longer answer is written in parts."""


def encode_single_record(results: Sequence[RecordResult]) -> bytes | None:
    """Return the body of the answer for one newly stored record; None for any other results."""
    if len(results) == 1:
        partition, offset, error, is_duplicate = results[0]
        if error is None and offset is not None and not is_duplicate:
            return _ONE_DONE % (partition, offset)
    return None


async def records_answer(
    request: web.BaseRequest, results: Sequence[RecordResult], headers: dict[str, str]
) -> web.StreamResponse:
    """Return the answer with the result of each record; a very long answer is sent before this returns."""
    if len(results) <= _SENT_AT_ONCE_MAX:
        return whole_records_answer(results)
    status, fields, retry = _summarize(results)
    parts = _encode_in_parts(results, fields)
    return await send_parts(request, status, {"Content-Type": JSON_TYPE, **headers, **retry}, parts)


def whole_records_answer(results: Sequence[RecordResult]) -> web.Response:
    """Return the answer with the result of each record, which is not sent yet."""
    status, fields, retry = _summarize(results)
    if status != 200 and len(results) == 1:
        return json_answer(fields, status, retry)
    rows = [describe_result(result) for result in results]
    if status == 200:
        return value_answer(ProducedRecords(offsets=rows))
    refused = value_answer({**fields, "offsets": rows}, status=status)
    refused.headers.update(retry)
    return refused


def _summarize(results: Sequence[RecordResult]) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return the status of the whole answer, its members besides the rows, and its headers.

    The status is 200 if any record is stored. Otherwise it is that of the first error with the outcome `unknown`, or
    else of the first error."""
    errors = [result.error for result in results if result.error is not None]
    if len(errors) < len(results):
        return 200, {"key_schema_id": None, "value_schema_id": None}, {}
    worst = next((error for error in errors if error.outcome == "unknown"), errors[0])
    status, body = error_body(worst)
    return status, orjson.loads(body), retry_headers(worst)


async def _encode_in_parts(results: Sequence[RecordResult], fields: dict[str, Any]) -> AsyncIterator[bytes]:
    """Yield the encoded answer in parts, each encoded in a few milliseconds."""
    start = b'{"offsets":['
    for first in range(0, len(results), _SENT_AT_ONCE_MAX):
        rows = to_json([describe_result(result) for result in results[first : first + _SENT_AT_ONCE_MAX]])
        yield start + rows[1:-1]
        start = b","
        await asyncio.sleep(0)
    yield b"]," + orjson.dumps(fields)[1:]


def describe_result(result: RecordResult) -> ProducedRecord:
    """Return the row of an answer for one record."""
    partition, offset, error, is_duplicate = result
    if error is None:
        return ProducedRecord(partition, offset, duplicate=is_duplicate or UNSET)
    return ProducedRecord(partition, None, status_and_code(error)[1], str(error), error.outcome)
