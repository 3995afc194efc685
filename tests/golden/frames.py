"""Samples of each format with encoder and decoder; `frames.txt` has the bytes of each sample.

After a wanted change `python -m tests.golden.frames --rewrite` writes the file; the difference is to be reviewed: bytes
of a released format only change by fields at their end (docs/adr/0027-formats-that-can-grow.md).
"""

import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.membership import encoding as gossip
from raftlog.membership.digest import BUCKETS
from raftlog.membership.member import Address, Announcement, Claim, MemberState
from raftlog.membership.messages import (
    Ack,
    ClaimRequest,
    DigestBuckets,
    DigestEntries,
    DigestEntry,
    DigestRoot,
    Nack,
    Ping,
    PingRequest,
)
from raftlog.partitions.controller.machine import (
    AclEntry,
    AddPartitions,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterClusterConfig,
    AlterTopicConfigs,
    Command,
    CommandRequest,
    CreateAcls,
    CreateTopic,
    DeleteAcls,
    DeleteTopic,
    DeleteUser,
    RemoveBroker,
    SetAssignment,
    SetFeatureLevel,
    SetMaintenance,
    SetUserCredentials,
    SnapshotReader,
    StoredCredential,
    UpdateBroker,
    decode_request,
    encode_request,
    rows,
    snapshot_payloads,
)
from raftlog.partitions.controller.machine.schema import SchemaRecord, pack
from raftlog.partitions.gossip import description
from raftlog.partitions.groups import records
from raftlog.partitions.replica.expired_ids import ExpiredIds
from raftlog.partitions.replica.producers import (
    KnownProducer,
    ProducerTable,
    SnapshotRun,
    WrittenBatch,
    decode_expired,
    encode_expired,
)
from raftlog.partitions.transactions import records as transactions
from raftlog.raft import Configuration
from raftlog.records import read_control
from raftlog.runtime.log import control_entries
from raftlog.storage import roll
from raftlog.storage.gap import REASON_COMPACTED, Gap, build_gap_batch, decode_gap
from raftlog.types import FEATURE_LEVEL_KNOWN, Index, NodeId, Offset
from tests.controller.machine.fleet import BOOTSTRAP, create, disk_uuid, register, replica, topic_id
from tests.controller.machine.test_snapshot import make_busy_cluster
from tests.golden.wire import GROUP, ME, OTHER, Sample, wire_samples

FILE = Path(__file__).with_name("frames.txt")
CLUSTER = gossip.fingerprint("c")


def list_samples() -> Iterator[Sample]:
    """Yield all samples in the order of the file."""
    for part in (
        _controller_samples,
        _group_samples,
        _transaction_samples,
        _producer_samples,
        _control_batch_samples,
        _gossip_samples,
        wire_samples,
    ):
        yield from part()


# what state machines apply

CREDENTIAL = StoredCredential(2, b"salt", 4096, b"stored", b"server")
ENTRY = AclEntry(2, 4, "orders-", "User:alice", "*", 3, 3)
ENTITY = (("client-id", ""), ("user", "alice"))
COMMANDS: Sequence[Command] = (
    BOOTSTRAP,
    register(1, draining=True, replaces=7),
    UpdateBroker(NodeId(1), disk_uuid(1), True, Index(5)),
    RemoveBroker(NodeId(1), disk_uuid(1)),
    create("t", 1, (1, 2, 3), (2, 3, 1), configs={"retention.ms": "5"}),
    DeleteTopic("t", topic_id(1)),
    AlterTopicConfigs("t", topic_id(1), (("flush.ms", "3"),), ("retention.ms",), Index(5)),
    SetAssignment(topic_id(1), 1, (replica(2), replica(1)), Index(5)),
    AllocateProducerIds(NodeId(1), disk_uuid(1), 3, 1_000),
    SetFeatureLevel(2),
    SetMaintenance(NodeId(1), disk_uuid(1), True, Index(5)),
    AlterClusterConfig((("balancer.mode", "off"),), ("leaders.balance",), Index(5)),
    AddPartitions("t", topic_id(1), 2, ((replica(3), replica(1)), (replica(1), replica(2))), 6_000),
    SetUserCredentials("alice", (CREDENTIAL,), (1,), True, b"r" * 32, True, Index(5)),
    DeleteUser("alice", Index(5)),
    CreateAcls((ENTRY,)),
    DeleteAcls((ENTRY,)),
    AlterClientQuotas(ENTITY, (("producer_byte_rate", "1000"),), ("consumer_byte_rate",)),
)
ADDED = rows.AddedPartitions(((replica(3), replica(1), replica(2)),), (("flush.ms", "3"),), 6_000, Index(8))
ROWS: Sequence[SchemaRecord] = (
    rows.RegisteredBroker(NodeId(1), disk_uuid(1), 3, "host-1", register(1).addresses, 1, 2, True, Index(9)),
    rows.RetiredDisk(disk_uuid(7), NodeId(1), Index(9)),
    rows.TopicRow(create("t", 1), Index(5), (("flush.ms", "3"),), Index(9)),
    ADDED,
    rows.ReplicaAssignment(topic_id(1), 1, (replica(2), replica(1)), Index(9)),
    rows.DeletedTopic(topic_id(1), "t", 2, Index(9)),
    rows.BrokerMaintenance(NodeId(1), True, Index(9)),
    rows.ClusterSettings((("balancer.mode", "off"),), Index(9)),
    rows.UserRow("alice", (CREDENTIAL,), True, Index(9)),
    rows.AclRow(ENTRY, Index(9)),
    rows.QuotaRow(ENTITY, (("producer_byte_rate", "1000"),), Index(9)),
    rows.SaltSecret(b"r" * 32, Index(9)),
    rows.AnsweredRequest(uuid.UUID(int=7), Index(9), 0, 2, "there is one"),
)


def _controller_samples() -> Iterator[Sample]:
    for command in COMMANDS:
        request = CommandRequest(uuid.UUID(int=7), Index(3), command)
        yield Sample(f"command {type(command).__name__}", request, encode_request, decode_request)
    listening = register(1, kafka=(("inside", "h1:9092"), ("outside", "[::1]:9094")))
    yield Sample(
        "command RegisterBroker, with Kafka listeners",
        CommandRequest(uuid.UUID(int=7), Index(3), listening),
        encode_request,
        decode_request,
    )
    internal = CreateTopic("__t", topic_id(2), ((replica(1),),), (), 5_000, is_internal=True)
    yield Sample(
        "command CreateTopic, internal",
        CommandRequest(uuid.UUID(int=7), Index(3), internal),
        encode_request,
        decode_request,
    )
    grown = rows.TopicRow(create("t", 1), Index(5), (("flush.ms", "3"),), Index(9), (ADDED,))
    for row, note in (*((row, "") for row in ROWS), (grown, ", grown")):
        unpack = type(row).unpack
        yield Sample(
            f"row {type(row).__name__}{note}",
            row,
            lambda row: pack(row.pack()),
            lambda data, unpack=unpack: unpack(msgpack.unpackb(data)),
        )
    yield Sample(
        "snapshot of the controller",
        make_busy_cluster().state,
        lambda state: b"".join(snapshot_payloads(state, Index(9))),
        lambda data: SnapshotReader().take(data).finish(),  # type: ignore[union-attr]  # it is a whole run
    )


MEMBER = records.MemberRecord(
    "m-1", "i-1", "client", "/10.0.0.1", 10_000, 60_000, True, b"assigned", (records.Protocol("range", b"topics"),)
)
GROUP_RECORDS: Sequence[tuple[records.Key, records.Value]] = (
    (records.GroupKey("g"), records.GroupRecord("consumer", 3, "range", "m-1", True, 1_700_000_000_000, (MEMBER,))),
    (records.OffsetKey("g", topic_id(1), 3), records.OffsetRecord(Offset(7), 2, "said", 1_700_000_000_000)),
    (records.InstanceKey("g", "i"), {"version": 1, "topics": ["t"]}),
    (
        records.PendingOffsetKey("g", 9, topic_id(1), 3),
        records.PendingOffsetRecord(Offset(7), 2, "said", 1_700_000_000_000, 4),
    ),
    (records.GroupProducerKey("g", 9), records.GroupProducerRecord(4, 6, 1_700_000_000_000, 7)),
)


def _group_samples() -> Iterator[Sample]:
    for key, value in GROUP_RECORDS:
        yield Sample(f"{type(key).__name__} of groups", key, records.encode_key, records.decode_key)
        yield Sample(
            f"value of a {type(key).__name__}",
            value,
            lambda value: records.encode_value(value, FEATURE_LEVEL_KNOWN),
            lambda data, key=key: records.decode_value(key, data),
        )


TRANSACTION = transactions.TransactionRecord(
    9,
    2,
    transactions.TransactionState.ONGOING,
    60_000,
    ((topic_id(1), 3),),
    ("g",),
    1_700_000_000_000,
    1_700_000_000_001,
)


def _transaction_samples() -> Iterator[Sample]:
    yield Sample("key of a transactional id", "tx", transactions.encode_key, transactions.decode_key)
    renewed = TRANSACTION._replace(replaced_id=9, replaced_epoch=1, number=7)
    for note, record in (("", TRANSACTION), (", renewed", renewed)):
        yield Sample(f"value of a transactional id{note}", record, transactions.encode_value, transactions.decode_value)


def _producer_samples() -> Iterator[Sample]:
    known = KnownProducer(2, 1_700_000_000_000, (WrittenBatch(0, 4, 10), WrittenBatch(5, 5, 15)))
    for name, ranges in (("producers", ()), ("producers, some expired", ((3, 5), (9, 9)))):
        yield Sample(
            f"snapshot of {name}",
            ProducerTable({7: known.pack()}, ExpiredIds(ranges)),
            lambda table: b"".join(table.snapshot(Index(9))),
            lambda data: SnapshotRun().take(data)[1],  # type: ignore[index]  # it is a whole run
        )
    yield Sample("expired producers", [(7, 2), (8, 0)], encode_expired, lambda data: list(decode_expired(data)))


def _control_batch_samples() -> Iterator[Sample]:
    members = tuple(map(control_entries.member_of, (ME, OTHER)))
    yield Sample(
        "roll",
        roll.Roll(GROUP, 7, 2, 3, 1, 1_700_000_000_000, 4, members, members[:1], members[1:], (("flush.ms", "3"),)),
        roll.encode_roll,
        roll.decode_roll,
    )
    yield Sample(
        "configuration",
        Configuration(Index(9), (ME,), (OTHER,), (ME, OTHER)),
        lambda configuration: control_entries.encode_configuration(configuration, Index(4)),
        lambda data: control_entries.decode_configuration(data, Index(9))[0],
    )
    trim = control_entries.TrimEntry(Offset(7), Index(3))
    yield Sample("trim", trim, control_entries.encode_trim, control_entries.decode_trim)
    mark = control_entries.CompactionMark(Offset(7), Offset(3))
    yield Sample("compacted_to", mark, control_entries.encode_compacted_to, control_entries.decode_compacted_to)
    yield Sample(
        "gap", Gap(3, 4, 10, 15, 2, REASON_COMPACTED), build_gap_batch, lambda data: decode_gap(read_control(data)[1])
    )


# gossip

ABOUT = Announcement(4, Address("10.0.0.1", 9001), b"described")
GOSSIP: Sequence[Any] = (
    Ping(7, NodeId(2), disk_uuid(2).bytes),
    Ack(7),
    Nack(7),
    PingRequest(7, NodeId(2), disk_uuid(2).bytes, "10.0.0.2", 9002),
    Claim(NodeId(3), disk_uuid(3).bytes, 4, MemberState.ALIVE, NodeId(1), 0, ABOUT),
    DigestRoot(5),
    DigestBuckets(tuple(range(BUCKETS))),
    DigestEntries((1, 2), (DigestEntry(NodeId(3), 4, 1, 3, 77),)),
    ClaimRequest((NodeId(2), NodeId(3))),
)


def _gossip_samples() -> Iterator[Sample]:
    described = description.Description(
        "h:1", "h:2", "h:3", "host", "rack", "0.2.0", description.BrokerLoad(3, 2, 10, 20, 5)
    )
    yield Sample("gossip description", described, description.encode, description.decode)
    for message in GOSSIP:
        yield Sample(
            f"gossip {type(message).__name__}",
            message,
            lambda message: gossip.encode(CLUSTER, [message]),
            lambda data: gossip.decode(data, CLUSTER)[0],
        )
    silent = Claim(NodeId(3), disk_uuid(3).bytes, 4, MemberState.SUSPECT, NodeId(1), 0, None)
    yield Sample(
        "gossip Claim, bad news",
        silent,
        lambda message: gossip.encode(CLUSTER, [message]),
        lambda data: gossip.decode(data, CLUSTER)[0],
    )


# the file


def read_golden_bytes() -> dict[str, bytes]:
    """Return the bytes of the file by name of the sample."""
    lines = filter(None, FILE.read_text(encoding="utf-8").splitlines())
    return {name: bytes.fromhex(data) for name, data in (line.split(": ") for line in lines)}


def main(arguments: Sequence[str]) -> int:
    """Compare the samples with the file, or with `--rewrite` replace the file."""
    written = "".join(f"{each.name}: {each.encode(each.value).hex()}\n" for each in list_samples())
    if "--rewrite" in arguments:
        FILE.write_text(written, encoding="utf-8")
    is_same = FILE.read_text(encoding="utf-8") == written
    print("the same" if is_same else "different")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
