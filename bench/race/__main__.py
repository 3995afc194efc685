"""Entry point `python -m bench.race`."""

import sys

from bench.race.command import main

if __name__ == "__main__":
    sys.exit(main())
