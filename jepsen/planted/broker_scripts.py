"""Scripts for brokers with planted bugs: idle partitions, retries, gossip, and the founding of a cluster.

Correct brokers give the expected answers."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import orjson

from jepsen import damage
from jepsen.nemeses.network_faults import SHAPES
from jepsen.runner.stage import Stage
from jepsen.scenarios.broker_requests import (
    OwnTopic,
    partition_path,
    read_bounds,
    read_metrics,
    read_records_through,
    wait_for_end,
)
from jepsen.scenarios.network import SUSPICION_S
from raftlog.testing import BrokerFailed, Cluster, ClusterNode
from raftlog.testing.http import ask
from raftlog.types import TopicPartition

HEALED_S_MAX: Final = 20.0
WRITTEN_S_MAX: Final = 10.0
QUIESCED_S: Final = 4.0
LOOK_S: Final = 0.2
LONE: Final = "lone"
LARGE_BATCHES, LARGE_RECORDS, LARGE_BYTES = 10, 4, 30_000
FLIPS: Final = 100
COMPACTED: Final = {"segment.bytes": "16384", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
COMPACTED_S_MAX: Final = 20.0
KEYS, KEYS_AT_ONCE, VALUE_BYTES = 200, 20, 300
SUSPECTED_S: Final = 2.2
NEWS_S_MAX: Final = 15.0
APART_S: Final = 4.0
FOUNDED_S_MAX: Final = 15.0
_OVERVIEW: Final = "/v1/cluster/health_overview"


def kill_quiesced_leader(stage: Stage) -> None:
    """Check that a quiesced partition elects a new leader when its leader is killed."""
    own = OwnTopic(stage, {})
    stage.wait_until(lambda: own.write(stage.nodes[0])[0] == 200, "a record is taken", WRITTEN_S_MAX)
    leader = stage.leader(own.place)
    other = stage.others(leader)[0]
    stage.wait(QUIESCED_S)
    with stage.fault("kill", leader):
        stage.wait_until(
            lambda: own.write(other)[0] == 200, "a record is accepted after the leader was killed", WRITTEN_S_MAX
        )
    stage.wait_served()


class _Numbered:
    """Idempotent producer that sends one record per request, to the first partition of the script's own topic."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self.own = stage, OwnTopic(stage, {})
        self.producer: dict[str, Any] = {}

        def has_id() -> bool:
            """Request a producer id from the first node; return whether it was granted."""
            status, answer = stage.ask(stage.nodes[0], "/producers", "POST", {})
            self.producer = answer if status == 200 else {}
            return status == 200

        stage.wait_until(has_id, "a producer has an id", WRITTEN_S_MAX)

    def send(self, node: int, sequence: int, value: str, timeout_ms: int = 1500) -> tuple[int, Any]:
        """Send one record with a sequence; return status and answer. The same arguments send the same record again."""
        body = {**self.producer, "sequence": sequence, "records": [{"value": value}]}
        return self._stage.ask(node, f"{partition_path(self.own.place)}?timeout={timeout_ms}", "POST", body)


def retry_late(stage: Stage) -> None:
    """Retry a record after its trim and a change of leader; the answer must be that of the first request."""
    numbered = _Numbered(stage)
    own = numbered.own
    node = stage.nodes[0]
    stage.wait_until(lambda: numbered.send(node, 0, "once")[0] == 200, "a record is taken", WRITTEN_S_MAX)
    first = int(numbered.send(node, 0, "once")[1]["offsets"][0]["offset"])
    stage.wait_until(lambda: own.write(node)[0] == 200, "another one is taken", WRITTEN_S_MAX)
    stage.wait_until(lambda: own.trim(node, first + 1)[0] == 200, "the first one is trimmed", WRITTEN_S_MAX)
    with stage.fault("kill", stage.leader(own.place)):
        stage.leader(own.place)
        stage.wait(1.5)
        other = next(each for each in stage.nodes if stage.system.is_up(each))
        stage.wait_until(lambda: own.write(other)[0] == 200, "one more is taken", WRITTEN_S_MAX)
        status, answer = numbered.send(other, 0, "once")
        stage.expect(
            status == 200 and answer["offsets"][0].get("duplicate") is True and answer["offsets"][0]["offset"] == first,
            f"the retry of what is at {first} is answered as a duplicate: {status} {answer}",
        )
    stage.wait_served()


def retry_at_isolated_leader(stage: Stage) -> None:
    """Retry a record at an isolated leader, which cannot commit the original; acknowledged records must stay.

    The leader first accepts another record of the producer. Without that, the leader would query the controller for
    the unknown producer id, and an isolated leader cannot reach the controller."""
    numbered = _Numbered(stage)
    place, first = numbered.own.place, stage.nodes[0]
    stage.wait_until(lambda: numbered.own.write(first)[0] == 200, "a record is taken", WRITTEN_S_MAX)
    leader = stage.leader(place)
    stage.wait_until(lambda: numbered.send(leader, 0, "known")[0] == 200, "the producer is known", WRITTEN_S_MAX)
    other = stage.others(leader)[0]
    with stage.fault("cut", leader, shape="isolated", links=SHAPES["isolated"]([leader, *stage.others(leader)])):
        answers = [numbered.send(leader, 1, LONE, 100)[0] for _ in range(3)]
        stage.note(f"node {leader}, alone, answers {answers}")
        stage.leader(place, other_than=[leader])
        stage.wait_until(lambda: numbered.own.write(other)[0] == 200, "the others take another one", WRITTEN_S_MAX)
        stage.wait(1)
    stage.wait_healthy(HEALED_S_MAX)
    status, records = stage.ask(other, f"{partition_path(place)}/records?offset=0&timeout=0")
    is_there = status == 200 and any(record["value"] == LONE for record in records)
    stage.expect(200 not in answers or is_there, "what was acknowledged is there")


def isolate_member_briefly(stage: Stage) -> None:
    """Check that a gossip member isolated for less than the suspicion timeout is not declared dead.

    The brokers are idle: announcements of a member's load would refute the suspicion as well."""
    with _other_brokers(stage) as cluster:
        cluster.start()
        quiet = max(cluster.nodes)
        others = [node for number, node in cluster.nodes.items() if number != quiet]
        stage.wait_until(lambda: _gossip_states(others, quiet) == {"alive"}, "the others know it", FOUNDED_S_MAX)
        for _ in range(2):
            cluster.set_cuts((), SHAPES["isolated"]([quiet, *(node.node_id for node in others)]))
            stage.wait(SUSPECTED_S)
            cluster.set_cuts((), ())
            seen: set[str] = set()
            until_s = stage.now_s() + SUSPICION_S
            while stage.now_s() < until_s and "dead" not in seen:
                seen |= _gossip_states(others, quiet)
                stage.wait(LOOK_S)
            stage.expect("suspect" in seen, f"the others suspect node {quiet}, which they did not hear: {seen}")
            stage.expect("dead" not in seen, f"no member declares node {quiet} dead, which is reachable again: {seen}")


def _gossip_states(brokers: Sequence[ClusterNode], member: int) -> set[str]:
    """Return the gossip states of a member as reported by these brokers."""
    return {
        str(row["state"])
        for node in brokers
        for row in _list_from(node, "/v1/cluster/members", "members")
        if row["node_id"] == member
    }


def _list_from(node: ClusterNode, path: str, name: str) -> list[Any]:
    """Return a list from a broker's answer; empty when the broker does not answer."""
    try:
        status, answer = ask(node.http, path, timeout_s=1.0)
    except BrokerFailed:
        return []
    return list(answer[name]) if status == 200 else []


@contextlib.contextmanager
def _other_brokers(stage: Stage) -> Iterator[Cluster]:
    """Yield a cluster of three more brokers of the same kind, not started yet."""
    command = stage.brokers.nodes[stage.nodes[0]].command
    program = command[1 : command.index("serve")]
    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.closing(Cluster(3, data_dir=directory, program=program)) as cluster,
    ):
        yield cluster


def compact_to_newest_values(stage: Stage) -> None:
    """Write many keys once each, and one key until the log is compacted; all newest values must stay."""
    own = OwnTopic(stage, COMPACTED)
    keys = [f"key-{number}" for number in range(KEYS)]
    value = "x" * VALUE_BYTES

    def write(some_keys: Sequence[str]) -> None:
        """Write a record with each of these keys, with retries until the write is acknowledged."""
        stage.wait_until(
            lambda: own.write_values(stage.nodes[0], [value] * len(some_keys), keys=some_keys)[0] == 200,
            "records are taken",
            WRITTEN_S_MAX,
        )

    for begin in range(0, KEYS, KEYS_AT_ONCE):
        write(keys[begin : begin + KEYS_AT_ONCE])
    end = wait_for_end(stage, stage.nodes[0], own.place)

    def is_compacted() -> bool:
        """Write the last key again; return whether all nodes have compacted the log beyond `end`."""
        write(keys[-1:] * KEYS_AT_ONCE)
        return all(_compacted_to(stage, node, own.place) > end for node in stage.nodes)

    stage.wait_until(is_compacted, f"everything below {end} is compacted on all nodes", COMPACTED_S_MAX)
    last = wait_for_end(stage, stage.nodes[0], own.place)
    found = {record["key"] for record in read_records_through(stage, stage.nodes[0], own.place, last)}
    missing = [key for key in keys if key not in found]
    stage.expect(not missing, f"every key has its newest value: {len(missing)} have none")


def _compacted_to(stage: Stage, node: int, place: TopicPartition) -> int:
    """Return the offset below which a node has compacted its replica, from its log."""
    answer = [
        orjson.loads(line)
        for line in stage.brokers.nodes[node].log_text().splitlines()
        if '"log_compacted"' in line and f'"{place}"' in line
    ]
    return max((int(event["compacted_to"]) for event in answer), default=0)


def check_broadcasts_end(stage: Stage) -> None:
    """Check that gossip broadcasts end after the maximum number of retransmissions."""
    with stage.fault("kill", stage.others(stage.leader())[0]):
        stage.wait(1)
    stage.wait_served()

    def are_sent() -> bool:
        """Return whether no node has pending gossip broadcasts; false if a node does not answer."""
        with contextlib.suppress(OSError):
            return all(
                read_metrics(stage.system.addresses[node])["raftlog_gossip_broadcasts"] == 0 for node in stage.nodes
            )
        return False

    stage.wait_until(are_sent, "no broker has broadcasts left", NEWS_S_MAX)


def start_seeds_one_by_one(stage: Stage) -> None:
    """Check that no cluster is founded before all three seeds have been up; one is down while the others start."""
    with _other_brokers(stage) as cluster:
        cluster.prepare()
        first, *others = cluster.nodes.values()
        for together in ([first], others):
            for node in together:
                node.launch()
            stage.wait_until(lambda: all(map(_answers, together)), "they answer", FOUNDED_S_MAX)  # noqa: B023
            stage.wait(APART_S)
            if together == [first]:
                first.kill()
        first.launch()
        stage.wait_until(
            lambda: all(
                sorted(_list_from(node, _OVERVIEW, "all_nodes")) == [1, 2, 3] for node in cluster.nodes.values()
            ),
            "all three are in one cluster",
            FOUNDED_S_MAX,
        )


def _answers(node: ClusterNode) -> bool:
    """Return whether the node's process serves HTTP, ready or not."""
    try:
        ask(node.http, "/v1/status/ready", timeout_s=1.0)
    except BrokerFailed:
        return False
    return True


def damage_old_records(stage: Stage) -> None:
    """Damage old records, which are no longer in the journal, on one of the two nodes that acknowledged them.

    The other of these nodes is paused meanwhile, so that the victim only reaches the node without the records."""
    own = OwnTopic(stage, {})
    stage.wait_until(lambda: own.write(stage.nodes[0])[0] == 200, "a record is taken", WRITTEN_S_MAX)
    leader = stage.leader(own.place)
    victim, away = stage.others(leader)
    stage.wait_healthy(HEALED_S_MAX)
    with stage.fault("kill", away):
        stage.wait(0.5)
        for _ in range(LARGE_BATCHES):
            stage.wait_until(
                lambda: own.write(leader, LARGE_RECORDS, LARGE_BYTES)[0] == 200,
                "large records are taken",
                WRITTEN_S_MAX,
            )
        end = wait_for_end(stage, leader, own.place)
        off = stage.begin("damage", victim, shape="flip", files=("segment",))
        random = Random(stage.options.seed + FLIPS)  # noqa: S311 - repeatable, not secret
        stage.note(damage.flip_bits(stage.system.data_dirs()[victim], random, FLIPS, only=("segment",)))
        silent = stage.begin("pause", leader)
    stage.end(off)
    stage.wait(SUSPICION_S)
    stage.end(silent)
    stage.wait_healthy(HEALED_S_MAX)
    if stage.findings:
        return
    hand_over = f"/v1/partitions/kafka/{own.place.topic}/{own.place.partition}/transfer_leadership?target={victim}"

    def leads() -> bool:
        """Return whether the victim leads the partition; otherwise request a leadership transfer to the victim."""
        if stage.system.leader(own.place) == victim:
            return True
        stage.ask(victim, hand_over, "POST")
        return False

    stage.wait_until(leads, f"node {victim} leads", HEALED_S_MAX)
    bounds = read_bounds(stage, victim, own.place)
    stage.expect(bounds is not None and bounds[1] >= end, f"what was acknowledged up to {end} is there: {bounds}")
    read_records_through(stage, victim, own.place, end)
