"""Tests of the controller on real nodes."""
