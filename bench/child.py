"""Work in a new interpreter, so that no measure affects the next by warm caches or a large heap.

`python -m bench.child MODULE:FUNCTION` reads keyword arguments as JSON from stdin, calls the function and prints what
it returns as one line of JSON.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from bench.measure import MeasureFailed

TIMEOUT_S = 300.0
_ERROR_LINES = 6


def command_for(function: Callable[..., Any]) -> list[str]:
    """Return the command line that runs a function of a module in a child process."""
    return [sys.executable, "-m", "bench.child", f"{function.__module__}:{function.__qualname__}"]


def run_in_child(function: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """Call `function(**arguments)` in a new process; raise `MeasureFailed` with its output if it fails."""
    try:
        done = subprocess.run(
            command_for(function),
            input=json.dumps(arguments),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MeasureFailed(f"{function.__qualname__} did not end within {TIMEOUT_S:g} s") from None
    if done.returncode:
        printed = "\n".join(done.stderr.strip().splitlines()[-_ERROR_LINES:])
        raise MeasureFailed(f"{function.__qualname__} ended with exit code {done.returncode}: {printed}")
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values


def main() -> None:
    """Call the function named by the first argument with the arguments in stdin, and print its result as JSON."""
    module_name, _, function_name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module_name), function_name)
    print(json.dumps(function(**json.load(sys.stdin))), flush=True)


if __name__ == "__main__":
    main()
