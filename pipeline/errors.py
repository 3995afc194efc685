"""Errors of the pipeline's own, branches of the tree in `raftlog.errors`.

RaftlogError
├── MissingRequirement      Java or a package of the extra `pipeline` is not there; says what to install
└── PipelineFailed          a job of Spark failed; says what and why, in the words of the worker
"""

from raftlog.errors import RaftlogError


class MissingRequirement(RaftlogError):
    """Something that Spark needs is not installed; the message says how to install it."""


class PipelineFailed(RaftlogError):
    """A job of Spark failed: what it was doing, and what the worker (or Spark) said."""
