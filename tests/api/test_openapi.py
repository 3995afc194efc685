"""Completeness of the OpenAPI document, and a broker that behaves as documented."""

import os
import subprocess
import sys
from pathlib import Path

from raftlog.api.http.server.app import HttpApp
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.connections import ConnectionEnds
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.testing import BrokerProcess
from raftlog.testing.http import ask


async def test_every_route_is_described_and_no_other(api):
    status, document = await api.get("/openapi.json")
    assert status == 200
    app = HttpApp(api.broker, BodyReader(1, MemoryBudget(1), 1, 1), ConnectionEnds(), 1)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == set(app.router.routes)


async def test_every_parameter_of_a_path_is_described(api):
    _, document = await api.get("/openapi.json")
    names = []
    for path, methods in document["paths"].items():
        in_braces = [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]
        for operation in methods.values():
            names.append(operation["operationId"])
            described = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"]
            assert described == in_braces, path
    assert len(names) == len(set(names))


async def test_the_parameters_of_a_query_that_takes_no_others_are_described(api):
    _, document = await api.get("/openapi.json")
    app = HttpApp(api.broker, BodyReader(1, MemoryBudget(1), 1, 1), ConnectionEnds(), 1)
    for (method, path), names in app.router.queries.items():
        parameters = document["paths"][path][method.lower()].get("parameters", ())
        assert {each["name"] for each in parameters if each["in"] == "query"} == set(names), (method, path)
    orders = [each for each in app.router.routes if each[0] != "GET" and each[1].startswith("/v1/")]
    assert set(orders) <= app.router.queries.keys()


def references(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


async def test_every_schema_is_there_and_is_used(api):
    _, document = await api.get("/openapi.json")
    used = {name.removeprefix("#/components/schemas/") for name in references(document)}
    assert used == document["components"]["schemas"].keys()


CHECKS = (
    "status_code_conformance",  # no 500 either: the document has none
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
)
SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""
"""A list of too many items can be too large before it is read: 413."""
FLAGS = ("--fetch-wait-ms-max", "100", "--partitions-per-topic-max", "4")
ROOT = Path(__file__).parents[2]


def test_a_running_broker_behaves_as_documented(tmp_path):
    """Requests of schemathesis, thousands, valid and invalid, always the same ones. Every answer is as documented."""
    with BrokerProcess(str(tmp_path / "data"), *FLAGS) as broker:
        broker.start()
        topic = {"topic_name": "t", "partitions_count": 2}
        assert ask(broker.address, "/v3/clusters/-/topics", method="POST", body=topic)[0] == 201
        (tmp_path / "schemathesis.toml").write_text(SETTINGS)
        url = f"http://{broker.address}/openapi.json"
        options = ["--phases", "examples,coverage,fuzzing", "--max-examples", "3", "--seed", "1"]
        options += [
            "--generation-database",
            "none",
            "--request-timeout",
            "30",
            "--continue-on-failure",
            "--no-color",
            "--warnings",
            "off",
        ]
        done = subprocess.run(
            [Path(sys.executable).parent / "schemathesis", "run", url, *options, "--checks", ",".join(CHECKS)],
            cwd=tmp_path,
            env=os.environ | {"SCHEMATHESIS_HOOKS": "tests.api.openapi_hooks", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        assert broker.is_running
