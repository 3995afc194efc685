"""For all tests: a run in the background can be interrupted like any other, and so can its children."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's doing; every process that a test starts inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)
