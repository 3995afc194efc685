"""Errors of backups, subclasses of those in `raftlog.errors`.

RaftlogError
├── BackupDamaged      (StorageError) a manifest or a file of a backup is missing or damaged
├── BackupRefused      (InvalidArgument) the backup and the cluster, or the command, do not match
├── BackupTaken        (RequestError) another run writes to the backup, or has claimed it
└── StoreUnreachable   (StorageError) the store failed or refused a request"""

from raftlog.errors import InvalidArgument, RequestError, StorageError


class BackupDamaged(StorageError):
    """Missing or damaged manifest or file of a backup; the message names it."""


class BackupRefused(InvalidArgument):
    """Backup that does not match the cluster or the command; the message has the remedy."""


class BackupTaken(RequestError):
    """Other run that writes to the backup, or has claimed it from this one."""


class StoreUnreachable(StorageError):
    """BackupStore that failed or refused a request."""
