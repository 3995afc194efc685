"""Raft messages drawn by hypothesis: every type, fields over their whole range, batches with any content."""

import uuid

from hypothesis import strategies as st

from raftlog.raft import Configuration, Entry, EntryId, EntryKind, ReplicaId
from raftlog.raft.entry import TERM_MAX
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    InstallResponse,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
    Wake,
    WakeResponse,
)
from raftlog.records import HEADER_SIZE, NewRecord, build_batch
from raftlog.records.header import CONTROL_BIT
from raftlog.runtime.log.control_entries import build_configuration_batch, build_no_op_batch, entry_of
from raftlog.runtime.transport import Envelope
from raftlog.types import Index, NodeId, Term

ME = ReplicaId(NodeId(1), uuid.UUID(int=1))
"""The sender of all messages: one connection carries those of one node and disk."""
RECEIVERS = tuple(ReplicaId(NodeId(number), uuid.UUID(int=20 + number)) for number in (2, 2**31 - 1))
ATTRIBUTES_LOW = 22

terms = st.one_of(st.integers(0, 5), st.integers(0, TERM_MAX)).map(Term)
numbers = st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 1))
indices = numbers.map(Index)
identities = st.builds(EntryId, indices, terms)
senders, receivers = st.just(ME), st.sampled_from(RECEIVERS)
flags = st.booleans()
maybe_identities = st.none() | identities


def _opaque(body: bytes) -> bytes:
    """Return bytes of the right length that are marked as no control batch."""
    batch = bytearray(body)
    batch[ATTRIBUTES_LOW] &= ~CONTROL_BIT
    return bytes(batch)


CONFIGURATION = Configuration(Index(0), (ME,), (RECEIVERS[0],), (RECEIVERS[1],))
CONTROL_BATCHES = (
    bytes(build_no_op_batch(1_000)),
    bytes(build_configuration_batch(CONFIGURATION, Index(3), 1_000)),
)
batches = st.one_of(
    st.binary(min_size=HEADER_SIZE, max_size=3 * HEADER_SIZE).map(_opaque),
    st.sampled_from(CONTROL_BATCHES),
    st.integers(1, 40_000).map(lambda size: bytes(build_batch([NewRecord(bytes(size), None, 1)]))),
)


@st.composite
def appends(draw: st.DrawFn) -> AppendRequest:
    previous = EntryId(Index(draw(st.integers(0, 2**62))), draw(terms))
    own = draw(st.lists(batches, max_size=4))
    rising = sorted(draw(st.lists(terms, min_size=len(own), max_size=len(own))))
    following = enumerate(zip(rising, own, strict=True), previous.index + 1)
    entries = tuple(entry_of(Index(index), term, batch) for index, (term, batch) in following)
    return AppendRequest(
        draw(senders), draw(receivers), draw(terms), draw(numbers), previous, entries, draw(indices), draw(flags)
    )


BY_TYPE = {
    AppendRequest: appends(),
    AppendResponse: st.builds(
        AppendResponse, senders, receivers, terms, numbers, flags, indices, indices, indices, maybe_identities
    ),
    Heartbeat: st.builds(Heartbeat, senders, receivers, terms, numbers, indices, maybe_identities, flags),
    HeartbeatResponse: st.builds(HeartbeatResponse, senders, receivers, terms, numbers, indices, indices, flags, flags),
    PreVoteRequest: st.builds(PreVoteRequest, senders, receivers, terms, numbers, terms, identities),
    PreVoteResponse: st.builds(PreVoteResponse, senders, receivers, terms, numbers, terms, flags),
    VoteRequest: st.builds(VoteRequest, senders, receivers, terms, numbers, identities, flags),
    VoteResponse: st.builds(VoteResponse, senders, receivers, terms, numbers, flags),
    TimeoutNow: st.builds(TimeoutNow, senders, receivers, terms),
    ReadIndexRequest: st.builds(ReadIndexRequest, senders, receivers, terms, numbers),
    ReadIndexResponse: st.builds(ReadIndexResponse, senders, receivers, terms, numbers, st.none() | indices),
    InstallOffer: st.builds(InstallOffer, senders, receivers, terms, numbers, identities, indices),
    InstallResponse: st.builds(InstallResponse, senders, receivers, terms, numbers, identities, flags, indices),
    Wake: st.builds(Wake, senders, receivers, terms),
    WakeResponse: st.builds(WakeResponse, senders, receivers, terms),
}
groups = st.binary(min_size=16, max_size=16)
turns = st.lists(st.builds(Envelope, groups, st.one_of(*BY_TYPE.values())), min_size=1, max_size=12)


def turns_of(message_type: type) -> st.SearchStrategy[list[Envelope]]:
    return st.lists(st.builds(Envelope, groups, BY_TYPE[message_type]), min_size=1, max_size=6)


def heartbeat(number: int) -> Envelope:
    """Return the heartbeat of a numbered Raft group."""
    return Envelope(
        number.to_bytes(16, "big"), Heartbeat(ME, RECEIVERS[0], Term(5), number, Index(number), None, False)
    )


def append(number: int, *sizes: int) -> Envelope:
    """Return an envelope with entries whose records have these sizes."""
    entries = []
    for at, size in enumerate(sizes):
        batch = bytes(build_batch([NewRecord(bytes(size), None, 1)]))
        entries.append(Entry(Index(number + 1 + at), Term(5), EntryKind.DATA, len(batch), batch))
    message = AppendRequest(
        ME, RECEIVERS[0], Term(5), number, EntryId(Index(number), Term(5)), tuple(entries), Index(number)
    )
    return Envelope(number.to_bytes(16, "big"), message)
