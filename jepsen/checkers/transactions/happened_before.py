"""Cycles among transactions: orders of events that contradict each other.

    write-cycle (G0)                   writes only: two partitions have two transactions in different orders
    circular-information-flow (G1c)    with a read: a transaction read records of one that committed after it

Kafka's transactions do not isolate writes: two that overlap may append to two partitions in different orders. So nodes
are events (begin, each step, commit), and only a contradiction to program order or real time is reported. With
`is_serial` each transaction is one node, which is Adya's definition: overlapping transactions have to be serializable
too."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from jepsen.checkers.checker import Findings
from jepsen.checkers.history import Append, OffsetsRead, Op, Scan, Transaction, Value
from jepsen.checkers.transactions.cycles import Edge, EventGraph
from raftlog.types import Offset, TopicPartition


class Committed(NamedTuple):
    """Committed transaction, with the known offsets of its records."""

    invocation: Op
    completion: Op | None
    """Answer to the commit; None if the commit is known only from reads of its records."""
    transaction: Transaction
    offsets: dict[int, Offset]
    """Offsets of appended records by number of the step."""

    @property
    def op(self) -> Op:
        """Last entry of the transaction: its completion, or the invocation if it has no completion."""
        return self.completion or self.invocation


class _Nodes(NamedTuple):
    """Nodes of a transaction's events in the graph; with `is_serial` all of them are one node."""

    begin: int
    steps: list[int]
    commit: int


class HappenedBefore:
    """Graph of the order of events of committed transactions; a cycle is an anomaly."""

    def __init__(self, transactions: Sequence[Committed], *, is_serial: bool = False) -> None:
        """Build the graph of all events of the transactions.

        With `is_serial` a transaction is one event; otherwise its begin, each step and its commit are events."""
        self._transactions: Final = transactions
        self._graph = EventGraph()
        self._owners: dict[int, Committed] = {}
        make = self._make_one_node if is_serial else self._make_nodes
        self._nodes = [make(each) for each in transactions]
        if not is_serial:
            self._add_real_time()
        self._add_writes()
        self._add_reads()

    def report(self, findings: Findings) -> None:
        """Report one anomaly for each group of transactions that form cycles."""
        for cycle in self._graph.write_cycles():
            findings.report("write-cycle", self._describe(cycle), self._proof(cycle))
        for cycle in self._graph.read_cycles():
            findings.report("circular-information-flow", self._describe(cycle), self._proof(cycle))

    # nodes

    def _make_one_node(self, transaction: Committed) -> _Nodes:
        """Add one node for the begin, all steps and the commit of a transaction; return it in these roles."""
        node = self._add_node(transaction)
        return _Nodes(node, [node] * len(transaction.transaction.steps), node)

    def _make_nodes(self, transaction: Committed) -> _Nodes:
        """Add a chain of nodes for the begin, each step and the commit of a transaction; return them."""
        nodes = [self._add_node(transaction) for _ in range(len(transaction.transaction.steps) + 2)]
        for before, after in pairwise(nodes):
            self._graph.add_edge(before, after, "order")
        return _Nodes(nodes[0], nodes[1:-1], nodes[-1])

    def _add_node(self, owner: Committed) -> int:
        """Add a node of a transaction to the graph; return its number."""
        node = self._graph.add_node()
        self._owners[node] = owner
        return node

    # edges

    def _add_real_time(self) -> None:
        """Add edges from each completed transaction to those that began after its completion."""
        ended = sorted(
            (each.completion.sequence, number)
            for number, each in enumerate(self._transactions)
            if each.completion is not None
        )
        chain: list[int] = []
        for _, number in ended:
            moment = self._graph.add_node()
            self._graph.add_edge(self._nodes[number].commit, moment, "order")
            if chain:
                self._graph.add_edge(chain[-1], moment, "order")
            chain.append(moment)
        sequences = [sequence for sequence, _ in ended]
        for number, each in enumerate(self._transactions):
            earlier = bisect_left(sequences, each.invocation.sequence)
            if earlier:
                self._graph.add_edge(chain[earlier - 1], self._nodes[number].begin, "order")

    def _add_writes(self) -> None:
        """Add an edge between the writers of neighbouring records in each partition."""
        written: dict[TopicPartition, list[tuple[Offset, int]]] = {}
        for number, each in enumerate(self._transactions):
            for step, offset in each.offsets.items():
                append = each.transaction.steps[step]
                assert isinstance(append, Append), append
                written.setdefault(append.partition, []).append((offset, self._nodes[number].steps[step]))
        for rows in written.values():
            rows.sort()
            for (_, before), (_, after) in pairwise(rows):
                if before != after:
                    self._graph.add_edge(before, after, "write")

    def _add_reads(self) -> None:
        """Add an edge from each commit to the reads that show it."""
        writers: dict[tuple[TopicPartition, Value], int] = {}
        ends: dict[tuple[str, TopicPartition, Offset], list[int]] = {}
        for number, each in enumerate(self._transactions):
            for append in each.transaction.appends():
                writers[append.partition, append.value] = number
            for place, _, end in each.transaction.consumed:
                ends.setdefault((each.transaction.group, place, end), []).append(number)
        for number, each in enumerate(self._transactions):
            for step, node in zip(each.transaction.steps, self._nodes[number].steps, strict=True):
                shown: Iterable[int] = ()
                if isinstance(step, Scan):
                    seen = (writers.get((step.partition, value)) for value in step.values)
                    shown = {writer for writer in seen if writer is not None}
                elif isinstance(step, OffsetsRead):
                    group = each.transaction.group
                    found = (ends.get((group, place, offset), []) for place, offset in step.offsets if offset)
                    shown = [writers_of[0] for writers_of in found if len(writers_of) == 1]
                for writer in shown:
                    self._add_read(writer, number, node)

    def _add_read(self, writer: int, reader: int, node: int) -> None:
        """Add an edge from the commit of transaction `writer` to `node`.

        This node is the step of transaction `reader` that read the commit."""
        commit = self._nodes[writer].commit
        if commit != node or writer != reader:
            self._graph.add_edge(commit, node, "read")

    # reports

    def _proof(self, cycle: list[Edge]) -> list[Op]:
        """Return the entries of the transactions in a cycle."""
        return [self._owners[edge.source].op for edge in cycle if edge.source in self._owners]

    def _describe(self, cycle: list[Edge]) -> str:
        """Return the sentence about a cycle: its writes and reads, in order."""
        words: dict[str, Callable[[Edge], str]] = {
            "write": lambda edge: f"{self._name(edge.source)} wrote before {self._name(edge.target)}",
            "read": lambda edge: f"{self._name(edge.target)} read what {self._name(edge.source)} had committed",
        }
        told = [words[edge.kind](edge) for edge in cycle if edge.kind in words]
        return f"{', '.join(told)}; this contradicts their order"

    def _name(self, node: int) -> str:
        """Return the name of the transaction to which a node belongs."""
        return f"transaction #{self._owners[node].invocation.sequence}"
