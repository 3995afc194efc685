"""Temporary errors of the file system: a full disk, and a process without free file descriptors.

    FULL_ERRORS         no room: until records are deleted or space is added
    DESCRIPTOR_ERRORS   no descriptor: until connections end or the limit is raised; the disk may be empty

Both leave written data unchanged. Used where an `OSError` becomes a refusal, or work waits for a retry."""

import errno
import resource
from typing import Final

from raftlog.errors import DescriptorsExhausted, StorageFull

FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk or an exhausted disk quota."""
DESCRIPTOR_ERRORS: Final = (errno.EMFILE, errno.ENFILE)
"""Errors of a process, or system, without a free file descriptor."""
TEMPORARY_ERRORS: Final = FULL_ERRORS + DESCRIPTOR_ERRORS


def lacks_descriptors(error: BaseException | None) -> bool:
    """Return whether an error means that no file descriptor is left."""
    return isinstance(error, OSError) and error.errno in DESCRIPTOR_ERRORS


def descriptors_exhausted(path: str, error: OSError | None = None) -> DescriptorsExhausted:
    """Return the error for a request that is refused because no descriptor was left for a file of `path`."""
    if error is not None and error.errno == errno.ENFILE:
        return DescriptorsExhausted(f"{path}: the system has no file descriptors left; raise fs.file-max")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DescriptorsExhausted(
        f"{path}: the process has no file descriptors left, its limit is {limit}; raise `ulimit -n` or lower "
        "`--http-connections-max`"
    )


def make_refusal(path: str, error: OSError, advice: str) -> StorageFull | DescriptorsExhausted:
    """Return the error for a request refused by one of `TEMPORARY_ERRORS`; `advice` is the remedy for a full disk."""
    assert error.errno in TEMPORARY_ERRORS, f"{error} does not pass"
    if lacks_descriptors(error):
        return descriptors_exhausted(path, error)
    return StorageFull(f"{path}: {error}; {advice}")
