"""Backups of a cluster's topics and consumer groups in a directory or an object store, and their restoration.

`backup.run_backup` copies stored batches through the client, `restore.run_restore` appends them at the same offsets.
`manifest` has the format, `state` reads and extends a backup, `stores` and `object_store` hold the bytes."""
