"""Trial of a mutant in a copy: apply it, run its tests, revert it."""

import os
import signal
import subprocess
import time
from enum import Enum
from typing import Final, NamedTuple

from jepsen.mutants.copies import Copy
from jepsen.mutants.mutant import Mutant, NotApplicable

TRIAL_SECONDS_MAX: Final = 240.0
_TESTS_FAILED: Final = 1
_ALL_PASSED: Final = 0
_TAIL_LINES: Final = 12


class Outcome(Enum):
    """Outcome of a mutant, or of the tests without any."""

    NOTICED = "noticed"
    SURVIVED = "survived"
    HUNG = "hung"
    """The tests did not end within the trial's time limit; this does not count as detection."""
    BROKEN = "broken"
    """Mutant that does not apply to its source any more, or whose tests cannot be collected."""


class Trial(NamedTuple):
    """Result of the tests with one mutant.

    `detail` is the end of pytest's output, or the reason why the mutant does not apply."""

    name: str
    outcome: Outcome
    seconds: float
    detail: str = ""


def try_mutant(mutant: Mutant, copy: Copy) -> Trial:
    """Apply the mutant to the copy, run its tests, and revert it."""
    source = copy.read(mutant.file)
    try:
        changed = mutant.apply_to(source)
    except NotApplicable as error:
        return Trial(mutant.name, Outcome.BROKEN, 0.0, str(error))
    copy.write(mutant.file, changed)
    try:
        return run_tests(mutant.name, mutant.tests, copy)
    finally:
        copy.write(mutant.file, source)


def run_tests(name: str, tests: tuple[str, ...], copy: Copy, timeout_s: float = TRIAL_SECONDS_MAX) -> Trial:
    """Run tests of a copy, and end all processes that they started."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy.directory),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the copy's configuration names those that it needs
    }
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - the tests of this project
        copy.pytest(tests),
        cwd=copy.directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=timeout_s)
            outcome = {_TESTS_FAILED: Outcome.NOTICED, _ALL_PASSED: Outcome.SURVIVED}.get(
                process.returncode, Outcome.BROKEN
            )
        except subprocess.TimeoutExpired:
            outcome = Outcome.HUNG
        finally:
            _end_all(process)
        if outcome is Outcome.HUNG:
            printed, _ = process.communicate()
    tail = "\n".join(printed.strip().splitlines()[-_TAIL_LINES:])
    return Trial(name, outcome, time.monotonic() - began, tail)


def _end_all(process: "subprocess.Popen[str]") -> None:
    """Kill the remaining processes in the session of the tests."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
