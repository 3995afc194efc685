"""Roles of the workload of transactions on a log in memory: a correct one passes, and each bug is detected."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jepsen.checkers import Rules, Send, Transaction, check_history, read_lines
from jepsen.checkers.history import OK
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import make_payload, values_of
from jepsen.workloads.roles import chain, transactions
from jepsen.workloads.roles.chain import Chain
from jepsen.workloads.roles.reader import Reader
from jepsen.workloads.roles.transactions import Scanner, Transactor
from jepsen.workloads.transactions import ACCOUNTS, INPUTS, LISTS, OUTPUTS, PLAN
from raftlog.types import TopicPartition
from tests.jepsen.transactional_model import Bug, ModelLibrary, TransactionalModel

ROUND_S = 0.2
FEED_PAUSE_S = 0.001
ROUNDS_MAX = 300
ENTRIES = 5_000
"""Records and markers of a run; how many a round has depends on the machine."""
CHAINED = 80
"""Committed transactions of a run that consume and produce; a bug takes part in every fifth commit."""
FOUND: dict[Bug | None, set[str]] = {
    None: set(),
    "loses a marker": {"torn-transaction", "lost-write"},
    "shows open records": {"aborted-read", "intermediate-read"},
    "ends a read between two records": {"aborted-read", "intermediate-read"},
    "shows aborted records": {"aborted-read"},
    "shows pending offsets": {"aborted-offset", "skipped-input"},
    "commits offsets without records": {"skipped-input", "lost-write"},
    "commits records without offsets": {"consumed-twice", "stale-offset"},
}
"""Anomalies that must be found, by bug."""


def list_places(topic: str) -> list[TopicPartition]:
    return [place for place in PLAN.places() if place.topic == topic]


class TransactionsRun:
    """Run of all roles over a model of a log."""

    def __init__(self, path: Path, bug: Bug | None, seed: int = 5) -> None:
        self.model = TransactionalModel(seed, bug)
        self.path, self.random = path / "history.jsonl", Random(seed)
        self._times = iter(range(1 << 40))
        self.history = HistoryWriter(self.path, lambda: next(self._times))
        self.values = iter(values_of(1))
        self.library = _WithTurns(self.model)

    async def feed(self, until_s: float) -> None:
        """Append plain records to all partitions, most of them to the inputs of chains; one operation each."""
        inputs = list_places(INPUTS)
        while asyncio.get_running_loop().time() < until_s:
            for place in (*inputs, self.random.choice(PLAN.places())):
                value = next(self.values)
                invocation = self.history.invoke(1, "send", Send(place, (value,)))
                offset = self.model.append(place, make_payload(value, 10))
                self.history.ok(invocation, Send(place, (value,), (offset,)))
            await asyncio.sleep(FEED_PAUSE_S)

    def roles(self) -> list[Any]:
        access: Any = self.model
        found: list[Any] = [self]
        for process in range(2, 5):
            scanner = Scanner(access, self.random)
            places = list_places(LISTS), list_places(ACCOUNTS)
            found.append(Transactor(self.library, self.history, process, *places, scanner, self.values, self.random))
        for process, owned in ((5, (0, 2)), (6, (1,))):
            outputs = list_places(OUTPUTS)
            found.append(Chain(self.library, self.history, process, INPUTS, owned, outputs, self.values, self.random))
        return found

    async def run(self) -> list[str]:
        """Run all roles in rounds and read everything; return the kinds of anomalies that were found."""
        feed, *others = self.roles()
        for _ in range(ROUNDS_MAX):
            until_s = asyncio.get_running_loop().time() + ROUND_S
            await asyncio.gather(feed.feed(until_s), *(role.run(until_s) for role in others))
            if sum(map(len, self.model.entries.values())) >= ENTRIES and self.model.chained >= CHAINED:
                break
        for left in list(self.model.open.values()):
            self.model.end(left, is_commit=False)
        access: Any = self.model
        for process, place in enumerate(PLAN.places(), 20):
            reader = Reader(access, self.history, process, {place: 0}, self.random)
            while reader.positions[place] < len(self.model.entries[place]):
                await reader.poll(0, place, 0)
        self.history.close()
        return list(check_history(read_lines(self.path.read_bytes().splitlines()), Rules(dense=False)).counts)


class _WithTurns(ModelLibrary):
    """Library whose calls take a turn of the loop, so that the roles overlap."""

    def new_producer(self, settings: Any) -> Any:
        return _Turns(super().new_producer(settings))

    def new_consumer(self, settings: Any) -> Any:
        return _Turns(super().new_consumer(settings))


class _Turns:
    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> Any:
            await asyncio.sleep(0)
            return await getattr(self._of, name)(*args)

        return call


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (transactions, chain):
        monkeypatch.setattr(module, "STALLS", 0)
        monkeypatch.setattr(module, "MOMENT_S", 0.001)


@pytest.mark.parametrize("bug", FOUND, ids=str)
async def test_bugs_of_transactions_are_detected(tmp_path: Path, bug: Bug | None) -> None:
    run = TransactionsRun(tmp_path, bug)
    found = await run.run()
    assert FOUND[bug] <= set(found)
    assert bug or not found
    if bug is None:
        entries = list(read_lines(run.path.read_bytes().splitlines()))
        ended = [each for each in entries if each.type != "invoke" and isinstance(each.payload, Transaction)]
        outcomes = {outcome: sum(each.type == outcome for each in ended) for outcome in ("ok", "fail", "info")}
        assert min(outcomes.values()) > 5, outcomes
        consumed = [each for each in ended if each.type == OK and each.payload.consumed]  # type: ignore[union-attr]
        assert len(consumed) > 20


async def test_the_outcome_without_an_attempt_to_commit_is_definite(tmp_path: Path) -> None:
    run = TransactionsRun(tmp_path, None)
    await run.run()
    failed = [each for each in read_lines(run.path.read_bytes().splitlines()) if isinstance(each.payload, Transaction)]
    types = {
        name: {each.type for each in failed if each.error.startswith(name)} for name in ("Aborted", "OutcomeUnknown")
    }
    assert types == {"Aborted": {"fail"}, "OutcomeUnknown": {"info"}}
