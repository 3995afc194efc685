"""One replica of one group: its core, proposals, reads, rolls and trims."""
