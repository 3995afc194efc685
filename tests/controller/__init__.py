"""The controller on real nodes."""
