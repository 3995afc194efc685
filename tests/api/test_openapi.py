"""The OpenAPI document is complete, and a broker behaves as documented."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raftlog.testing import BrokerProcess
from raftlog.testing.http import ask
from tests.api.described import ENDPOINTS


async def test_every_route_is_described_and_no_other(api):
    status, document = await api.get("/openapi.json")
    assert status == 200
    described = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert described == {each.route for each in api.server._app.router.endpoints}
    assert [each.route for each in ENDPOINTS] == [each.route for each in api.server._app.router.endpoints]


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


def test_every_operation_that_changes_state_lists_its_parameters() -> None:
    assert all(each.parameters is not None for each in ENDPOINTS if each.method != "GET")


def list_references(value):
    """Yield the targets of all `$ref`s within a value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from list_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from list_references(inner)


async def test_every_schema_exists_and_is_used(api):
    _, document = await api.get("/openapi.json")
    used = {name.removeprefix("#/components/schemas/") for name in list_references(document)}
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


@pytest.mark.parametrize(
    ("phases", "paths"),
    [
        ("examples", "^/"),
        ("coverage", "^/topics/[^/]+$"),
        pytest.param("coverage", "^/", marks=pytest.mark.slow),
        pytest.param("fuzzing", "^/", marks=pytest.mark.slow),
    ],
)
def test_a_running_broker_behaves_as_documented(tmp_path, phases, paths):
    """Send thousands of schemathesis requests, valid and invalid, always the same; check answers by the document."""
    with BrokerProcess(str(tmp_path / "data"), *FLAGS) as broker:
        broker.start()
        topic = {"topic_name": "t", "partitions_count": 2}
        assert ask(broker.address, "/v3/clusters/-/topics", method="POST", body=topic)[0] == 201
        (tmp_path / "schemathesis.toml").write_text(SETTINGS)
        url = f"http://{broker.address}/openapi.json"
        options = ["--phases", phases, "--include-path-regex", paths, "--max-examples", "3", "--seed", "1"]
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
