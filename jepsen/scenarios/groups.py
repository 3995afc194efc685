"""Consumer groups: F47 to F49."""

from random import Random
from typing import Any, Final

from jepsen.runner.stage import Stage
from jepsen.scenarios.scenario import Scenario
from jepsen.workloads.roles.group_member import GROUPS, SESSION_TIMEOUT_MS

_TIMEOUT_MS: Final = 1_000
_FENCED: Final = (404, 409)
"""Statuses for a group member that was removed, or that belongs to an older generation."""


def find_coordinator(stage: Stage, group: str) -> int:
    """Return the coordinator of a consumer group, from the first node that answers; without one the first node."""
    for node in stage.nodes:
        status, answer = stage.ask(node, f"/v3/clusters/-/consumer-groups/{group}")
        if status == 200 and "coordinator" in answer:
            name = str(answer["coordinator"]["related"]).rpartition("/")[2]
            if name.isdigit():
                return int(name)
    return stage.nodes[0]


def kill_coordinators(stage: Stage) -> None:
    """Kill the coordinators of the consumer groups, one after the other."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    stage.wait(2)
    for number in range(4):
        with stage.fault("kill", find_coordinator(stage, GROUPS[number % len(GROUPS)])):
            stage.wait(random.uniform(0.5, 1.5))
        stage.wait_served()
        stage.wait(1)


class SilentGroup:
    """Consumer group with one member, which only commits and sends no heartbeats."""

    def __init__(self, stage: Stage, group: str) -> None:
        self._stage, self._group = stage, group
        self._identity: dict[str, Any] = {}

    def join(self) -> bool:
        """Join the group and sync as its leader; return whether both succeeded."""
        protocols = [{"name": "its own", "metadata": ""}]
        asked = {"protocols": protocols, "session_timeout_ms": SESSION_TIMEOUT_MS}
        status, answer = self._ask("join", asked)
        if status == 200:
            self._identity = {name: answer[name] for name in ("member_id", "generation")}
            status, _ = self._ask("sync", {**self._identity, "assignments": []})
        return status == 200

    def commit(self, offset: int) -> int:
        """Commit an offset and return the status of the answer."""
        row = {"topic": self._stage.places[0].topic, "partition": self._stage.places[0].partition, "offset": offset}
        return self._ask("offsets", {**self._identity, "offsets": [row]})[0]

    def committed(self) -> list[int] | None:
        """Return the committed offset of each partition; None if no broker answered."""
        status, answer = self._stage.ask(self._stage.nodes[0], f"/groups/{self._group}/offsets")
        return [int(row["offset"]) for row in answer["offsets"]] if status == 200 else None

    def _ask(self, description: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Send a request of a group member to the first node; return status and answer."""
        path = f"/groups/{self._group}/{description}?timeout={_TIMEOUT_MS}"
        return self._stage.ask(self._stage.nodes[0], path, "POST", body, timeout_s=2 * _TIMEOUT_MS / 1000)


def pause_members_past_session(stage: Stage) -> None:
    """Commit in an old generation from members that were silent for longer than their session timeout.

    The members or the brokers are paused."""
    stage.wait(2)
    for number, group in enumerate(GROUPS):
        silent_group = SilentGroup(stage, f"sleeper-{number}")
        stage.wait_until(silent_group.join, "a member has joined")
        status = silent_group.commit(1)
        stage.expect(status == 200, f"it commits: {status}")
        with stage.fault("pause", find_coordinator(stage, group)):
            stage.wait(1.5 * SESSION_TIMEOUT_MS / 1000)
        stage.wait(2)
        stage.wait_until(lambda: silent_group.commit(2) in _FENCED, "after its session it is refused")  # noqa: B023
        stage.wait_until(lambda: silent_group.committed() == [1], "its group has committed what it did in time")  # noqa: B023


def lose_answers_to_commits(stage: Stage) -> None:
    """Drop all answers to clients for 0.5 s, five times."""
    stage.wait(2)
    for _ in range(5):
        with stage.client_cut(stage.nodes, answers_only=True):
            stage.wait(0.5)
        stage.wait(1.5)


SCENARIOS: Final = (
    Scenario(
        "F47", "the coordinator dies amid joins and commits", kill_coordinators, ("kill",), "groups", seconds=20.0
    ),
    Scenario(
        "F48",
        "members commit after a silence longer than their session",
        pause_members_past_session,
        ("pause",),
        "groups",
    ),
    Scenario("F49", "answers to commits are lost", lose_answers_to_commits, ("cut",), "groups", client_cuts=True),
)
