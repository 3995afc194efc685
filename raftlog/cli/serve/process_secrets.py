"""Protection of secrets in a broker's process against readers of its environment and of core dumps.

The kernel shows the environment with which a process was started, for example to `ps e`, even after a variable was
removed; so the bytes of the value are overwritten in place. Tracebacks show no values either (`log_lines`)."""

import ctypes
import os
import resource


def take_variable(name: str) -> str | None:
    """Remove a variable from the environment, also from `/proc`; return its value, None if it was not set."""
    value = os.environ.get(name)
    if value is None:
        return None
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    at = libc.getenv(os.fsencode(name))
    if at is not None:
        ctypes.memset(at, 0, len(os.fsencode(value)))
    del os.environ[name]
    return value


def forbid_core_dumps() -> None:
    """Forbid core dumps of this process, since its memory has keys; `prlimit --core` can allow them again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
