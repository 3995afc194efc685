"""Program that refuses system calls to itself (seccomp) and executes a command, like a container's sandbox.

    python -m tests.integration.refused_calls ERRNO NUMBER,… -- ARGUMENT …    runs `python ARGUMENT …`

The filter holds for all threads and children, and needs no privileges."""

import ctypes
import os
import struct
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD_NUMBER, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    """Structure `sock_fprog` of seccomp."""

    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_calls(numbers: list[int], error: int) -> None:
    """Let these system calls fail with `error` in this process from now on."""
    rows = [(_LOAD_NUMBER, 0, 0, 0)]
    rows += [(_JUMP_IF_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    rows += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | error)]
    program = _Program(len(rows), b"".join(struct.pack("HBBI", *row) for row in rows))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    refuse_calls([int(number) for number in sys.argv[2].split(",")], int(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, *sys.argv[4:]])
