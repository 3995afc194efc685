"""Consumer groups over HTTP: membership, offsets, and reports for operators."""
