"""docs/MEMBERSHIP.md against the code: states, messages, the example, the seal, settings."""

import re
from dataclasses import fields
from uuid import UUID

from raftlog.membership import messages
from raftlog.membership.authentication import HEADER_BYTES, TAG_BYTES, Seal, SenderIdentity
from raftlog.membership.config import SwimConfig
from raftlog.membership.encoding import KINDS, encode, fingerprint
from raftlog.membership.keys import GossipKeys
from raftlog.membership.member import Claim, MemberState
from raftlog.membership.messages import Ping
from raftlog.membership.states import TRANSITIONS, Effect, Verdict
from raftlog.types import NodeId
from tests.layouts import DOCS, Field, Layout, items_after, table_after

DOCUMENT = (DOCS / "MEMBERSHIP.md").read_text(encoding="utf-8")
CLUSTER_ID = "6f1c2b3a-0d4e-4f50-8a61-7b2c3d4e5f60"
DISK = bytes.fromhex("00112233445566778899aabbccddeeff")


def verdict_text(verdict: Verdict) -> str:
    return verdict.value if isinstance(verdict, Effect) else verdict.name.lower()


def test_the_table_of_states_matches_the_code() -> None:
    expected = [
        [
            "unknown" if known is None else known.name.lower(),
            order.value,
            *(verdict_text(cells[state]) for state in MemberState),
        ]
        for known, orders in TRANSITIONS.items()
        for order, cells in orders.items()
    ]
    assert table_after("states", DOCUMENT) == expected


def test_the_table_of_messages_has_every_kind_with_its_fields() -> None:
    told = {int(cells[0]): (cells[1], cells[2].split(", ")) for cells in table_after("messages", DOCUMENT)}
    expected = {
        number: (kind.__name__, [name for name in kind._fields if name != "about"]) for kind, number in KINDS.items()
    }
    assert told == expected
    assert {kind.__name__ for kind in KINDS} >= {name for name in ("Ping", "Ack", "Nack") if hasattr(messages, name)}


def test_the_example_matches_the_encoder() -> None:
    block = DOCUMENT.split("<!-- example -->\n```\n")[1].split("\n```")[0]
    told = bytes.fromhex("".join(re.match(r" *((?:[0-9a-f]{2})+)", line)[1] for line in block.splitlines()))
    ping = Ping(7, NodeId(2), DISK)
    claim = Claim(NodeId(3), DISK, (1 << 32) + 1, MemberState.SUSPECT, NodeId(1), 0, None)
    assert told == encode(fingerprint(CLUSTER_ID), [ping, claim])


def test_the_seal_matches_the_table() -> None:
    heads = [head.split(" ", 2) for head, _ in items_after("seal", DOCUMENT)]
    layout = Layout([Field(int(at), kind, name) for at, kind, name in heads])
    assert layout.size == HEADER_BYTES
    keys = GossipKeys((b"k" * 32,))
    sealed = Seal(SenderIdentity(UUID(CLUSTER_ID), NodeId(7), UUID(bytes=DISK), 5), keys).seal(b"messages")
    told = layout.decode(sealed)
    assert (told["magic"], told["version"], told["cluster id"]) == (b"RLG", 1, UUID(CLUSTER_ID))
    assert (told["node id of the sender"], told["first bytes of its disk uuid"]) == (7, DISK[:8])
    assert [value for name, value in told.items() if name.startswith(("boot epoch", "number"))] == [5, 1]
    assert sealed[HEADER_BYTES:-TAG_BYTES] == b"messages"


def test_the_seal_fits_into_the_reserved_bytes() -> None:
    assert SwimConfig().envelope_bytes == HEADER_BYTES + TAG_BYTES


def test_the_table_of_settings_has_all_defaults() -> None:
    told = {name.strip("`"): float(default) for name, default in items_after("settings", DOCUMENT)}
    assert told == {field.name: field.default for field in fields(SwimConfig)}


def test_the_times_follow_from_the_settings() -> None:
    config = SwimConfig()
    times = f"after {config.suspicion_min_s(3):.1f} s with 3 members, after {config.suspicion_min_s(100)} s with 100"
    assert times in DOCUMENT
    assert f"{config.retransmits_max(100)} times by each" in DOCUMENT
