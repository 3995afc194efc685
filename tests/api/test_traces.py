"""Traces over HTTP: the context of header and record, steps on a single broker, and nothing while tracing is off."""

from base64 import b64encode
from typing import Any

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{SPAN}-01"
STEPS = ["append", "commit", "journal sync", "produce", "produce request", "queue", "replicate and commit"]


async def produce(api: Any, headers: dict[str, str], record: dict[str, Any]) -> None:
    status, _ = await api.post("/topics/t", {"records": [record]}, headers=headers)
    assert status == 200


async def traces_of(api: Any, query: str = "") -> Any:
    status, answer = await api.get(f"/v1/traces{query}")
    assert status == 200
    return answer


async def test_a_header_and_a_record_can_bring_the_context(start_api: Any) -> None:
    api = await start_api({"trace_ratio": 0.0})
    await api.create_topic("t")
    await produce(api, {"traceparent": CALLER}, {"value": 1})
    in_record = [{"name": "traceparent", "value": b64encode(CALLER.replace("4bf", "aaa").encode()).decode()}]
    await produce(api, {}, {"value": 1, "headers": in_record})
    for trace_id in (TRACE, TRACE.replace("4bf", "aaa")):
        found = (await traces_of(api, f"?trace_id={trace_id}"))["traces"]
        assert [each["trace_id"] for each in found] == [trace_id]
        assert sorted(span["name"] for span in found[0]["spans"]) == STEPS
        root = found[0]["spans"][0]
        assert (root["parent_id"], root["attributes"]["status"]) == (SPAN, 200)
    assert len((await traces_of(api))["traces"]) == 2
    assert (await traces_of(api, f"?trace_id={'0' * 32}"))["traces"] == []


async def test_an_unsampled_or_invalid_context_leaves_no_trace(start_api: Any) -> None:
    api = await start_api({"trace_ratio": 0.0})
    await api.create_topic("t")
    for header in (CALLER[:-2] + "00", "nonsense", CALLER.upper()):
        await produce(api, {"traceparent": header}, {"value": 1})
    assert await traces_of(api) == {"is_on": True, "traces": []}


async def test_a_refused_request_has_its_status(start_api: Any) -> None:
    api = await start_api({"trace_ratio": 1.0})
    status, _ = await api.post("/topics/missing", {"records": [{"value": 1}]})
    assert status == 404
    ((trace),) = (await traces_of(api))["traces"]
    assert trace["spans"][0]["error"].startswith("UnknownTopic")


async def test_malformed_trace_id_is_refused(api: Any) -> None:
    for trace_id in ("", "x", TRACE.upper(), f"{TRACE}0", f"{TRACE}%0A"):
        status, answer = await api.get(f"/v1/traces?trace_id={trace_id}")
        assert (status, answer["error_code"]) == (400, 40002)


async def test_nothing_is_traced_while_tracing_is_off(api: Any) -> None:
    await api.create_topic("t")
    await produce(api, {"traceparent": CALLER}, {"value": 1})
    assert await traces_of(api) == {"is_on": False, "traces": []}
