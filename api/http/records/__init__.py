"""Records over HTTP: produce, fetch, streams and tails, in all formats."""
