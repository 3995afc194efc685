"""Every scenario yields the output in its transcript.

After a wanted change: `python -m tests.raft.transcripts --rewrite`, and review the difference."""

from pathlib import Path

import pytest

from tests.raft.transcripts import SCENARIOS, replay


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("*.txt")), ids=lambda file: file.stem)
def test_a_scenario_yields_its_transcript(file: Path) -> None:
    expected = file.read_text()
    assert replay(expected) == expected
