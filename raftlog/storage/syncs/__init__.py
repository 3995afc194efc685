"""Methods for submitted syncs: Linux AIO, threads, and the choice of the faster one. Used by `RealDisk`'s owner."""
