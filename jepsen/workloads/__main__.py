"""`python -m jepsen.workloads CONFIG`: one client process, started by the runner."""

import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from jepsen.workloads.client.configuration import ClientConfiguration
from jepsen.workloads.client.process import run

if __name__ == "__main__":
    # Ctrl-C ends the parent process, which then closes the stdin of this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configuration = ClientConfiguration.read(Path(sys.argv[1]))
    # aiokafka writes to connections that were closed since; transports of uvloop raise `RuntimeError` for that.
    run_loop = asyncio.run if configuration.client == "aiokafka" else uvloop.run
    run_loop(run(configuration))
