"""Node of a Maelstrom test, from input lines to output lines.

    node = Node(settings, write, fail)      `write(line)` sends a line to the network
    node.receive(line)                      never raises: unreadable lines are answered, or counted and logged
    await node.settle(seconds)              pending requests get this long to be answered
    await node.close()

The Raft groups start with the first request that needs them, at every node: `echo` and `broadcast` use no Raft.
Pending requests are bounded, and each is answered within the timeout. Called by the composition root."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from raftlog.api.maelstrom.counters import MessageCounters
from raftlog.api.maelstrom.errors import Code, MaelstromError, Malformed, code_of
from raftlog.api.maelstrom.groups import MaelstromCluster, MaelstromGroups
from raftlog.api.maelstrom.keys import Keys
from raftlog.api.maelstrom.messages import Message, encode_line, field, parse
from raftlog.api.maelstrom.settings import MaelstromSettings
from raftlog.api.maelstrom.wire import TYPE as RAFT
from raftlog.api.maelstrom.workloads import g_set, kafka, lin_kv
from raftlog.api.maelstrom.workloads.broadcast import TYPE as GOSSIP
from raftlog.api.maelstrom.workloads.broadcast import BroadcastGossip
from raftlog.errors import LogClosed, OutcomeUnknown, Overloaded, RaftlogError, Unavailable
from raftlog.partitions.deadline import Deadline, deadline_in

REQUESTS_MAX: Final = 10_000
"""Maximum number of pending requests; further ones are refused."""
REFUSALS_LOGGED_MAX: Final = 100
REPEATS_MAX: Final = 4
"""Maximum number of times that a repeatable command is sent to leaders that do not answer, within its timeout."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_logger = logging.getLogger(__name__)
Body = dict[str, Any]


class _Request(NamedTuple):
    """Handler of one request type, and its workload."""

    workload: str
    serve: Callable[[Keys, Body, Deadline], Awaitable[Body]]


_REQUESTS: Final[Mapping[str, _Request]] = {
    "add": _Request("g-set", g_set.add),
    "write": _Request("lin-kv", lin_kv.write),
    "cas": _Request("lin-kv", lin_kv.cas),
    "send": _Request("kafka", kafka.send),
    "poll": _Request("kafka", kafka.poll),
    "commit_offsets": _Request("kafka", kafka.commit_offsets),
    "list_committed_offsets": _Request("kafka", kafka.list_committed_offsets),
}
"""Requests that use the Raft groups. `read` is not listed: it has three workloads, chosen by its body and topology."""
_READ_KEY: Final = _Request("lin-kv", lin_kv.read)
_READ_SET: Final = _Request("g-set", g_set.read)


class MaelstromNode:
    """Node of a Maelstrom test, created on a running loop."""

    def __init__(
        self, settings: MaelstromSettings, write: Callable[[bytes], None], fail: Callable[[RaftlogError], None]
    ) -> None:
        """Create a node that waits for `init`. `write` sends a line to Maelstrom, and `fail` ends the process."""
        self._settings, self._write, self._fail = settings, write, fail
        self._loop = asyncio.get_running_loop()
        self.counts = MessageCounters()
        self._cluster: MaelstromCluster | None = None
        self._groups: MaelstromGroups | None = None
        self._keys: Keys | None = None
        self._gossip: BroadcastGossip | None = None
        self._is_broadcasting = False
        """Whether a `read` without a key returns broadcast values; otherwise it returns the set of `g-set`."""
        self._is_closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """Name of this node; empty before `init`."""
        return "" if self._cluster is None else self._cluster.me

    # in

    def receive(self, line: bytes) -> None:
        """Process one input line, with or without its line break."""
        if not line.strip() or self._is_closed:
            return
        try:
            message = parse(line)
        except Malformed as error:
            self.refuse(f"a line of {len(line)} bytes: {error}")
            return
        try:
            self._process(message)
        except RaftlogError as error:
            self._answer_error(message, error)

    def refuse(self, why: str) -> None:
        """Count and log input that cannot be answered."""
        self.counts.refused += 1
        if self.counts.refused <= REFUSALS_LOGGED_MAX:
            _logger.warning("refused: %s", why)

    def _process(self, message: Message) -> None:
        """Process a message: `init`, a message of another node, or a client's request. Raises `RaftlogError`."""
        cluster = self._cluster
        if message.type == "init":
            self._process_init(message)
        elif cluster is None:
            raise Unavailable("this node has not been initialized")
        elif message.dest != cluster.me:
            raise MaelstromError(Code.NODE_NOT_FOUND, f"{message.dest} is not this node, which is {cluster.me}")
        elif message.type in (RAFT, GOSSIP):
            self._process_from_node(cluster, message)
        elif "in_reply_to" in message.body:
            self.refuse(f"an answer of {message.src}, which was asked nothing")
        else:
            self._process_request(message)

    def _process_init(self, message: Message) -> None:
        """Set the names of the nodes; repeating `init` with the same names is allowed. Raises `MaelstromError`."""
        me, names = field(message.body, "node_id", str), field(message.body, "node_ids", list)
        if me not in names or len(set(map(str, names))) < len(names):
            raise Malformed("node_ids names every node once, and node_id is one of them")
        if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
            raise Malformed("names of nodes are up to 64 letters, digits, underscores, dots and hyphens")
        cluster = MaelstromCluster(me, tuple(names), self._settings.groups)
        if self._cluster not in (None, cluster):
            raise MaelstromError(Code.ABORT, f"this node is {self.name} already")
        if self._cluster is None:
            self._cluster = cluster
            self._gossip = BroadcastGossip(cluster.others().values(), self._post, self._settings.gossip_ms / 1000)
        self._answer(message, {})

    def _process_from_node(self, cluster: MaelstromCluster, message: Message) -> None:
        """Pass a message to the Raft groups or to the broadcast; refuse one that cannot be read."""
        if message.src == cluster.me or message.src not in cluster.names:
            raise MaelstromError(
                Code.MALFORMED_REQUEST, f"{message.type} is sent between nodes, and {message.src} is not a node"
            )
        try:
            if message.type == RAFT:
                self.keys()
                assert self._groups is not None, "keys without groups"
                self._groups.transport.receive(cluster.node_id(message.src), message.body)
            else:
                assert self._gossip is not None, "a cluster without gossip"
                self._is_broadcasting = True
                self._gossip.receive(message.src, message.body)
        except RaftlogError as error:
            self.refuse(f"{message.type} of {message.src}: {error}")

    def keys(self) -> Keys:
        """Return the access to the keys; start the Raft groups at the first call.

        Raises `RaftlogError` when they cannot start, and then the node ends."""
        if self._is_closed:
            raise LogClosed("this node is stopping")
        if self._keys is None:
            assert self._cluster is not None, "groups before `init`"
            try:
                self._groups = MaelstromGroups(self._settings, self._cluster, self._post, self._fail)
            except RaftlogError as error:
                self._fail(error)
                raise
            self._keys = Keys(self._groups, max(1, self._settings.timeout_ms // REPEATS_MAX))
            self._groups.begin(self._keys.serve)
        return self._keys

    # requests

    def _process_request(self, message: Message) -> None:
        """Answer a request at once if it needs no Raft group, otherwise begin it. Raises `RaftlogError`."""
        kind, body = message.type, message.body
        assert self._gossip is not None, "a cluster without gossip"
        if kind == "echo":
            self._count("echo")
            self._answer(message, {"echo": field(body, "echo", object)})
        elif kind == "topology":
            self._set_topology(field(body, "topology", dict))
            self._answer(message, {})
        elif kind == "broadcast":
            self._count("broadcast")
            self._is_broadcasting = True
            self._gossip.add(field(body, "message", object))
            self._answer(message, {})
        elif kind == "read" and "key" not in body and self._is_broadcasting:
            self._count("broadcast")
            self._answer(message, {"messages": self._gossip.values})
        else:
            self._begin_request(message)

    def _set_topology(self, topology: Body) -> None:
        """Set the neighbours for broadcasts from the topology in a request."""
        neighbours = topology.get(self.name, [])
        if not isinstance(neighbours, list):
            raise Malformed("a topology maps names to lists of names")
        self._is_broadcasting = True
        assert self._gossip is not None, "a cluster without gossip"
        self._gossip.set_neighbours(neighbours)

    def _begin_request(self, message: Message) -> None:
        """Start a task for a request that uses the Raft groups. Raises `Overloaded` and `MaelstromError`."""
        request = _REQUESTS.get(message.type)
        if message.type == "read":
            request = _READ_KEY if "key" in message.body else _READ_SET
        if request is None:
            raise MaelstromError(Code.NOT_SUPPORTED, f"this node does not support {message.type[:100]}")
        self._count(request.workload)
        if len(self._tasks) >= REQUESTS_MAX:
            raise Overloaded(f"{REQUESTS_MAX} requests are under way")
        deadline = deadline_in(self._settings.timeout_ms)
        task = self._loop.create_task(self._serve(message, request, self.keys(), deadline), name=message.type)
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_served, message))

    async def _serve(self, message: Message, request: _Request, keys: Keys, deadline: Deadline) -> None:
        """Answer a request with the fields of its result, or with an error."""
        try:
            fields = await request.serve(keys, message.body, deadline)
        except* RaftlogError as errors:
            self._answer_error(message, _first_of(errors))
        else:
            self._answer(message, fields)

    def _on_served(self, message: Message, task: asyncio.Task[None]) -> None:
        """Remove an ended task; answer an unexpected error as an unknown outcome."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._answer_error(message, OutcomeUnknown("it failed in a way that was not foreseen"))
            context = {"message": f"{task.get_name()} failed in a way that was not foreseen", "exception": error}
            self._loop.call_exception_handler(context)

    # out

    def _count(self, workload: str) -> None:
        """Count a request of a client."""
        self.counts.operations[workload] += 1

    def _answer(self, message: Message, fields: Body) -> None:
        """Send the successful answer to a message."""
        self._reply(message, {"type": f"{message.type}_ok", **fields})

    def _answer_error(self, message: Message, error: RaftlogError) -> None:
        """Send the error as answer to a message."""
        self._reply(message, {"type": "error", "code": int(code_of(error)), "text": str(error)})

    def _reply(self, message: Message, body: Body) -> None:
        """Send an answer to a message. A message without `msg_id` gets none; an error is counted and logged instead."""
        asked = message.body.get("msg_id")
        if type(asked) is not int:
            if body["type"] == "error":
                self.refuse(f"{message.type[:100]} of {message.src[:100]}: {body['text']}")
            return
        self._write(encode_line(self.name or message.dest, message.src, {**body, "in_reply_to": asked}))

    def _post(self, name: str, body: Body) -> None:
        """Count and write a message to another node."""
        self.counts.messages[body["type"]] += 1
        self._write(encode_line(self.name, name, body))

    # the end

    async def settle(self, seconds: float) -> None:
        """Wait at most `seconds` for pending requests."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def close(self) -> None:
        """Sync and close; pending requests are answered with an error, failed or unknown."""
        self._is_closed = True
        if self._gossip is not None:
            self._gossip.stop()
        if self._groups is not None:
            await self._groups.close()

    def report(self) -> Body:
        """Return the counts of operations and messages as a JSON object."""
        return self.counts.report(self.name)


def _first_of(errors: BaseExceptionGroup[RaftlogError]) -> RaftlogError:
    """Return the first error; reads of several groups can fail together, always without an effect."""
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, RaftlogError), first
    return first
