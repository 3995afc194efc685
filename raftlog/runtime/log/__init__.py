"""The log of one replica: its files, its recovery from them and the journal, and its directory."""
