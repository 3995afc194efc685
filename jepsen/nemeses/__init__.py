"""Faults on real processes: when which of them happen (`schedule`, pure), and making them happen (`nemesis`)."""
