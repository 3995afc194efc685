"""Operator that repeatedly creates and deletes a topic through any node.

After a request without an answer it repeats the request in half of the cases. In the other half it continues as if the
request had succeeded, so two requests about one name may be executed concurrently."""

import asyncio
from random import Random
from typing import Final

import orjson

from jepsen.checkers.history import OK, TOPIC, Op, Topic
from jepsen.workloads.client.access import Access, parse_fields
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.incarnations import shorten_id
from raftlog.errors import RaftlogError

TIMEOUT_MS: Final = 3_000
LIVES_S: Final = ((0.1, 0.5), (0.5, 3.0))
"""Ranges from which the lifetime of a topic is drawn."""
ABSENT_S: Final = 0.5
AGAIN_S: Final = 0.05
PARTITIONS_MAX: Final = 2
COPIES_MAX: Final = 3
_JSON: Final = "application/json"
_TOPICS: Final = "/v3/clusters/-/topics"


class Operator:
    """Role that creates and deletes one topic, in one process of the history; nothing else changes this topic."""

    def __init__(self, access: Access, history: HistoryWriter, process: int, name: str, random: Random) -> None:
        self._access, self._history, self._process, self._random = access, history, process, random
        self._name = name

    async def run(self, until_s: float) -> None:
        """Create and delete the topic in turn until `until_s` (event-loop time); leave it if it exists then."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._random.uniform(*LIVES_S[0]))
        while loop.time() < until_s:
            if await self._repeat_request("create", until_s, "TopicExists"):
                await asyncio.sleep(self._random.uniform(*self._random.choice(LIVES_S)))
            if loop.time() < until_s and await self._repeat_request("delete", until_s, "UnknownTopic"):
                await asyncio.sleep(self._random.choice((0, self._random.uniform(0, ABSENT_S))))

    async def _repeat_request(self, action: str, until_s: float, final_error: str) -> bool:
        """Repeat the request until its outcome is known or it is abandoned; return whether it succeeded."""
        while asyncio.get_running_loop().time() < until_s:
            done = await (self._create() if action == "create" else self._delete())
            if done.type == OK:
                return True
            if done.error.startswith(final_error) or (done.type == "info" and self._random.random() < 0.5):
                return False
            await asyncio.sleep(AGAIN_S)
        return False

    async def _create(self) -> Op:
        """Create the topic with a random number of partitions; return the completion."""
        node = self._random.choice(self._access.nodes)
        invocation = self._history.invoke(self._process, TOPIC, Topic("create", self._name), node=node)
        body = {
            "topic_name": self._name,
            "partitions_count": self._random.randint(1, PARTITIONS_MAX),
            "replication_factor": min(COPIES_MAX, len(self._access.nodes)),
        }
        try:
            fields = parse_fields(await self._access.post(node, _TOPICS, orjson.dumps(body), _JSON, TIMEOUT_MS))
        except RaftlogError as error:
            return self._history.record_refusal(invocation, error)
        return self._history.ok(invocation, Topic("create", self._name, shorten_id(fields["topic_id"])))

    async def _delete(self) -> Op:
        """Delete the topic; return the completion."""
        node = self._random.choice(self._access.nodes)
        invocation = self._history.invoke(self._process, TOPIC, Topic("delete", self._name), node=node)
        try:
            await self._access.delete(node, f"{_TOPICS}/{self._name}", TIMEOUT_MS)
        except RaftlogError as error:
            return self._history.record_refusal(invocation, error)
        return self._history.ok(invocation)
