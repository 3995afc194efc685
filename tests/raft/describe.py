"""Short texts for messages, entries and replicas, used in transcripts and failures."""

from collections.abc import Iterable

from raftlog.raft.configuration import Configuration, ReplicaId
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import Entry
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    InstallResponse,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexResponse,
    VoteRequest,
    VoteResponse,
)


def describe_members(members: Iterable[ReplicaId]) -> str:
    return ",".join(str(member.node_id) for member in members) or "-"


def describe_configuration(configuration: Configuration) -> str:
    text = f"[{describe_members(configuration.voters)}"
    if configuration.outgoing:
        text += f" & {describe_members(configuration.outgoing)}"
    if configuration.learners:
        text += f" | {describe_members(configuration.learners)}"
    return text + "]"


def describe_entry(entry: Entry) -> str:
    if entry.configuration is not None:
        return f"{entry.index}@{entry.term}{describe_configuration(entry.configuration)}"
    return f"{entry.index}@{entry.term}" + (f":{entry.payload}" if entry.payload is not None else "")


def describe_core(core: RaftCore) -> str:
    """Describe one replica in one line."""
    status = core.status()
    leader = status.leader.node_id if status.leader else "-"
    text = (
        f"{status.me.node_id} {status.role.value} term {status.term} leader {leader} last {status.last} "
        f"durable {status.durable_index} commit {status.committed_index} "
        f"{describe_configuration(status.configuration)}"
    )
    if status.is_quiesced:
        text += " quiesced"
    if status.is_quarantined:
        text += " quarantined"
    return text


def describe_message(message: Message) -> str:
    """Describe one message in one line, without numbers of requests."""
    head = f"{message.sender.node_id}→{message.to.node_id} {type(message).__name__} t{message.term}"
    return f"{head} {_details(message)}".rstrip()


def _details(message: Message) -> str:
    match message:
        case AppendRequest():
            entries = " ".join(map(describe_entry, message.entries))
            probe = " probe" if message.is_probe else ""
            return f"after {message.previous} [{entries}] commit {message.committed}{probe}"
        case AppendResponse():
            if message.is_accepted:
                return f"ok verified {message.verified} durable {message.durable}"
            return f"refused, hint {message.hint}"
        case Heartbeat():
            sleep = f", {'quiesce' if message.must_quiesce else 'could quiesce'} at {message.quiesce_at}"
            return f"commit {message.committed}" + (sleep if message.quiesce_at else "")
        case HeartbeatResponse():
            sleep = " quiesced" if message.is_quiesced else " could quiesce" if message.may_quiesce else ""
            return f"verified {message.verified} durable {message.durable}{sleep}"
        case PreVoteRequest():
            return f"for t{message.campaign_term}, last {message.last}"
        case PreVoteResponse():
            return f"for t{message.campaign_term}: {'yes' if message.is_granted else 'no'}"
        case VoteRequest():
            return f"last {message.last}" + (" transfer" if message.is_transfer else "")
        case VoteResponse():
            return "yes" if message.is_granted else "no"
        case ReadIndexResponse():
            return f"index {message.index}"
        case InstallOffer():
            return f"boundary {message.boundary}"
        case InstallResponse():
            return f"boundary {message.boundary}: {'reached' if message.is_reached else 'not yet'}"
        case _:
            return ""
