"""Report each first line and heading that breaks a rule, and exit with 1 if there is one. Part of `make check`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.prose.allowed import ALLOWED, PENDING
from tests.prose.lines import ProseLine, docstring_lines, headings
from tests.prose.rules import problem_of

_ROOT = Path(__file__).resolve().parents[2]


def prose_lines() -> Iterator[ProseLine]:
    """Yield the lines of all files under version control, new files included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.md"],
        cwd=_ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for shown in listed.stdout.split():
        path = _ROOT / shown
        if path.exists() and not any(shown == each or shown.startswith(f"{each}/") for each in PENDING):
            yield from docstring_lines(path, shown) if path.suffix == ".py" else headings(path, shown)


def main() -> int:
    """Print what to change and where; return the exit code."""
    problems = 0
    for line in prose_lines():
        advice = problem_of(line.text, is_function=line.is_function, is_product=not line.path.startswith("tests/"))
        if advice is not None and line.text not in ALLOWED:
            print(f"{line.path}:{line.number}: {line.text!r}: {advice}")
            problems += 1
    print(f"{problems} lines to rewrite" if problems else "prose: all first lines and headings pass")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
