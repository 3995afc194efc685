"""`python -P …/jepsen/planted/serve.py BUG serve …`: the command `raftlog`, with a bug planted into its process.

Used by `jepsen.planted.detection` in place of `-m raftlog.cli`. The bug is in place before any code of the product
runs; the product's own assertions stay on.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # -P leaves the checkout out, and jepsen is not installed

from jepsen.planted.registry import BUGS
from raftlog.cli.entry import main

if __name__ == "__main__":
    BUGS[sys.argv.pop(1)].plant()
    main()
