"""Number of acknowledged records that are missing at the end, a figure in addition to the checkers' findings.

For the checkers a record is lost if no client ever read it. Here a record is missing if the final reads do not return
it, even if clients had read it before."""

from pathlib import Path
from typing import NamedTuple

import orjson


class MissingRecords(NamedTuple):
    """Numbers of acknowledged records, and of those missing at the end."""

    acknowledged: int
    missing: int

    def __str__(self) -> str:
        return f"Of {self.acknowledged:,} acknowledged records {self.missing:,} were not there in the end."


def count_missing(history: Path, first_process_of_drain: int) -> MissingRecords:
    """Count the acknowledged and the missing records of a complete history with its drain."""
    acknowledged: set[object] = set()
    there: set[object] = set()
    with open(history, "rb") as lines:
        for line in lines:
            entry = orjson.loads(line)
            if entry["type"] != "ok":
                continue
            if entry["kind"] == "send":
                acknowledged.update(entry["value"]["values"])
            elif entry["kind"] == "poll" and entry["process"] >= first_process_of_drain:
                for fetched in entry["value"]:
                    there.update(fetched["values"])
    return MissingRecords(len(acknowledged), len(acknowledged - there))
