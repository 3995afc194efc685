"""`python -m jepsen.workloads.log CONFIG`: one client process, started by the runner."""

import signal
import sys
from pathlib import Path

import uvloop

from jepsen.workloads.log.client import run
from jepsen.workloads.log.configuration import ClientConfiguration

if __name__ == "__main__":
    # Ctrl-C is for whoever started this process, who then closes its stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(run(ClientConfiguration.read(Path(sys.argv[1]))))
