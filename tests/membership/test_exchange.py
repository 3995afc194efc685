"""Exchanges of digests: both sides end with the same state; equal sides send next to nothing."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from raftlog.membership.config import SwimConfig
from raftlog.membership.digest import Digest
from raftlog.membership.encoding import FRAME_BYTES_MAX, encode, fingerprint
from raftlog.membership.exchange import answer, first_messages
from raftlog.membership.member import Claim, GossipIdentity, MemberState
from raftlog.membership.messages import Message
from raftlog.membership.view import MembershipView
from raftlog.types import NodeId
from tests.membership.gossip import ALIVE, DEAD, address, claim, disk, make_about, member

CLAIMS = st.builds(
    claim,
    node=st.integers(10, 300),
    state=st.sampled_from(MemberState),
    incarnation=st.integers(1, 3),
    told=st.just(True),
)


def make_view(me: int, *claims: Claim) -> MembershipView:
    new = MembershipView(GossipIdentity(NodeId(me), disk(me), address(me), 1), b"", SwimConfig(), Random(me))
    for each in claims:
        new.handle_claim(each, 0.0)
    return new


def run_exchange(one: MembershipView, other: MembershipView) -> list[list[Message]]:
    """Run one exchange and return its frames."""
    frames = [first_messages(one, 0.0)]
    listener, sender_identity = other, one
    while frames[-1]:
        for message in frames[-1]:
            if isinstance(message, Claim):
                listener.handle_claim(message, 0.0, is_exchanged=True)
        frames.append([each for message in frames[-1] for each in answer(message, listener, 0.0)])
        listener, sender_identity = sender_identity, listener
    return frames[:-1]


@given(st.lists(CLAIMS, max_size=30), st.lists(CLAIMS, max_size=30))
def test_both_sides_have_the_same_state_after_an_exchange(here: list[Claim], there: list[Claim]) -> None:
    one, other = make_view(1, *here), make_view(2, *there)
    frames = run_exchange(one, other)
    assert len(frames) <= 5
    assert one.roster.digest.root == other.roster.digest.root
    for known in one.roster:
        same = other.roster.get(known.node_id)
        assert same is not None
        assert (same.incarnation, same.state, same.about) == (known.incarnation, known.state, known.about)


def test_members_with_the_same_state_exchange_next_to_nothing() -> None:
    claims = [claim(node, ALIVE, 1) for node in range(10, 500)]
    one, other = make_view(1, *claims), make_view(2, *claims)
    run_exchange(one, other)
    frames = run_exchange(one, other)
    assert len(frames) == 1
    assert len(encode(fingerprint(""), frames[0])) < 120


def test_one_difference_among_many_costs_one_bucket() -> None:
    claims = [claim(node, ALIVE, 1) for node in range(10, 500)]
    one, other = make_view(1, *claims), make_view(2, *claims)
    run_exchange(one, other)
    one.handle_claim(claim(77, DEAD, 1), 0.0)
    frames = run_exchange(one, other)
    assert other.roster.get(NodeId(77)).state is DEAD
    assert sum(len(encode(fingerprint(""), frame)) for frame in frames) < 1_600


def test_descriptions_are_exchanged_apart_from_states() -> None:
    late = claim(10, DEAD, 5)._replace(about=make_about(3, 10, b"older words"))
    newer = claim(10, DEAD, 5)._replace(about=make_about(4, 10, b"newer words"))
    one, other = make_view(1, late), make_view(2, newer)
    run_exchange(one, other)
    assert one.roster.get(NodeId(10)).description == b"newer words"


def test_a_frame_is_bounded_and_later_exchanges_send_the_rest() -> None:
    words = bytes(400)
    claims = [claim(node, ALIVE, 1)._replace(about=make_about(1, node, words)) for node in range(10, 1000)]
    one, other = make_view(1), make_view(2, *claims)
    counts = []
    for _ in range(4):
        frames = run_exchange(one, other)
        assert all(len(encode(fingerprint(""), frame)) < FRAME_BYTES_MAX for frame in frames)
        counts.append(len(one.roster))
    assert counts[0] < counts[1] < counts[2] == counts[3] == 992


def test_a_digest_covers_the_current_members() -> None:
    digest, fresh = Digest(), Digest()
    before, after = member(70, ALIVE, 1), member(70, DEAD, 2)
    digest.replace(None, before)
    digest.replace(before, after)
    fresh.replace(None, after)
    assert (digest.root, digest.buckets) == (fresh.root, fresh.buckets)
    assert digest.find_differences(fresh.buckets) == ()
    digest.replace(after, None)
    assert digest.root == 0
    assert digest.find_differences(fresh.buckets) == (6,)
