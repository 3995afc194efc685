"""Library as a log: a list for each partition, and a dictionary of committed offsets of groups.

An append is one `extend` of a list, so it is all or nothing. It is acknowledged when the library's callback reports
success, and its offset is its position in the list then. The callback runs in the library's thread; the caller awaits
it on an event loop.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pysyncobj.syncobj
from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, SyncObjConsumer, replicated
from pysyncobj.batteries import ReplList
from pysyncobj.node import TCPNode
from pysyncobj.transport import TCPTransport

from jepsen.control import journal
from jepsen.control.repaired import CutOnConflictNode, DeferredCutJournal, SyncedJournal, SyncingTransport

NEVER: Final = 1 << 30
DEFINITE: Final = frozenset((FAIL_REASON.QUEUE_FULL, FAIL_REASON.MISSING_LEADER, FAIL_REASON.REQUEST_DENIED))
"""Reasons after which the command is definitely in no log; after others it may be in a log, or arrive there later."""
Marks = dict[tuple[str, int], int]


class Refused(Exception):
    """The library refused a command; `is_definite` when the command has no effect, now or later."""

    def __init__(self, why: int) -> None:
        """Create the error for `why`, a number of the library's `FAIL_REASON`."""
        names = {number: name for name, number in vars(FAIL_REASON).items() if isinstance(number, int)}
        super().__init__(f"the library says {names.get(why, why)}")
        self.is_definite = why in DEFINITE


class NodeClasses(NamedTuple):
    """Classes of which a pysyncobj node is composed."""

    sync_obj: type[SyncObj]
    transport: type[TCPTransport]
    journal: Callable[[str], Any] | None
    """Constructor of the journal; None for the library's own journal."""


BUILDS: Final[Mapping[str, NodeClasses]] = {
    "unmodified": NodeClasses(SyncObj, TCPTransport, None),
    "synced": NodeClasses(SyncObj, SyncingTransport, SyncedJournal),
    "cut-on-conflict": NodeClasses(CutOnConflictNode, TCPTransport, DeferredCutJournal),
}


class RelayedNode(TCPNode):  # type: ignore[misc]  # the library has no annotations
    """Another node, identified by its own address and called at the relay's port for this link."""

    def __init__(self, address: str, relay_port: int) -> None:
        super().__init__(address)
        self._relay_port = relay_port

    @property
    def port(self) -> int:
        return self._relay_port


class Commits(SyncObjConsumer):  # type: ignore[misc]  # the library has no annotations
    """Committed offsets of consumer groups, which only rise."""

    def __init__(self) -> None:
        super().__init__()
        self._marks: dict[str, Marks] = {}

    @replicated  # type: ignore[untyped-decorator]
    def commit(self, group: str, marks: Marks) -> None:
        """Raise the committed offsets of a group; `marks` are offsets by topic and partition.

        The library applies it on all nodes."""
        own = self._marks.setdefault(group, {})
        for place, offset in marks.items():
            own[place] = max(own.get(place, 0), offset)

    def committed_offsets(self, group: str) -> Marks:
        """Return a copy of the group's committed offsets, by topic and partition."""
        return dict(self._marks.get(group, {}))


class Peer:
    """One pysyncobj node. Created inside a running event loop, by the main thread; `close` it."""

    def __init__(self, own: str, others: Sequence[RelayedNode], directory: Path, lists: int, build: str) -> None:
        """Start a node of the library.

        `own` is its address, `directory` has its journal, `lists` is the number of replicated lists, and `build` names
        a variant of the library."""
        self._loop = asyncio.get_running_loop()
        self._lists = [ReplList() for _ in range(lists)]
        self._commits = Commits()
        self._own = own
        built = BUILDS[build]
        if built.journal is not None:
            pysyncobj.syncobj.createJournal = built.journal
        config = SyncObjConf(
            bindAddress=own,
            journalFile=str(directory / journal.NAME),
            fullDumpFile=str(directory / "dump"),
            # The library loses as much with its defaults (0.1, 0.05, and up to 5 s to reconnect), but more slowly.
            appendEntriesPeriod=0.05,
            autoTickPeriod=0.01,
            connectionRetryTime=0.5,
            logCompactionMinEntries=NEVER,  # its compaction loses data too, which is another case
        )
        self._node = built.sync_obj(
            own, others, config, consumers=[*self._lists, self._commits], transportClass=built.transport
        )

    def close(self) -> None:
        """Stop the library's node, and wait for its end."""
        self._node.destroy_synchronous()

    @property
    def is_leader(self) -> bool:
        return bool(self._node._isLeader())

    @property
    def term(self) -> int:
        return int(self._node.raftCurrentTerm)

    @property
    def status(self) -> dict[str, str]:
        """Status as reported by the library."""
        return {str(name): str(value) for name, value in self._node.getStatus().items()}

    # log

    async def append(self, partition: int, payloads: Sequence[bytes], timeout_s: float) -> int:
        """Append the payloads and return the offset of the first. Raises `Refused` and `TimeoutError`."""
        target = self._lists[partition]
        end = await self._wait_applied(
            lambda callback: target.extend(list(payloads), callback=callback), timeout_s, target
        )
        return end - len(payloads)

    def records(self, partition: int, first: int, count_max: int) -> list[bytes]:
        """Return records from this node's copy, which may lag behind."""
        return list(self._lists[partition].rawData()[first : first + count_max])

    def end(self, partition: int) -> int:
        """Return the end of this node's copy, which may lag behind."""
        return len(self._lists[partition])

    async def linearizable_end(self, partition: int, timeout_s: float) -> int:
        """Return the end once everything that was acknowledged before the call is applied here.

        Appends an empty list and waits until that is applied."""
        target = self._lists[partition]
        return await self._wait_applied(lambda callback: target.extend([], callback=callback), timeout_s, target)

    # groups

    async def commit(self, group: str, marks: Marks, timeout_s: float) -> Marks:
        """Commit offsets and return the group's offsets; without `marks` this is a linearizable read."""
        await self._wait_applied(lambda callback: self._commits.commit(group, marks, callback=callback), timeout_s)
        return self._commits.committed_offsets(group)

    async def _wait_applied(self, ask: Callable[[Any], None], timeout_s: float, target: ReplList | None = None) -> int:
        """Wait for a command and return the end of the list when the command was applied here."""
        done: asyncio.Future[int] = self._loop.create_future()

        def on_applied(_result: object, why: int) -> None:
            """Pass the result to the event loop. Called in the library's thread, before it applies anything else."""
            end = len(target) if target is not None else 0
            assert threading.current_thread() is not threading.main_thread() or why != FAIL_REASON.SUCCESS
            self._loop.call_soon_threadsafe(_complete, done, why, end)

        ask(on_applied)
        async with asyncio.timeout(timeout_s):
            return await done


def _complete(done: "asyncio.Future[int]", why: int, end: int) -> None:
    """Complete an append with offset `end`, or with `Refused` for another reason `why` than success.

    Do nothing if its caller no longer waits."""
    if done.done():
        return  # the caller no longer waits
    if why == FAIL_REASON.SUCCESS:
        done.set_result(end)
    else:
        done.set_exception(Refused(why))
