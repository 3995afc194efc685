"""`Producer`: batches for each partition, retries, idempotence, and the delivery of each record."""
