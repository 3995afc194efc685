"""Mutants of the transaction coordinator, and of the order of its producers' connections."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_COORDINATOR: Final = ("tests/transactions/test_coordinator.py",)
_ORDER: Final = ("tests/kafka/transactions/test_connection_order.py",)


def _coordinator(name: str, place: str, old: str, new: str) -> Mutant:
    """Return a mutant at `place`, which is module:function of the package of transactions."""
    module, _, function = place.partition(":")
    file = f"raftlog/partitions/transactions/{module}.py"
    return Mutant(f"coordinator-{name}", file, function, old, new, _COORDINATOR)


def _order(name: str, old: str, new: str) -> Mutant:
    """Return a mutant of `ConnectionOrder.check`."""
    file = "raftlog/api/kafka/handlers/transactions/connection_order.py"
    return Mutant(f"coordinator-{name}", file, "ConnectionOrder.check", old, new, _ORDER)


MUTANTS: Final[tuple[Mutant, ...]] = (
    _coordinator(
        "marker-before-prepare",
        "coordinator:TransactionCoordinator._begin_transition",
        "        return stored",
        "        if record is not None and record.state.is_prepared:\n"
        "            self._begin_end(name, record)\n"
        "        return stored",
    ),
    _coordinator(
        "markers-not-awaited",
        "coordinator:TransactionCoordinator._on_stored",
        "self._begin_end(name, record)",
        "self._begin_end(name, record); self._end_transition(name)",
    ),
    _coordinator(
        "fenced-producer-begins-the-next",
        "coordinator:TransactionCoordinator._begin_next",
        "if asked[1:3] == transitions.identity_of(completed):",
        "if True:",
    ),
    _coordinator(
        "next-transaction-has-no-timeout",
        "coordinator:TransactionCoordinator._end",
        "self._start_timeout(name, following)",
        "pass",
    ),
    _coordinator(
        "stored-decision-forgotten",
        "coordinator:TransactionCoordinator.begin",
        "elif record.state.is_prepared:",
        "elif False:",
    ),
    _coordinator(
        "timeout-not-restarted",
        "coordinator:TransactionCoordinator.begin",
        "self._start_timeout(name, record)",
        "pass",
    ),
    _coordinator(
        "timeout-by-wall-clock",
        "coordinator:TransactionCoordinator._expire_transactions",
        "if at <= now:",
        "if sum(self.folded.records[name][field] for field in (3, 6)) <= self.wall_ms():",
    ),
    _coordinator(
        "timeout-without-fence",
        "transitions:fence",
        "epoch=record.epoch + 1",
        "epoch=record.epoch",
    ),
    _coordinator(
        "fencing-skipped",
        "transitions:check_identity",
        "if record.epoch != identity.epoch:",
        "if record.epoch < identity.epoch:",
    ),
    _coordinator(
        "old-answer-not-confirmed",
        "coordinator:TransactionCoordinator.end_transaction",
        "await self.confirm(deadline)",
        "pass",
    ),
    _coordinator(
        "late-end-ends-the-next-transaction",
        "transitions:check_same",
        "before.number != record.number",
        "False",
    ),
    _coordinator(
        "refusal-not-confirmed",
        "coordinator:TransactionCoordinator._refuse",
        "await self.confirm(deadline)",
        "pass",
    ),
    _coordinator(
        "any-partition-verified",
        "transitions:check_member",
        "if record.state is not TransactionState.ONGOING or not is_member:",
        "if record.state is not TransactionState.ONGOING:",
    ),
    _coordinator(
        "last-epoch-given-out",
        "transitions:needs_new_id",
        "EPOCH_MAX - 1)",
        "EPOCH_MAX)",
    ),
    _coordinator(
        "transactions-share-a-number",
        "transitions:add",
        "max(record.number, term << 32) + 1",
        "max(record.number, term << 32)",
    ),
    _coordinator(
        "numbers-begin-anew-with-an-epoch",
        "transitions:initialize",
        "number = 0 if record is None else record.number",
        "number = 0",
    ),
    _coordinator(
        "numbers-of-earlier-terms-again",
        "transitions:add",
        "max(record.number, term << 32) + 1",
        "record.number + 1",
    ),
    _coordinator(
        "marker-sent-once",
        "markers:MarkerSender._send_until_written",
        "await asyncio.sleep(pause_s)",
        "return",
    ),
    _order("late-end-accepted", "opened_at < newest", "False"),
    Mutant(
        "coordinator-late-offsets-accepted",
        "raftlog/api/kafka/handlers/transactions/offsets.py",
        "TransactionOffsetHandlers.commit",
        "await self._order.run(request, producer, commit)",
        "await commit()",
        ("tests/kafka/transactions/test_handlers.py",),
    ),
    _order("late-end-accepted-after-takeover", " or opened_at < taken_over", ""),
)
