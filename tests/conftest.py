"""For all tests: a run that a shell started in the background can be interrupted all the same, and so can its children."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited, and handed on to every process that a test starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
