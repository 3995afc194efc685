"""One side of a digest exchange; both sides run the same code, since each answer follows from its request.

`membership.digest` describes the messages. An answer is bounded by the size of a frame; remaining claims are sent in
the next exchange. Called by the machine with the messages of one frame."""

from collections.abc import Iterable, Sequence
from typing import Final

from raftlog.membership.digest import compare_entries, make_entry
from raftlog.membership.encoding import claim_bytes
from raftlog.membership.member import Claim, GossipMember
from raftlog.membership.messages import ClaimRequest, DigestBuckets, DigestEntries, DigestRoot, Message
from raftlog.membership.view import MembershipView
from raftlog.types import NodeId

CLAIMS_BYTES_MAX: Final = 200_000
"""Maximum size of the claims in one answer: less than a frame takes."""


def first_messages(view: MembershipView, now: float) -> list[Message]:
    """Return the first messages of an exchange: the claim about this member, and a hash of all members."""
    return [view.claim_about(view.roster.myself, now, with_about=True), DigestRoot(view.roster.digest.root)]


def answer(message: Message, view: MembershipView, now: float) -> list[Message]:
    """Return the answer to one message of an exchange; an empty one ends the exchange.

    The caller has processed the claims in the same frame before."""
    digest = view.roster.digest
    match message:
        case DigestRoot(root) if root != digest.root:
            return [DigestBuckets(digest.buckets)]
        case DigestBuckets(buckets):
            return _entries(view, digest.find_differences(buckets))
        case DigestEntries(buckets, entries):
            to_send, to_request = compare_entries(view.roster.members_in_buckets(buckets), entries)
            wanted: list[Message] = [ClaimRequest(tuple(to_request))] if to_request else []
            return [*_claims(view, to_send, now), *wanted]
        case ClaimRequest(node_ids):
            return _claims(view, node_ids, now)
    return []


def _entries(view: MembershipView, buckets: Sequence[int]) -> list[Message]:
    """Return the summaries of all members in these buckets, as one message; none without buckets."""
    if not buckets:
        return []  # the states became equal meanwhile
    members = view.roster.members_in_buckets(tuple(buckets))
    return [DigestEntries(tuple(buckets), tuple(map(make_entry, members)))]


def _claims(view: MembershipView, node_ids: Iterable[NodeId], now: float) -> list[Message]:
    """Return claims about these members, with their announcements, up to `CLAIMS_BYTES_MAX`."""
    members = (view.roster.get(node_id) for node_id in node_ids)
    return list(_cut_to_frame(view.claim_about(member, now, with_about=True) for member in _drop_unknown(members)))


def _drop_unknown(members: Iterable[GossipMember | None]) -> Iterable[GossipMember]:
    """Return the members without None."""
    return (member for member in members if member is not None)


def _cut_to_frame(claims: Iterable[Claim]) -> Iterable[Claim]:
    """Yield claims while they fit into one frame (`CLAIMS_BYTES_MAX`)."""
    room = CLAIMS_BYTES_MAX
    for claim in claims:
        room -= claim_bytes(claim)
        if room < 0:
            return
        yield claim
