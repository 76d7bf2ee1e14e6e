"""Hot loops: numba, one thread, no state, compiled once and cached.

numba's cache notices a change of the file that defines a kernel, not of the files it inlines: after
an edit of ``philox.py`` or ``unaligned.py``, delete ``kernels/__pycache__``.
"""
