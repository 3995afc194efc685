"""Mutants of the rules for growing formats: refused, omitted and ignored fields."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_MIXED: Final = ("tests/controller/machine/test_mixed_releases.py",)
_RECORDS: Final = ("tests/groups/test_records.py",)
_STATE: Final = ("tests/replica/test_producer_state.py",)
_ANSWERS: Final = ("tests/rpc/test_growing_answers.py",)
_MACHINE: Final = "controller/machine"


def _formats(name: str, place: str, old: str, new: str, tests: tuple[str, ...]) -> Mutant:
    """Return a mutant at `place`, which is module:function below `raftlog/partitions`."""
    module, _, function = place.partition(":")
    return Mutant(f"formats-{name}", f"raftlog/partitions/{module}.py", function, old, new, tests)


MUTANTS: Final[tuple[Mutant, ...]] = (
    _formats(
        "unknown-field-ignored",
        f"{_MACHINE}/schema:SchemaRecord.unpack",
        "if len(raw) > len(wanted):",
        "if False:",
        _MIXED,
    ),
    _formats(
        "default-is-written",
        f"{_MACHINE}/schema:SchemaRecord.pack",
        "while count and wanted[count - 1].is_left_out(self):",
        "while False:",
        _MIXED,
    ),
    _formats(
        "field-below-its-level",
        f"{_MACHINE}/request:check_level",
        "max(KINDS[type(command)].feature_level, command.level_needed())",
        "KINDS[type(command)].feature_level",
        _MIXED,
    ),
    _formats(
        "unknown-key-of-a-snapshot-ignored",
        f"{_MACHINE}/snapshot:Restoration.__init__",
        "if unknown:",
        "if False:",
        ("tests/controller/machine/test_snapshot.py",),
    ),
    _formats("level-of-groups-ignored", "groups/records:_fields", "if max(needed) > level:", "if False:", _RECORDS),
    _formats(
        "fold-goes-on-behind-what-is-unknown",
        "replica/producer_state:ProducerState._apply_entry",
        "if self.problem is not None:",
        "if False:",
        _STATE,
    ),
    _formats(
        "rest-of-a-snapshot-of-producers-ignored",
        "replica/producers:SnapshotRun.take",
        "if position < len(payload):  # fields",
        "if False:  # fields",
        _STATE,
    ),
    _formats(
        "answer-of-just-these-fields",
        "routing/router:decode_numbers",
        "len(value) >= count:",
        "len(value) == count:",
        _ANSWERS,
    ),
    _formats(
        "answers-read-strictly", "coordinator/operation:extensible_type", "if _is_row(kind):", "if False:", _ANSWERS
    ),
)
