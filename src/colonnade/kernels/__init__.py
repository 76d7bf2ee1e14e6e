"""Hot loops: numba, one thread, no state, compiled once and cached."""
