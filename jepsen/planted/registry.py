"""All planted bugs, with what they break and what finds them."""

from typing import Final

from jepsen.planted import clustering, membership, replicating, storing, voting
from jepsen.planted.bug import PlantedBug

BUGS: Final[dict[str, PlantedBug]] = {
    bug.name: bug
    for bug in (
        PlantedBug(
            "skip-vote-sync",
            "votes and terms are told before they are durable, and forgotten when the power goes",
            voting.skip_vote_sync,
            ("voted-twice", "term-back", "election-safety"),
            found_within=1,
        ),
        PlantedBug(
            "vote-twice",
            "a second vote in the same term",
            voting.vote_twice,
            ("voted-twice", "election-safety"),
            found_within=1,
        ),
        PlantedBug(
            "no-pre-vote",
            "a member that comes back campaigns at once and unseats a healthy leader",
            voting.no_pre_vote,
            ("leader-unseated",),
            found_within=44,
        ),
        PlantedBug(
            "refuse-pre-vote-asleep",
            "sleeping replicas are loyal to a leader that is gone",
            voting.refuse_pre_vote_asleep,
            ("sleeping-group-without-leader", "no-progress"),
            found_within=8,
        ),
        PlantedBug(
            "count-leader-unsynced",
            "the leader counts itself before its sync, and loses what it committed",
            replicating.count_leader_unsynced,
            ("durable-lost", "leader-completeness", "commit-without-quorum"),
            found_within=58,
        ),
        PlantedBug(
            "count-follower-unsynced",
            "a follower's unsynced entries count, and are gone after a loss of power",
            replicating.count_follower_unsynced,
            ("durable-lost", "durable-cut", "leader-completeness"),
            found_within=1,
        ),
        PlantedBug(
            "commit-old-term",
            "entries of earlier terms are committed by counting, and overwritten by a later leader",
            replicating.commit_old_term,
            ("old-term-committed", "leader-completeness", "state-machine-safety", "committed-cut"),
            found_within=1,
        ),
        PlantedBug(
            "cut-matching",
            "a late, shorter append cuts entries that match and were acknowledged",
            replicating.cut_matching,
            ("durable-cut", "committed-cut", "leader-completeness"),
            found_within=1,
        ),
        PlantedBug(
            "accept-gap",
            "an append beyond the end of the log is taken",
            replicating.accept_gap,
            ("log-matching",),
            found_within=1,
        ),
        PlantedBug(
            "read-without-quorum",
            "a leader that was deposed serves old reads as current ones",
            replicating.read_without_quorum,
            ("stale-end",),
            found_within=2,
        ),
        PlantedBug(
            "two-changes-at-once",
            "a change of members begins before the last one is finished",
            membership.two_changes_at_once,
            ("membership",),
            found_within=2,
        ),
        PlantedBug(
            "leave-joint-early",
            "a joint configuration ends before it is committed",
            membership.leave_joint_early,
            ("membership",),
            found_within=2,
        ),
        PlantedBug(
            "replay-out-of-order",
            "after a restart an old term and vote are back",
            storing.replay_out_of_order,
            ("term-back", "voted-twice"),
            found_within=29,
        ),
        PlantedBug(
            "cut-corrupt",
            "an entry that was committed is cut because its bytes are damaged here",
            storing.cut_corrupt,
            ("durable-lost",),
            found_within=7,
        ),
        PlantedBug(
            "damaged-is-torn",
            "a damaged journal loses its newest operations, and the replica goes on as if it had not promised them",
            storing.damaged_is_torn,
            ("durable-lost", "term-back", "voted-twice"),
            found_within=12,
        ),
        PlantedBug(
            "overwrite-before-cut",
            "bytes that a cut frees are overwritten before the cut is durable",
            storing.overwrite_before_cut,
            ("unprovoked-damage", "durable-lost", "recovered-other-bytes"),
            found_within=15,
        ),
        PlantedBug(
            "forget-boundary-term",
            "after a trim nobody knows the term of the last entry that was deleted",
            storing.forget_boundary_term,
            ("boundary-term",),
            found_within=30,
        ),
        PlantedBug(
            "route-to-deposed-leader",
            "a request goes to a node that no longer leads, and is served there",
            clustering.route_to_deposed_leader,
            ("stale-end", "known-offset-out-of-range"),
            found_within=2,
            level="broker",
        ),
        PlantedBug(
            "bootstrap-group-again",
            "a group that exists is begun again from its creation, and forgets its log and its votes",
            clustering.bootstrap_group_again,
            ("replica-gone", "lost-write", "durable-lost", "term-back", "voted-twice"),
            found_within=1,
            level="broker",
        ),
        PlantedBug(
            "answer-before-commit",
            "after a change of leader records are acknowledged that are not committed",
            clustering.answer_before_commit,
            ("acknowledged-uncommitted", "lost-write", "inconsistent-offset"),
            found_within=1,
            level="broker",
        ),
        PlantedBug(
            "resurrect-deleted-topic",
            "records of a deleted topic show in another one of the same name",
            clustering.resurrect_deleted_topic,
            ("phantom", "inconsistent-offset", "acknowledged-uncommitted", "uncommitted-shown"),
            found_within=1,
            level="broker",
        ),
        PlantedBug(
            "found-without-all",
            "seeds that do not see each other each found a cluster from the same list",
            clustering.found_without_all,
            ("two-clusters",),
            found_within=1,
            level="founding",
        ),
    )
}
