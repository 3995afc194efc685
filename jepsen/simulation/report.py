"""Report of a failed run: enough to repeat it, and its last events."""

import subprocess
from pathlib import Path
from typing import Any

from jepsen.simulation.outcome import Outcome

REPOSITORY = Path(__file__).parents[2]
UNKNOWN = "unknown"


def git_revision() -> str:
    """Return the present Git revision, marked if files differ from it."""
    revision = _git("rev-parse", "HEAD")
    return f"{revision} with changes" if revision != UNKNOWN and _git("status", "--porcelain") else revision


def _git(*arguments: str) -> str:
    """Return the output of a git command in the repository, or `UNKNOWN` if it fails."""
    try:
        command = ("git", "-C", str(REPOSITORY), *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - fixed words
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN  # not a clone, or no git: the report says so
    return done.stdout.strip()


def repeat_command(outcome: Outcome) -> str:
    """Return the command that repeats a run."""
    level = "" if outcome.level == "driver" else f" --level {outcome.level}"
    return f"python -m jepsen.simulation{level}{outcome.shape} --seeds 1 --from {outcome.seed}"


def failure_text(outcome: Outcome, revision: str) -> str:
    """Return the report of one failed seed as text."""
    failure = outcome.failure
    assert failure is not None, f"seed {outcome.seed} did not fail"
    return "\n".join(
        (
            f"seed {outcome.seed} failed: {failure.name}",
            f"commit: {revision}",
            "",
            failure.what,
            "",
            "options:",
            *(f"    {line}" for line in outcome.options.splitlines()),
            "",
            "the last events:",
            failure.timeline,
            "",
            f"repeat: {repeat_command(outcome)}",
        )
    )


def failure_json(outcome: Outcome, revision: str) -> dict[str, Any]:
    """Return the report of one failed seed as a JSON object."""
    failure = outcome.failure
    assert failure is not None, f"seed {outcome.seed} did not fail"
    return {
        "seed": outcome.seed,
        "commit": revision,
        "broken": failure.name,
        "is_property": failure.is_property,
        "what": failure.what,
        "options": dict(line.split(" = ", 1) for line in outcome.options.splitlines()),
        "timeline": failure.timeline.splitlines(),
        "repeat": repeat_command(outcome),
    }
