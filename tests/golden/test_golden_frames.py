"""Bytes of every format stay the same; see `frames`."""

from pathlib import Path
from typing import Any

import pytest

from raftlog.membership.encoding import KINDS as GOSSIP_KINDS
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import rows
from raftlog.partitions.controller.machine.request import KINDS
from raftlog.partitions.controller.machine.schema import SchemaRecord
from raftlog.partitions.groups import records
from raftlog.partitions.settings import BrokerSettings
from raftlog.runtime.rpc.failures import _FIELDS
from raftlog.runtime.rpc.frames.bulk_codec import NAMES
from raftlog.runtime.rpc.frames.codec import MESSAGE_TYPES
from raftlog.runtime.rpc.frames.frame import FrameKind
from tests.golden.frames import list_samples, read_golden_bytes
from tests.golden.operations import OPERATIONS
from tests.golden.wire import Sample
from tests.small_journal import SMALL_JOURNAL

SAMPLES = list(list_samples())
GOLDEN = read_golden_bytes()
HOW = "After a wanted change: `python -m tests.golden.frames --rewrite`, and review the difference"


def test_the_file_has_all_samples_and_no_others() -> None:
    assert [each.name for each in SAMPLES] == list(GOLDEN), HOW


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_the_encoded_bytes_equal_those_of_the_file(sample: Sample) -> None:
    stored = GOLDEN[sample.name]
    assert sample.encode(sample.value).hex() == stored.hex(), f"{sample.name} has other bytes. {HOW}"
    again = sample.encode(sample.decode(stored))
    assert again.hex() == stored.hex(), f"{sample.name} is not read as it was written"


def missing_samples(names: Any) -> list[str]:
    return sorted(name for name in names if name not in GOLDEN)


async def test_every_request_has_a_sample(tmp_path: Path) -> None:
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), driver=SMALL_JOURNAL))
    served = {*broker.node._requests._handlers, *NAMES}
    await broker.close()
    coordinated = {operation.name for operation in OPERATIONS}
    assert coordinated <= served
    assert missing_samples(f"{kind} {name}" for name in coordinated for kind in ("request", "answer")) == []
    assert missing_samples(f"{kind} {name}" for name in served - coordinated for kind in ("CALL", "ANSWER")) == []


def test_every_command_row_record_and_message_has_a_sample() -> None:
    schema = [value for value in vars(rows).values() if isinstance(value, type) and value.__module__ == rows.__name__]
    assert missing_samples(f"row {row.__name__}" for row in schema if issubclass(row, SchemaRecord)) == []
    assert missing_samples(f"command {command.__name__}" for command in KINDS) == []
    keys = [key.__name__ for key in records.Key.__args__]
    assert (
        missing_samples(f"{key} of groups" for key in keys)
        == missing_samples(f"value of a {key}" for key in keys)
        == []
    )
    assert missing_samples(f"TURN {message.__name__}" for message in MESSAGE_TYPES) == []
    assert missing_samples(f"gossip {kind.__name__}" for kind in GOSSIP_KINDS) == []
    assert missing_samples(f"FAILURE {error.__name__}" for error in _FIELDS) == []
    alone = {FrameKind.HELLO, FrameKind.REFUSAL, FrameKind.PROOF, FrameKind.BEAT}
    assert missing_samples(kind.name for kind in alone) == []
    assert alone | {FrameKind.TURN, FrameKind.CALL, FrameKind.ANSWER, FrameKind.FAILURE} == {*FrameKind}
