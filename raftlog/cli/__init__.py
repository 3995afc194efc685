"""The `raftlog` command: the outermost room; nobody imports it.

`main` is the entry point. A verb's module is imported when the verb is used, so that `raftlog serve` carries no
client and `raftlog --help` carries nothing at all. Exit codes: 0, 1 the operation failed, 2 the command line is
wrong, 3 the operation may or may not have happened.
"""

from raftlog.cli.entry import main

__all__ = ["main"]
