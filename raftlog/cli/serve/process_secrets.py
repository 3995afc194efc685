"""Protection of the secrets in a broker's process: the variable of the first user, and core dumps.

The kernel shows the environment with which a process was started, `ps e` among others, also after a variable is
removed; so the bytes of the value are overwritten in place. Tracebacks show no values (`log_lines`)."""

import ctypes
import os
import resource


def take_variable(name: str) -> str | None:
    """Remove a variable of the environment, also from `/proc`, and return its value; None without it."""
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
    """Write no core dump of this process, since its memory has keys; `prlimit --core` can allow it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
