"""`raftlog cluster members` against a scripted broker."""

import json
from typing import Any

import msgspec
import pytest

from raftlog.cli import operator_verbs
from raftlog.cli.cluster import members as cluster_members
from raftlog.values.brokers import ClusterMembers
from tests.cli.scripted_broker import ScriptedBroker

MEMBER = {
    "node_id": 1,
    "state": "alive",
    "state_s": 12.3,
    "is_registered": True,
    "disk_uuid": "d15c",
    "incarnation": 4294967296,
    "http_address": "127.0.0.1:8082",
    "rpc_address": "127.0.0.1:8084",
    "gossip_address": "127.0.0.1:8085",
    "host": "h1",
    "rack": None,
    "version": "0.2.0",
    "load": {"replicas": 1200, "leaders": 4, "disk_free": 3 << 30, "disk_total": 4 << 30, "bytes_in_per_s": 0},
}
STRANGER = MEMBER | {
    "node_id": 9,
    "state": "unknown",
    "state_s": None,
    "is_registered": False,
    "version": None,
    "load": None,
}
TOLD = {"node_id": 1, "gossip_address": "127.0.0.1:8085", "members": [MEMBER, STRANGER]}


def test_members_are_printed_as_a_table(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/cluster/members"] = 200, TOLD
    lines = ask("cluster", "members").out.splitlines()
    assert lines[0] == "members according to node 1, gossip 127.0.0.1:8085"
    first, second = (" ".join(line.split()) for line in lines[3:5])
    assert first.startswith("1 alive 12 s 127.0.0.1:8082 127.0.0.1:8085 h1 - 0.2.0 1,200 4 3.2 GB of 4.3 GB")
    assert second.startswith("9 (not registered) unknown - ")


def test_members_are_printed_as_json(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/cluster/members"] = 200, TOLD
    assert json.loads(ask("cluster", "members", "--json").out) == TOLD


def test_disabled_gossip_is_reported(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/cluster/members"] = 200, TOLD | {"gossip_address": None}
    assert ask("cluster", "members").out.startswith("members according to node 1, gossip off\n")


def make_member(scripted: dict[str, Any]) -> ClusterMembers:
    return msgspec.convert(scripted, ClusterMembers)


async def test_watching_prints_changes_of_state_but_not_of_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_verbs, "POLL_SECONDS", 0)
    later = TOLD | {"members": [MEMBER | {"state_s": 99.0}, STRANGER]}
    died = TOLD | {"members": [MEMBER | {"state": "dead"}, STRANGER]}

    class Admin:
        answers = iter([make_member(each) for each in (TOLD, later, later, died)])

        async def members(self) -> ClusterMembers:
            return next(self.answers)

    shown: list[ClusterMembers] = []
    await operator_verbs.watch(
        Admin().members, shown.append, make_member(died).__eq__, steady=cluster_members._remove_loads
    )
    assert shown == [make_member(TOLD), make_member(died)]
