"""Group 0 on real nodes."""
