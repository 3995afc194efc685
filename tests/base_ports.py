"""Ports for a `raftlog dev` of a test: a base port with a number of free ports above it.

They lie below the range of which the kernel takes the port of a connection, so none is lost while no node listens."""

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

PORTS: Final = 34
"""Ports of a `raftlog dev` with three nodes: four from each of 10, 20 and 30 above the base port."""
_BASES: Final = range(10_000, 32_000, PORTS)
_ATTEMPTS: Final = 50


@contextmanager
def reserve_base_port() -> Iterator[int]:
    """Return a base port whose following ports no other test takes until the end of the `with` block."""
    for base in random.sample(_BASES, _ATTEMPTS):
        with ExitStack() as held:
            try:
                for port in range(base, base + PORTS):
                    held.enter_context(_reserve(port))
            except OSError:
                continue
            yield base
            return
    raise AssertionError(f"none of {_ATTEMPTS} base ports between {_BASES.start} and {_BASES.stop} is free")


def _reserve(port: int) -> socket.socket:
    """Bind a free port without listening; then permit another socket, such as a node's, to bind it as well."""
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        raise
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held
