"""A broker whose controller's log has an unknown field: it exits, and names the required release."""

import asyncio
from pathlib import Path
from uuid import UUID

import msgpack  # type: ignore[import-untyped]  # it has no annotations
import pytest

from raftlog.errors import FormatError
from raftlog.partitions.controller.machine import CommandRequest, SetMaintenance, encode_request
from raftlog.records import NewRecord, build_batch
from raftlog.types import Index
from tests.controller.brokers import brokers


async def test_the_broker_applies_no_later_entry_and_refuses_to_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with brokers(tmp_path, [1]) as cluster:
        await cluster.start()
        broker = cluster.running[1]
        copy, group = broker.metadata._copy, broker.metadata._copy.group
        assert group is not None
        me = broker.node.identity
        command = SetMaintenance(me.node_id, me.disk_uuid, True, Index(1))
        envelope = msgpack.unpackb(encode_request(CommandRequest(UUID(int=7), copy.state.applied_index, command)))
        later = msgpack.packb([*envelope[:-1], [*envelope[-1], "a reason"]])
        group.propose([build_batch([NewRecord(later, None, 1_000)])])
        async with asyncio.timeout(20):
            failure = await broker.node.ended
        assert isinstance(failure, FormatError)
        assert "SetMaintenance has 4 fields in this release, and 5 here: run a newer release" in str(failure)
        assert "process_failed" in caplog.text
        assert copy.problem is not None
        assert copy.state.in_maintenance() == []
        await cluster.stop()
        with pytest.raises(FormatError, match="run a newer release"):
            await cluster.start()
