"""Consumer groups over HTTP: membership, offsets, and what operators see."""
