"""Faults on real processes: their schedule (`schedule`, pure), and their injection (`nemesis`)."""
