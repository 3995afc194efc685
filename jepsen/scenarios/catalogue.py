"""All scenarios, by number."""

from typing import Final

from jepsen.scenarios import crash
from jepsen.scenarios.scenario import Scenario

SCENARIOS: Final[dict[str, Scenario]] = {each.number: each for each in (*crash.SCENARIOS,)}
