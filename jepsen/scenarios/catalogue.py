"""All scenarios, by number."""

from typing import Final

from jepsen.scenarios import crash, disk, groups, kafka, membership, network, operations, pauses, semantics
from jepsen.scenarios.scenario import Scenario

SCENARIOS: Final[dict[str, Scenario]] = {
    each.number: each
    for each in sorted(
        (
            *crash.SCENARIOS,
            *disk.SCENARIOS,
            *pauses.SCENARIOS,
            *network.SCENARIOS,
            *membership.SCENARIOS,
            *semantics.SCENARIOS,
            *groups.SCENARIOS,
            *operations.SCENARIOS,
            *kafka.SCENARIOS,
        ),
        key=lambda each: int(each.number[1:]),
    )
}
