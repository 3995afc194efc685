"""The groups of one coordinator partition as a machine without I/O: Kafka's classic protocol.

Requests, the time and what became of stored records come in; answers and records to store come out of `take_effects`,
which the caller asks after *every* call, in the same turn of its loop: the order of the effects, and of the commits
that `check_commit` let pass between them, is the order of the log. `now` is a monotonic clock in seconds.

A generation is stored before anybody hears of it (Store when the join phase ends; joins are answered once it is
committed), and its assignments are stored before anybody hears of them. So a number is never given to two generations
of a group, and a later coordinator that loads the group goes on where the members are. Called by the coordinator only.
"""

from collections.abc import Callable, Sequence
from random import Random

from raftlog.errors import RaftlogError
from raftlog.partitions.groups.bounds import GroupSettings
from raftlog.partitions.groups.records import GroupRecord
from raftlog.partitions.groups.requests import Effect, GroupDescription, Heartbeat, Join, Leave, Sync, Ticket, Token


class Machine:
    """`partitions_of` a topic: how many, None when it does not exist. `wall_ms`: the wall clock, for records only."""

    def __init__(
        self,
        settings: GroupSettings,
        random: Random,
        partitions_of: Callable[[str], int | None],
        wall_ms: Callable[[], int],
    ) -> None:
        raise NotImplementedError

    # what the log says

    def load(self, group: str, record: GroupRecord, now: float) -> None:
        """Take over a group as it was stored last; its members have their session timeouts from now on."""
        raise NotImplementedError

    def stop(self, error: RaftlogError) -> None:
        """Everything that waits is answered `error` (take_effects once more); the machine is not used any more."""
        raise NotImplementedError

    def stored(self, group: str, ticket: Ticket, error: RaftlogError | None, now: float) -> None:
        """What became of a Store: None when it is committed. Whatever its error, its generation is never answered;
        the members are told to look for the coordinator again (`NotLeader`), or the error when it is a definite one."""
        raise NotImplementedError

    # what members ask; every answer is an effect, errors too

    def join(self, token: Token, join: Join, now: float) -> None:
        """Answered `Joined` when the join phase is over and stored, or at once where nothing has to change;
        `MemberIdGiven`; or InvalidArgument, UnknownMember, FencedInstance, InconsistentProtocol, GroupFull, NotLeader.
        """
        raise NotImplementedError

    def sync(self, token: Token, sync: Sync, now: float) -> None:
        """Answered `Synced` when the assignments are stored; or UnknownMember, FencedInstance, StaleGeneration,
        RebalanceInProgress, InconsistentProtocol, RecordTooLarge, NotLeader."""
        raise NotImplementedError

    def heartbeat(self, token: Token, heartbeat: Heartbeat, now: float) -> None:
        """Answered `Alive`; or UnknownMember, FencedInstance, StaleGeneration, RebalanceInProgress: join again."""
        raise NotImplementedError

    def leave(self, token: Token, leave: Leave, now: float) -> None:
        """Answered `Left` at once, with an error for each member that could not leave."""
        raise NotImplementedError

    def delete(self, token: Token, group: str, now: float) -> None:
        """Answered `Deleted` when that is stored; or UnknownGroup, GroupNotEmpty, NotLeader."""
        raise NotImplementedError

    def cancel(self, token: Token, now: float) -> None:
        """Nobody waits for this answer any more (deadline, connection lost); no effect names the token later.

        A member that asked with its id has joined nevertheless, and hears of it when it asks again; one that was not
        told its id yet is gone.
        """
        raise NotImplementedError

    def check_commit(self, group: str, member_id: str, generation: int, instance_id: str | None, now: float) -> None:
        """May this member commit now? Raises UnknownMember, FencedInstance, StaleGeneration, RebalanceInProgress (it
        has to sync first). `member_id` "" with generation −1 is a commit without a member, which only a group without
        members allows (UnknownMember). What passes counts as a heartbeat."""
        raise NotImplementedError

    # time, and the world

    def next_timer(self) -> float | None:
        """When `tick` wants to be called; None: never."""
        raise NotImplementedError

    def tick(self, now: float) -> None:
        """Do what is due."""
        raise NotImplementedError

    def topics_changed(self, now: float) -> None:
        """Topics or their partition counts changed: groups that the coordinator assigned rebalance where it matters."""
        raise NotImplementedError

    def take_effects(self) -> Sequence[Effect]:
        """What is to be done now, in this order."""
        raise NotImplementedError

    # for whoever looks

    def describe(self, group: str) -> GroupDescription | None:
        """None for a group that never had members, or whose record is gone."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Groups that are here, sorted."""
        raise NotImplementedError

    def has_members(self, group: str) -> bool:
        """Whether the group is not empty."""
        raise NotImplementedError
