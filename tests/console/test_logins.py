"""The console with logins: a user sees what its entries of access control allow, and the broker's refusals."""

from collections.abc import Iterator

import pytest

from raftlog.client.addresses import BrokerAddresses
from raftlog.testing import BrokerProcess
from raftlog.testing.http import ask
from tests.console.open_console import OpenConsole

ADMIN, ALICE = ("admin", "secret of the admin"), ("alice", "secret of alice")
REFUSED = {
    "#/topics/hidden": "topics/hidden",
    "#/topics/hidden/records": "topics/hidden/partitions/0/records?limit=50&newest=50",
    "#/groups/hidden-readers": "groups/hidden-readers",
    "#/brokers": "brokers",
    "#/security": "users",
}
"""Paths of the console's requests by the routes of pages that alice may not see."""
RECORD = {"key": "k", "value": "seen"}


def allow(resource: str, name: str, operation: str) -> dict[str, str]:
    principal = f"User:{ALICE[0]}"
    return {
        "resource_type": resource,
        "resource_name": name,
        "principal": principal,
        "operation": operation,
        "permission": "ALLOW",
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a broker with logins, the topics `open` and `hidden`, and alice, who may read `open`."""
    directory = tmp_path_factory.mktemp("guarded")
    password = directory / "password"
    password.write_text(ADMIN[1])
    flags = ("--console-writes", "--authentication", "required")
    first = {"RAFTLOG_BOOTSTRAP_USER": ":".join(ADMIN)}
    with BrokerProcess(directory / "data", *flags, environment=first) as broker:
        address = broker.start(120)["http"].removeprefix("http://")
        access = BrokerAddresses([address], user=ADMIN[0], password_file=str(password))

        def send(path: str, body: object) -> None:
            status, answer = ask(address, path, method="POST", body=body, timeout_s=60, access=access)
            assert status < 300, answer

        for name in ("open", "hidden"):
            send("/v3/clusters/-/topics", {"topic_name": name})
            send(f"/topics/{name}", {"records": [RECORD]})
        for group, topic in (("open-readers", "open"), ("hidden-readers", "hidden")):
            send(f"/groups/{group}/offsets", {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]})
        send("/v1/security/users", {"name": ALICE[0], "password": ALICE[1]})
        acls = [allow("TOPIC", "open", "READ"), allow("GROUP", "open-readers", "DESCRIBE")]
        send("/v1/security/acls", {"acls": acls})
        yield address


def log_in(console: OpenConsole, address: str, login: tuple[str, str], route: str = "#/") -> None:
    """Open the console with a login, which the browser then keeps for the address, as after its own dialog."""
    console.log_in(address, *login)
    console.open(address, route)


def test_user_sees_only_what_it_may_see(console, guarded: str) -> None:
    log_in(console, guarded, ALICE, "#/topics")
    console.until_text("user alice", "1 shown · 1 in all")
    assert [row.split()[0] for row in console.rows()] == ["open"]
    assert not console.has_button("Create a topic")
    console.picture("topics-of-a-user")
    console.go("#/groups")
    console.until_text("1 shown · 1 in all")
    assert [row.split()[0] for row in console.rows()] == ["open-readers"]
    console.go("#/topics/open/records")
    console.until_text("seen")
    console.go("#/")
    console.until_text("Health, brokers and rates need DESCRIBE on the cluster, which user alice does not have.")
    console.until(console.is_loaded, "everything is loaded")
    assert "hidden" not in console.text()
    console.check_access()


def test_refusals_of_the_broker_are_shown_as_they_are(console, guarded: str) -> None:
    log_in(console, guarded, ALICE, "#/topics")
    for route, path in REFUSED.items():
        answer = console.ask(f"/console/api/{path}")
        assert answer["error_code"] // 100 == 403
        console.go(route)
        console.until_text(answer["message"], f"error code {answer['error_code']}")


def test_another_user_sees_more(console, guarded: str) -> None:
    log_in(console, guarded, ADMIN, "#/topics")
    console.until_text("user admin", "2 shown · 2 in all")
    console.go("#/security")
    console.until(lambda: [row.split()[0] for row in console.rows()] == ["admin", "alice"], "the users")
