"""`raftlog trace --slow`: each trace has its parts on all brokers, also those that are fast there."""

import json
from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from raftlog.cli.entry import raftlog
from raftlog.cli.trace import verb
from raftlog.client import BrokerClient
from raftlog.values.traces import BrokerTrace, BrokerTraces, TraceSpan


def part(node: int, trace: int, duration_us: int) -> BrokerTrace:
    return BrokerTrace(f"{trace:032x}", node, [TraceSpan(f"{node}", "", "append", 1, duration_us)])


LEADER = [part(1, 1, 900), part(1, 2, 800), part(1, 3, 5)]
FOLLOWER = [part(2, 1, 10), part(2, 3, 700)]


@pytest.mark.parametrize("kept", [True, False])
def test_slow_traces_have_the_parts_that_brokers_do_not_list(monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    async def collect(_bootstrap: object, _addresses: object, trace_id: str | None, **_: object) -> list[BrokerTraces]:
        """Return what two brokers answer; each lists its two slowest parts, and the follower only one."""
        brokers: Sequence[list[BrokerTrace]] = (LEADER[:2], FOLLOWER[1:]) if trace_id is None else (LEADER, FOLLOWER)
        if not kept and trace_id is not None:
            brokers = ()
        return [BrokerTraces(True, [each for each in some if trace_id in (None, each.trace_id)]) for some in brokers]

    async def no_brokers(_client: BrokerClient) -> list[object]:
        return []

    monkeypatch.setattr(verb, "_collect", collect)
    monkeypatch.setattr(BrokerClient, "brokers", no_brokers)
    done = CliRunner().invoke(raftlog, ["trace", "--slow", "2", "--json"])
    assert done.exit_code == 0, done.output
    found = [[(each["node_id"], int(each["trace_id"], 16)) for each in parts] for parts in json.loads(done.stdout)]
    assert found == ([[(1, 1), (2, 1)], [(1, 2)]] if kept else [[(1, 1)], [(1, 2)]])
