"""Every page of the console: accessible, in both palettes, on a desktop and on a phone, with nothing from outside."""

import hashlib
import json

import pytest

from tests.console.conftest import GROUPS, send
from tests.console.open_console import DESKTOP, PHONE, VENDOR

PAGES = {
    "overview": ("#/", "The cluster is healthy"),
    "topics": ("#/topics", "orders"),
    "topic": ("#/topics/orders", "High watermark"),
    "settings": ("#/topics/orders/settings", "retention.ms"),
    "records": ("#/topics/orders/records?from=offset&offset=3&open=3", "9007199254740993123"),
    "groups": ("#/groups", "team-00"),
    "group": ("#/groups/team-00", "The group has no members"),
    "brokers": ("#/brokers", "Moves of replicas"),
    "users": ("#/security", "There are no users"),
    "acls": ("#/security/acls", "ACLs are not checked"),
    "transactions": ("#/transactions", "pay-rent"),
    "transaction": ("#/transactions/pay-rent", "none open"),
}


@pytest.mark.parametrize("page", PAGES)
def test_page_is_readable_for_everybody(console, cluster, page: str) -> None:
    route, text = PAGES[page]
    for name, size, scheme in (("desktop-light", DESKTOP, "light"), ("phone-dark", PHONE, "dark")):
        console.show_as(size, scheme)
        console.open(cluster.addresses[0], route)
        console.until_text(text)
        console.until(console.is_loaded, "everything is loaded")
        console.picture(f"{page}-{name}")
        console.check_width()
        console.check_access()
        console.check_requests()
    assert len(console.find("h1")) == 1


def test_axe_is_as_recorded_with_its_licence() -> None:
    recorded = json.loads((VENDOR / "vendored.json").read_text())
    assert hashlib.sha256((VENDOR / recorded["file"]).read_bytes()).hexdigest() == recorded["sha256"]
    for name in recorded["license_files"]:
        assert len((VENDOR / name).read_text()) > 1_000


def test_keyboard_reaches_the_content_and_focus_follows_the_route(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/topics")
    console.driver.switch_to.active_element.send_keys("\ue004")  # Tab
    assert console.driver.switch_to.active_element.text == "Skip to the content"
    console.driver.switch_to.active_element.send_keys("\ue007")  # Enter
    assert console.driver.switch_to.active_element.tag_name == "main"
    console.click("orders")
    console.until(lambda: console.driver.switch_to.active_element.text == "Topic orders", "the heading has the focus")
    assert console.driver.title == "Topic orders · raftlog console"


def test_filter_and_page_are_in_the_address(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/groups")
    console.until_text(f"50 shown · {GROUPS} in all")
    console.click("Next page")
    console.until_text(f"{GROUPS - 50} shown · {GROUPS} in all · page 2")
    assert "after=" in console.hash()
    console.driver.back()
    console.until_text("50 shown")
    console.fill("Filter by name", "TEAM-1")
    console.until_text(f"10 shown · 10 of {GROUPS} match")
    assert "filter=TEAM-1" in console.hash()
    console.driver.refresh()
    console.until_text(f"10 shown · 10 of {GROUPS} match")
    assert console.field("Filter by name").get_attribute("value") == "TEAM-1"


def test_lagging_group_has_its_reason_and_a_reset_its_preview(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/groups/team-07")
    console.until_text("The group has no members: nothing reads 1 partition with lag.", "What to do:")
    console.until_text("Rates are measured while this page is open")
    assert any(row.startswith("orders/0 20 0 12") for row in console.rows())
    console.click("Reset offsets")
    console.choose("To", "some records back or forth")
    console.fill("Records", "-5")
    console.click("Preview")
    console.until_text("1 committed offset will change")
    assert "orders/0 20 15 -5" in console.rows()
    assert not console.button("Reset the offsets").is_enabled()
    console.fill("Type team-07 to confirm", "team-0")
    assert not console.button("Reset the offsets").is_enabled()
    console.field("Type team-07 to confirm").send_keys("7")
    console.click("Reset the offsets")
    console.until(lambda: any(row.startswith("orders/0 15 0 12") for row in console.rows()), "the new offset is shown")


def test_topic_is_created_and_deleted_by_its_name(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/topics")
    console.click("Create a topic")
    console.fill("Name", "bad name")
    console.click("Create")
    console.until(lambda: console.find("dialog .problem"), "the broker's error")
    assert "bad name" in console.find("dialog .problem .message")[0].text
    console.fill("Name", "brief")
    console.fill("Settings", "retention.ms=60000")
    console.click("Create")
    console.until_text("Topic brief")
    console.until_text("High watermark")
    console.click("Delete brief")
    console.fill("Type brief to confirm", "brief")
    console.click("Delete the topic")
    console.until(lambda: console.hash() == "#/topics", "the list of topics")
    console.until(lambda: console.rows() and not any("brief" in row for row in console.rows()), "the topic is gone")


def test_acl_is_created_and_deleted(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/security/acls")
    console.click("Create an ACL")
    console.fill("Principal", "User:alice")
    console.fill("Name of the resource", "ord")
    console.choose("The name is", "the beginning of names")
    console.click("Create")
    console.until(
        lambda: any(row.startswith("User:alice ✓ allow read topic ord and names") for row in console.rows()), "the ACL"
    )
    console.click("Delete ACL of User:alice on ord")
    console.fill("Type User:alice to confirm", "User:alice")
    console.click("Delete the ACL")
    console.until_text("There are no ACLs")


def test_errors_of_the_broker_are_shown_as_they_are(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/topics/nobody")
    message = console.until(lambda: console.find(".problem .message"), "the error")[0].text
    assert "nobody" in message
    console.until_text("status 404", "Check the name")
    console.go("#/groups/nobody/")
    console.until_text("Group nobody")
    console.go("#/nowhere")
    console.until_text("The console has no page nowhere")


def test_changes_are_offered_only_where_the_broker_allows_them(console, read_only, cluster) -> None:
    console.open(read_only, "#/topics")
    console.until_text("read-only")
    assert not console.has_button("Create a topic")
    answer = console.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "const headers = {'X-Raftlog-Console': '1', 'Content-Type': 'application/json'};"
        "fetch('/v3/clusters/-/topics', {method: 'POST', headers, body: JSON.stringify({topic_name: 'x'})})"
        ".then((answer) => answer.json()).then(done)"
    )
    assert answer["error_code"] == 40307
    console.open(cluster.addresses[0], "#/topics")
    console.until(lambda: console.has_button("Create a topic"), "the button")


def test_hot_partition_and_a_member_that_commits_nothing(console, cluster) -> None:
    """The page measures the rates itself, from two polls on."""
    name = "hot"
    send(cluster, "/v3/clusters/-/topics", {"topic_name": name, "partitions_count": 2})
    protocol = {"name": "range", "metadata": "AAAAAAABAANob3T/////"}  # subscribes to hot
    group = {"client_id": "worker", "assigned_by": "broker", "protocols": [protocol], "session_timeout_ms": 300_000}
    joined = send(cluster, "/groups/slow/join", group)
    member = {"member_id": joined["member_id"], "generation": joined["generation"]}
    send(cluster, "/groups/slow/sync", member)
    begin = [{"topic": name, "partition": partition, "offset": 0} for partition in (0, 1)]
    send(cluster, "/groups/slow/offsets", {"offsets": begin, **member})
    send(cluster, f"/topics/{name}", {"records": [{"value": n, "partition": int(n < 1)} for n in range(20)]})
    try:
        console.open(cluster.addresses[0], "#/groups/slow")
        console.until_text(
            "95 % of the lag is in hot/0, read by worker", "95 % of the records of hot go to this partition"
        )
        console.until_text("0 records per second written, 0 read and committed")
        console.until_text("worker at 127.0.0.1 has committed nothing in the last")
        assert any(row.startswith("hot/0 0 0 19 19 0/s 0/s worker") for row in console.rows())
        console.check_access()
        console.picture("group-hot")
    finally:
        send(cluster, "/groups/slow/leave", {"members": [{"member_id": joined["member_id"]}]})


def test_members_and_their_assignments(console, cluster) -> None:
    protocol = {"name": "range", "metadata": "AAAAAAABAAZvcmRlcnP/////"}  # subscribes to orders, see docs/HTTP.md
    joined = send(
        cluster, "/groups/readers/join", {"client_id": "app", "assigned_by": "broker", "protocols": [protocol]}
    )
    member = {"member_id": joined["member_id"], "generation": joined["generation"]}
    send(cluster, "/groups/readers/sync", member)
    try:
        console.open(cluster.addresses[0], "#/groups/readers")
        console.until_text("Members (1)", "orders/0", "orders/1", "orders/2", joined["member_id"])
        assert "stable" in console.text()
    finally:
        send(cluster, "/groups/readers/leave", {"members": [{"member_id": joined["member_id"]}]})
