"""The log of one replica: its files, what recovery makes of them and the journal, and where its directory is."""
