"""Errors of backups, subclasses of those in `raftlog.errors`.

RaftlogError
├── BackupDamaged      (StorageError) a manifest or a file of a backup is missing or damaged
│   └── BackupTooNew   its format is that of a newer release
├── BackupRefused      (InvalidArgument) the backup does not match the cluster or the command
├── BackupTaken        (RequestError) another run writes to the backup, or has claimed it from this run
└── StoreUnreachable   (StorageError) the store failed or refused a request"""

from raftlog.errors import InvalidArgument, RequestError, StorageError


class BackupDamaged(StorageError):
    """A manifest or file of the backup is missing or damaged; the message names it."""


class BackupTooNew(BackupDamaged):
    """The manifest has the format of a newer release."""


class BackupRefused(InvalidArgument):
    """The backup does not match the cluster or the command; the message has the remedy."""


class BackupTaken(RequestError):
    """Another run writes to the backup, or has claimed it from this run."""


class StoreUnreachable(StorageError):
    """The backup store failed or refused a request."""
