"""The `raftlog` command; no other package imports it.

`main` is the entry point. A verb's module is imported when the verb is used, so that `raftlog serve` loads no client
and `raftlog --help` loads no verb. Exit codes: 0 success, 1 the operation failed, 2 the command line is wrong, 3 the
operation may or may not have happened."""

from raftlog.cli.entry import main

__all__ = ["main"]
