"""Tests of the transport between processes: random messages (`messages`), and processes (`processes`)."""
