"""Records in the console: found by offset, time and text, live, hostile, binary and long; produced."""

import json

from tests.console.conftest import LONG, send


def list_offsets(console) -> list[int]:
    return [int(row.split()[1]) for row in console.rows() if row.startswith(("▸", "▾"))]


def test_hostile_values_are_text_and_bytes_are_a_dump(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/topics/hostile/records?from=beginning")
    console.until(lambda: len(list_offsets(console)) == 5, "five records")
    for offset in range(5):
        console.click(f"▸ {offset}")
    console.until_text("<script>window.hacked = 1</script>", "00000000  ff fe 00 52 61 66 74 80", "|...Raft.|")
    console.until_text("not UTF-8: bytes, 8 B", "no value: a tombstone", "turned \\u202e around", "bell \\u0007")
    assert console.driver.execute_script("return window.hacked === undefined && !document.querySelector('img[src=x]')")
    console.check_access()
    console.picture("records-hostile")
    console.click("Load all of the value")
    shown = (
        "return [...document.querySelectorAll('pre')].map((each) => each.textContent).find((each) => each.length > 1e5)"
    )
    text = console.until(lambda: console.driver.execute_script(shown), "the whole value")
    assert text == LONG
    console.check_requests()


def test_records_are_found_by_offset_time_and_text(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/topics/orders/records")
    console.until(lambda: 119 in list_offsets(console), "the newest records")
    console.choose("From", "an offset")
    console.fill("Offset", "30")
    console.click("Go to the offset")
    console.until(lambda: list_offsets(console)[:1] == [30], "the record at the offset")
    console.click("Newer")
    console.until(lambda: list_offsets(console)[:1] == [80], "the next page")
    records = send(cluster, "/console/api/topics/orders/partitions/0/records?offset=0&limit=1", None, "GET")["records"]
    console.go(f"#/topics/orders/records?from=time&timestamp={records[0]['timestamp_ms']}")
    console.until(lambda: list_offsets(console)[:1] == [0], "the first record at or after the time")
    console.fill("Contains", '"id":77')
    console.until(lambda: list_offsets(console) == [77], "the record with the text")
    assert "looked at" in console.text()
    console.open(cluster.addresses[0], "#/topics/orders/records?from=offset&offset=999999")
    console.until(lambda: console.find(".problem .message"), "the broker's error for an offset beyond the end")


def test_a_time_is_found_in_every_partition(console, cluster) -> None:
    send(cluster, "/v3/clusters/-/topics", {"topic_name": "times", "partitions_count": 3})
    for second, partition in ((1, 2), (2, 0), (3, 2)):
        record = {"key": f"at {second}", "value": None, "partition": partition, "encoding": {"key": "text"}}
        send(cluster, "/topics/times", {"records": [{**record, "timestamp": 1_700_000_000_000 + 1_000 * second}]})
    console.open(cluster.addresses[0], "#/topics/times/records?from=time&timestamp=1700000001500")
    console.until_text("First record from this time on in each partition")

    def find_firsts() -> list[list[str]]:
        return [row.split() for row in console.rows() if not row.startswith(("▸", "▾"))]

    def is_whole() -> bool:
        return [row[0] for row in find_firsts()] == ["0", "2", "1"]

    console.until(is_whole, "partitions in the order of their records")
    assert [row[1:] for row in find_firsts() if row[0] == "1"] == [["none"]]
    console.check_access()
    console.picture("records-at-a-time")
    console.click("1 of partition 2")
    console.until(lambda: list_offsets(console) == [1], "the record of the other partition")
    assert "offset=1" in console.hash()


def test_records_arrive_live(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/topics/orders/records?partition=1&from=live")
    console.until_text("✓ live")
    live = {"records": [{"key": "now", "value": {"live": 1}, "partition": 1}]}
    send(cluster, "/topics/orders", live)
    console.until(lambda: any("now" in row for row in console.rows()), "the record")
    assert "1 record arrived" in console.text()
    console.picture("records-live")


def test_produced_record_is_shown_digit_by_digit(console, cluster) -> None:
    console.open(cluster.addresses[0], "#/topics/orders/records?partition=2")
    console.click("Produce a record")
    console.choose("Partition", "2")
    console.choose("Key is", "text")
    console.fill("Key", "made here")
    console.fill("Value", '{"n": 12345678901234567890}')
    console.fill("Headers", "trace: äöü")
    console.check_access()
    console.click("Produce")
    console.until_text("12345678901234567890", "made here", "äöü")
    path = "/console/api/topics/orders/partitions/2/records?newest=1&limit=1"
    [stored] = send(cluster, path, None, "GET")["records"]
    assert json.loads(stored["value"]["data"]) == {"n": 12345678901234567890}
