"""Isolation of reads over HTTP: records, stored batches, lines and offsets."""
