"""Operators' requests over HTTP: calls of the broker's operations, responses, and refusals before any call."""

import logging
from types import SimpleNamespace

import aiohttp
import pytest

from raftlog.api.http.server.server import HttpServer, HttpSettings
from raftlog.errors import (
    ChangeRefused,
    DeadlineExceeded,
    InvalidArgument,
    NoLeader,
    UnknownTopic,
    VersionConflict,
)
from raftlog.partitions.counters import Counters
from raftlog.partitions.operations.balancer_operations import BalancerOperations
from raftlog.partitions.operations.brokers import BrokerOperations
from raftlog.partitions.operations.cluster import ClusterOperations
from raftlog.partitions.operations.leadership import LeadershipOperations
from raftlog.partitions.operations.local import LocalReplicas
from raftlog.partitions.operations.partitions import PartitionOperations
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.partitions.security.client_rates import ClientRates
from raftlog.partitions.settings import BrokerSettings
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.values.brokers import BrokerDescription, MaintenanceStatus
from tests.api.conftest import Api
from tests.api.scripted_operations import ANSWERS, LEVELS, UNKNOWN, ScriptedOperations

PARTITION = "/v1/partitions/kafka/orders/0"
PLACE = {"ns": "kafka", "topic": "orders", "partition": 0}


class ScriptedBroker:
    """Stand-in for a broker that only has operations; requests to any other part find nothing."""

    node_id = 1
    is_ready = True
    settings = BrokerSettings(data_dir="not there")
    receive_budget = MemoryBudget(1)

    def __init__(self):
        self.operations = ScriptedOperations()
        self.security = SimpleNamespace(authorizer=Authorizer(), rates=ClientRates(None))
        self.measuring = SimpleNamespace(counters=Counters())

    def wake_fetches(self):
        return None

    async def brokers(self, *, deadline):
        return []

    def topics(self):
        return []

    async def describe_topic(self, name, *, deadline):
        raise UnknownTopic("there is no such topic")


@pytest.fixture
async def api():
    """Run a server over a scripted broker; tests that need a real one use `real`."""
    broker = ScriptedBroker()
    server = HttpServer(broker, HttpSettings(console="none"))
    address = await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Api(broker, server, address, session)
    await server.stop(1.0)


@pytest.fixture
def scripted(api):
    return api.broker.operations


@pytest.fixture
async def real(start_api):
    return await start_api()


ORDERS = [
    ("PUT", "/v1/brokers/3/decommission", None, ("decommission", 3, {}), {"node_id": 3}),
    ("PUT", "/v1/brokers/3/recommission", None, ("recommission", 3, {}), {"node_id": 3}),
    (
        "PUT",
        "/v1/brokers/3/maintenance?expected_version=0",
        None,
        ("set_maintenance", 3, True, {"expected_version": 0}),
        {"node_id": 3, "draining": True, "version": 12},
    ),
    (
        "DELETE",
        "/v1/maintenance",
        None,
        ("set_maintenance", 1, False, {"expected_version": None}),
        {"node_id": 1, "draining": False, "version": 12},
    ),
    ("POST", "/v1/partitions/rebalance", None, ("rebalance", {}), {"partitions_to_move": 7}),
    (
        "POST",
        PARTITION + "/replicas?expected_version=9",
        [{"node_id": 1, "core": 0}, {"node_id": 4}],
        ("set_replicas", "orders", 0, [1, 4], {"expected_version": 9}),
        {"version": 21},
    ),
    (
        "POST",
        PARTITION + "/transfer_leadership?target=2",
        None,
        ("transfer_leadership", "orders", 0, 2, {}),
        {"leader_id": 2},
    ),
    (
        "POST",
        PARTITION + "/transfer_leadership",
        None,
        ("transfer_leadership", "orders", 0, None, {}),
        {"leader_id": 2},
    ),
    (
        "POST",
        PARTITION + "/cancel_reconfiguration",
        None,
        ("cancel_reconfiguration", "orders", 0, {}),
        {"version": 22},
    ),
    (
        "POST",
        "/v1/brokers/3/cancel_partition_moves",
        None,
        ("cancel_moves", 3, {}),
        [{**PLACE, "result": "success"}],
    ),
    (
        "POST",
        "/v1/cluster/cancel_reconfigurations",
        None,
        ("cancel_moves", {}),
        [{**PLACE, "result": "success"}],
    ),
    (
        "PUT",
        "/v1/cluster_config?dry_run=true",
        {"upsert": {"balancer.mode": "off"}, "remove": ["balancer.moves.max"]},
        (
            "alter_cluster_config",
            {"balancer.mode": "off"},
            ["balancer.moves.max"],
            {"expected_version": None, "dry_run": True},
        ),
        {"config_version": 32},
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "ordered", "answer"), ORDERS)
async def test_an_operators_request_reaches_the_broker_and_can_be_repeated(
    api, scripted, method, path, body, ordered, answer
):
    for _ in range(2):
        assert await api.call(method, path, body) == (200, answer)
    assert scripted.ordered == [ordered, ordered]


@pytest.mark.parametrize(("method", "path", "body", "ordered", "answer"), ORDERS)
@pytest.mark.parametrize(
    ("error", "status", "code", "outcome"),
    [
        (UNKNOWN, 404, 40406, "failed"),
        (InvalidArgument("not that way"), 400, 40002, "failed"),
        (VersionConflict("it has version 10"), 409, 40904, "failed"),
        (ChangeRefused("another broker is in maintenance"), 503, 50302, "failed"),
        (NoLeader("the controller has no leader"), 503, 50302, "failed"),
        (DeadlineExceeded("no answer from the controller"), 504, 50401, "unknown"),
    ],
)
async def test_a_refused_operation_returns_its_status_code_and_outcome(
    api, scripted, method, path, body, ordered, answer, error, status, code, outcome
):
    scripted.answers[ordered[0]] = error
    told_status, told_body = await api.call(method, path, body)
    assert told_status == status
    assert told_body == {"error_code": code, "message": str(error), "outcome": outcome}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/v1/brokers/x/decommission", None, 400),
        ("PUT", "/v1/brokers/-1/maintenance", None, 400),
        ("PUT", "/v1/brokers/1/maintenance?expected_version=-1", None, 400),
        ("PUT", "/v1/brokers/1/maintenance?timeout=0", None, 400),
        ("POST", PARTITION + "/replicas", None, 415),
        ("POST", PARTITION + "/replicas", {"node_id": 1}, 422),
        ("POST", PARTITION + "/replicas", [1, 2], 422),
        ("POST", PARTITION + "/replicas", [{"node_id": "1"}], 422),
        ("POST", PARTITION + "/replicas", [{"node_id": True}], 422),
        ("POST", PARTITION + "/replicas", [{"node_id": -1}], 422),
        ("POST", PARTITION + "/replicas?expected_version=abc", [{"node_id": 1}], 400),
        ("POST", "/v1/partitions/other/orders/0/replicas", [{"node_id": 1}], 404),
        ("POST", "/v1/partitions/kafka/orders/x/replicas", [{"node_id": 1}], 400),
        ("POST", PARTITION + "/transfer_leadership?target=-1", None, 400),
        ("POST", PARTITION + "/transfer_leadership?target=two", None, 400),
        ("PUT", "/v1/cluster_config", [], 422),
        ("PUT", "/v1/cluster_config", {"upsert": []}, 422),
        ("PUT", "/v1/cluster_config", {"upsert": {"balancer.mode": None}}, 422),
        ("PUT", "/v1/cluster_config", {"upsert": {"balancer.mode": ["off"]}}, 422),
        ("PUT", "/v1/cluster_config", {"remove": "balancer.mode"}, 422),
        ("PUT", "/v1/cluster_config", {"balancer.mode": "off"}, 400),
        ("PUT", "/v1/cluster_config", {"upsert": {"balancer.mode": "x" * 256}}, 400),
        ("PUT", "/v1/cluster_config", {"remove": ["x" * 256]}, 400),
        ("PUT", "/v1/cluster_config", {"remove": [str(number) for number in range(101)]}, 400),
        ("PUT", "/v1/cluster_config?dry_run=yes", {}, 400),
        ("PUT", "/v1/cluster_config?dry_run=true&dry_run=false", {"upsert": {"balancer.mode": "off"}}, 400),
        ("PUT", "/v1/brokers/1/maintenance?expected_version=1&expected_version=2", None, 400),
        ("PUT", "/v1/cluster_config?dry-run=true", {"upsert": {"balancer.mode": "off"}}, 400),
        ("PUT", "/v1/brokers/3/decommission?dry_run=true", None, 400),
        ("DELETE", "/v1/brokers/1/maintenance?version=9", None, 400),
        ("PUT", "/v1/config/log_level/raftlog?level=debug&expire=60", None, 400),
        ("GET", "/v1/cluster_config?include-defaults=false", None, 400),
        ("GET", "/v1/cluster_config?key=no.such", None, 404),
        ("PUT", "/v1/features", {"feature_level": "3"}, 422),
        ("PUT", "/v1/features", {"feature_level": None}, 422),
        ("PUT", "/v1/features", {"level": 3}, 400),
        ("PUT", "/v1/features", {"feature_level": 4}, 400),
        ("PUT", "/v1/features", {"feature_level": 0}, 400),
        ("GET", "/v1/brokers/9", None, 404),
        ("GET", "/v1/cluster/partitions?topic=none", None, 404),
        ("DELETE", "/v1/brokers/1/decommission", None, 405),
    ],
)
async def test_bad_input_is_refused_before_any_operation_is_called(api, scripted, method, path, body, status):
    told_status, answer = await api.call(method, path, body)
    assert (told_status, answer["outcome"]) == (status, "failed")
    assert len(answer["message"]) > 10
    assert {name for name, *_ in scripted.ordered} <= {"feature_levels", "cluster_config"}


async def test_the_error_for_a_misspelt_parameter_lists_the_valid_ones(api):
    _, answer = await api.call("PUT", "/v1/cluster_config?dry-run=true", {"upsert": {}})
    assert answer["message"] == "the query has 'dry-run'; it can have dry_run, expected_version, timeout"
    _, answer = await api.call("GET", "/v1/loggers?name=raftlog", None)
    assert answer["message"] == "the query has 'name'; it has no parameters here"


@pytest.mark.parametrize(
    ("tag", "query", "status"),
    [('"9"', "", 200), ("*", "?expected_version=9", 200), ('"9"', "?expected_version=8", 400), ("9", "", 400)],
)
async def test_the_expected_version_can_be_sent_as_an_etag(api, scripted, tag, query, status):
    path, body = PARTITION + "/replicas" + query, [{"node_id": 1}]
    async with api.session.post(api.url + path, json=body, headers={"If-Match": tag}) as answer:
        assert answer.status == status
        if status == 200:
            assert answer.headers["ETag"] == '"21"'
            assert scripted.ordered == [("set_replicas", "orders", 0, [1], {"expected_version": 9})]


async def test_the_progress_of_maintenance_is_returned(api, scripted):
    status, found = await api.get("/v1/brokers/1/maintenance")
    assert (status, found["draining"], found["finished"], found["transferring"]) == (200, True, False, 2)
    assert (found["reasons"], found["version"]) == (["node 3 lags behind"], 12)
    assert await api.get("/v1/maintenance") == (200, found)
    assert scripted.ordered == [("maintenance", 1, {})] * 2


async def test_the_progress_of_a_decommission_is_returned(api, scripted):
    status, found = await api.get("/v1/brokers/3/decommission")
    assert status == 200
    assert (found["finished"], found["replicas_left"], found["bytes_left"]) == (False, 2, 700)
    assert (found["allocation_failures"], found["reason"]) == (["orders/1"], "no host is left")
    moving, stuck = found["partitions"]
    assert (moving["moving_to"], moving["bytes_left_to_move"]) == ({"node_id": 4, "core": 0}, 700)
    assert (stuck["moving_to"], stuck["bytes_left_to_move"], stuck["reason"]) == (None, None, "no host")


async def test_moves_and_local_replicas_are_listed(api, scripted):
    _, (move,) = await api.get("/v1/partitions/reconfigurations")
    assert [each["node_id"] for each in move["previous_replicas"]] == [1, 2, 3]
    assert [each["node_id"] for each in move["current_replicas"]] == [1, 2, 4]
    assert (move["learners"], move["version"], move["partition"]) == ([4], 9, 0)
    _, (local,) = await api.get("/v1/partitions")
    assert (local["leader_id"], local["bytes"], local["status"]) == (-1, 4096, "has no leader")
    summary = {"count": 5, "leaderless": 1, "under_replicated": 2}
    assert await api.get("/v1/partitions/local_summary") == (200, summary)


async def test_the_balancer_reports_the_reason_of_a_stall(api, scripted):
    _, found = await api.get("/v1/cluster/partition_balancer/status")
    assert (found["status"], found["mode"], found["reasons"]) == ("stalled", "continuous", ["no host is left"])
    assert found["violations"] == {"unavailable_nodes": [3], "over_disk_limit_nodes": []}


async def test_cluster_settings_schema_and_status_are_returned(api, scripted):
    assert await api.get("/v1/cluster_config") == (200, {"balancer.mode": "off", "balancer.moves.max": 16})
    assert await api.get("/v1/cluster_config?key=balancer.mode") == (200, {"balancer.mode": "off"})
    assert await api.get("/v1/cluster_config?include_defaults=false") == (200, {"balancer.mode": "off"})
    _, schema = await api.get("/v1/cluster_config/schema")
    assert schema["properties"]["balancer.moves.max"]["default"] == 16
    _, rows = await api.get("/v1/cluster_config/status")
    assert [each["config_version"] for each in rows] == [31, None]
    async with api.session.get(api.url + "/v1/cluster_config") as answer:
        assert answer.headers["ETag"] == '"31"'


@pytest.mark.parametrize("body", [{}, {"feature_level": 3}])
async def test_an_unfinished_upgrade_is_finished_on_request(api, scripted, body):
    assert (await api.get("/v1/features"))[1]["is_finished"] is False
    assert (await api.call("PUT", "/v1/features", body))[0] == 200
    assert scripted.ordered.count(("finish_upgrade", {})) == 1


async def test_finishing_an_upgrade_to_a_reached_level_does_nothing(api, scripted):
    assert (await api.call("PUT", "/v1/features", {"feature_level": 2}))[0] == 200
    assert ("finish_upgrade", {}) not in scripted.ordered


async def test_the_error_names_the_broker_that_does_not_support_the_feature_level(api, scripted):
    old = LEVELS.brokers[1].copy_with(level_max=2)
    scripted.answers["feature_levels"] = LEVELS.copy_with(highest_known_by_all=2, brokers=(LEVELS.brokers[0], old))
    status, body = await api.call("PUT", "/v1/features", {"feature_level": 3})
    assert (status, "node 2 supports up to 2" in body["message"]) == (400, True)


ROW = BrokerDescription(
    node_id=1,
    host="host-1",
    http_address="127.0.0.1:8082",
    internal_rpc_address="::1",
    internal_rpc_port=9001,
    is_alive=True,
    version="0.2.0",
    disk_uuid="c0ffee",
    membership_status="draining",
)


async def test_a_broker_description_includes_its_maintenance_status(api, scripted, monkeypatch):
    async def brokers(*, deadline):
        return [ROW.copy_with(maintenance_status=MaintenanceStatus(draining=True))]

    monkeypatch.setattr(api.broker, "brokers", brokers)
    _, shown = await api.get("/v1/brokers/1")
    assert (shown["membership_status"], shown["maintenance_status"]["eligible"]) == ("draining", 4)
    assert (shown["internal_rpc_address"], shown["internal_rpc_port"]) == ("::1", 9001)
    scripted.answers["maintenance"] = NoLeader("the controller has no leader")
    _, (shown,) = await api.get("/v1/brokers")
    assert shown["maintenance_status"]["draining"] is True
    assert shown["maintenance_status"]["reasons"] == ["the controller has no leader"]


async def test_a_real_broker_returns_its_brokers_and_partitions(real):
    real.broker.operations = ScriptedOperations()
    _, (shown,) = await real.get("/v1/brokers")
    assert shown["maintenance_status"]["draining"] is False
    assert (shown["boot_epoch"], shown["uptime_s"] >= 0, shown["disk_space"][0]["free"] > 0) == (1, True, True)
    assert await real.get("/v1/broker_uuids") == (200, [{"node_id": 1, "uuid": shown["disk_uuid"]}])
    assert real.broker.operations.ordered == []
    await real.create_topic("orders", 2)
    _, rows = await real.get("/v1/cluster/partitions")
    assert [(row["topic"], row["partition_id"], row["leader_id"]) for row in rows] == [
        ("orders", 0, 1),
        ("orders", 1, 1),
    ]
    assert await real.get("/v1/cluster/partitions?topic=orders") == (200, rows)
    _, partition = await real.get(PARTITION)
    assert partition["version"] == rows[0]["version"] > 0


LEVEL = "/v1/config/log_level/raftlog.api.http.server.app"


@pytest.fixture
def app_logger():
    found = logging.getLogger("raftlog.api.http.server.app")
    before = found.level
    yield found
    found.setLevel(before)


async def test_a_log_level_expires_after_its_time(api, app_logger, monkeypatch):
    before = (await api.get(LEVEL))[1]
    timers = []
    handlers = next(each for each in api.server._app.router.find(LEVEL).routes.values()).handler.__self__
    monkeypatch.setattr(handlers, "_restore", timers.append)
    status, shown = await api.call("PUT", LEVEL + "?level=debug")
    assert (status, shown["level"]) == (200, "debug")
    assert 590 <= shown["expires"] <= 600
    assert app_logger.isEnabledFor(logging.DEBUG)
    monkeypatch.undo()
    handlers._restore("raftlog.api.http.server.app")
    assert (await api.get(LEVEL))[1] == before


async def test_after_two_changes_of_a_log_level_the_first_level_is_restored(api, app_logger):
    first = app_logger.level
    for level in ("debug", "error"):
        await api.call("PUT", f"{LEVEL}?level={level}&expires=500")
    api.server._app.router.find(LEVEL).routes["PUT"].handler.__self__._restore("raftlog.api.http.server.app")
    assert app_logger.level == first


async def test_loggers_are_listed(api, app_logger):
    _, rows = await api.get("/v1/loggers")
    names = [row["name"] for row in rows]
    assert names == sorted(names)
    assert {"raftlog", "raftlog.api.http.server.app", "raftlog.partitions"} <= {*names}
    assert all(name.split(".")[0] == "raftlog" for name in names)


async def test_a_log_level_with_expires_0_never_expires(api, app_logger, caplog):
    with caplog.at_level(logging.INFO, "raftlog.api.http.admin"):
        _, shown = await api.call("PUT", LEVEL + "?level=warning&expires=0")
    assert [record.getMessage() for record in caplog.records] == ["log_level_changed"]
    assert shown == {"name": "raftlog.api.http.server.app", "level": "warning", "expires": None}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (LEVEL, 400),
        (LEVEL + "?level=loud", 400),
        (LEVEL + "?level=debug&expires=-1", 400),
        (LEVEL + "?level=debug&expires=604801", 400),
        (LEVEL + "?level=debug&timeout=0", 400),
        ("/v1/config/log_level/raftlog.none?level=debug", 404),
        ("/v1/config/log_level/aiohttp?level=debug", 404),
        ("/v1/config/log_level/raftlogs?level=debug", 404),
    ],
)
async def test_invalid_log_levels_and_loggers_are_refused(api, app_logger, path, status):
    before = app_logger.level
    assert (await api.call("PUT", path))[0] == status
    assert app_logger.level == before
    assert "raftlog.none" not in logging.root.manager.loggerDict


async def test_the_scripted_operations_are_those_that_http_calls(scripted):
    """The scripted operations have the names of all real operations that HTTP calls, and no others."""
    parts = (
        BalancerOperations,
        BrokerOperations,
        ClusterOperations,
        LeadershipOperations,
        LocalReplicas,
        PartitionOperations,
    )
    of_kafka_alone = {"active_producers", "refresh"}
    names = {name for part in parts for name in vars(part) if not name.startswith("_")}
    assert names == ANSWERS.keys() | of_kafka_alone
