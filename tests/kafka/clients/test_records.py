"""Records written and read by each client: codecs, acks, idempotence, positions; and equal bytes for all of them."""

import http.client
import itertools

import pytest

from raftlog.records import Compression
from raftlog.records.check import split_batches
from raftlog.testing import Cluster
from tests.kafka.clients.drivers import DRIVERS, KAFKA_CLIENTS, Driver, Http, Kcat
from tests.kafka.clients.stored import BEGINNING, FromEnd, Offset, Since, StoredRecord, UnsentRecord

RECORDS = (
    UnsentRecord(b"alice", b"first", (("source", b"web"), ("source", b"app"), ("empty", b""))),
    UnsentRecord(None, "grün €".encode(), (), 1_600_000_000_122),
    UnsentRecord(b"alice", None, (("trace", b"7"),), 1_600_000_000_125),
    UnsentRecord(b"bob", b"{}", (), 1_600_000_000_999),
)
NULL_HEADER = UnsentRecord(b"carol", b"x", (("none", None),), 1_600_000_001_000)
COMPRESSIBLE = b"a value that compresses " * 20


def class_name(kind: type[Driver]) -> str:
    return kind.__name__


def list_stored_codecs(cluster: Cluster, topic: str) -> list[Compression]:
    """Return the codecs of all stored batches of a topic."""
    connection = http.client.HTTPConnection(cluster.nodes[1].http)
    accepted = {"Accept": "application/vnd.raftlog.batches"}
    connection.request("GET", f"/topics/{topic}/partitions/0/records?offset=0", headers=accepted)
    with connection.getresponse() as response:
        batches = response.read()
    connection.close()
    return [Compression(header.attributes & 7) for header, _ in split_batches(batches)]


@pytest.mark.parametrize("kind", DRIVERS, ids=class_name)
def test_all_clients_read_a_record_alike(kind, cluster, make_topic):
    topic, writer = make_topic(), kind(cluster)
    sent = RECORDS + ((NULL_HEADER,) if writer.has_null_headers else ())
    writer.write(topic, sent)
    read = {each.__name__: each(cluster).read(topic, BEGINNING, len(sent)) for each in DRIVERS}
    expected = [record.at(offset) for offset, record in enumerate(sent)]
    if not writer.has_timestamps:
        times = [record.timestamp for record in read[class_name(Http)]]
        assert min(times) > 1_700_000_000_000
        expected = [record._replace(timestamp=at) for record, at in zip(expected, times, strict=True)]
    for reader, records in read.items():
        assert records == expected, reader


@pytest.mark.parametrize("kind", KAFKA_CLIENTS, ids=class_name)
def test_each_codec_works_with_each_durability(kind, cluster, make_topic):
    topic, writer = make_topic(), kind(cluster)
    variants = list(itertools.product(writer.codecs, writer.acks))
    for number, (codec, acks) in enumerate(variants):
        writer.write(topic, [UnsentRecord(str(number).encode(), COMPRESSIBLE)], codec, acks)
        assert writer.read(topic, Offset(number), 1)[0].key == str(number).encode()  # it waits for the commit
    for reader in KAFKA_CLIENTS:
        if set(writer.codecs) <= set(reader.codecs):
            records = reader(cluster).read(topic, BEGINNING, len(variants))
            assert [record.key for record in records] == [str(number).encode() for number in range(len(variants))]
            assert {record.value for record in records} == {COMPRESSIBLE}
    assert list_stored_codecs(cluster, topic) == [Compression[codec.upper()] for codec, _ in variants]


@pytest.mark.parametrize("kind", [each for each in DRIVERS if each.is_idempotent], ids=class_name)
def test_idempotent_producers_write_each_record_once(kind, cluster, make_topic):
    topic, client = make_topic(), kind(cluster)
    sent = [UnsentRecord(b"k", str(number).encode()) for number in range(200)]
    client.write(topic, sent, is_idempotent=True)
    client.write(topic, sent[:1], is_idempotent=True)
    values = [record.value for record in client.read(topic, BEGINNING, 201)]
    assert values == [record.value for record in sent] + [b"0"]
    assert client.read(topic, FromEnd(1), 1)[0].offset == 200


@pytest.mark.parametrize("kind", DRIVERS, ids=class_name)
def test_reading_begins_at_the_requested_position(kind, cluster, make_topic):
    topic = make_topic()
    written = [UnsentRecord(None, str(number).encode(), (), 1_000 * number) for number in range(1, 11)]
    Http(cluster).write(topic, written)
    client = kind(cluster)

    def values_of(records: list[StoredRecord]) -> list[bytes | None]:
        return [record.value for record in records]

    assert values_of(client.read(topic, BEGINNING, 2)) == [b"1", b"2"]
    assert values_of(client.read(topic, Offset(6), 2)) == [b"7", b"8"]
    assert values_of(client.read(topic, FromEnd(3), 3)) == [b"8", b"9", b"10"]
    assert values_of(client.read(topic, Since(4_001), 2)) == [b"5", b"6"]


def test_kcat_lists_brokers_leaders_and_offsets(cluster, make_topic):
    topic, client = make_topic(3), Kcat(cluster)
    listed = client.run("-L", "-t", topic).decode()
    for node in cluster.nodes.values():
        assert f"broker {node.node_id} at {node.kafka}" in listed
    for partition in range(3):
        assert f"partition {partition}, leader {cluster.leader(topic, partition)}, replicas: " in listed
    client.write(topic, RECORDS)
    assert f"{topic} [0] offset 4" in client.run("-Q", "-t", f"{topic}:0:-1").decode()
