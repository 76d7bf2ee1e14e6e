"""Who is in all tables, found without showing an id: the alignment, what is kept of it, who learns.

The roles are in ``roles/align.py``; what they blind ids with is in ``secure/blinding.py``.
"""

from colonnade.alignment.kept import (
    Kept,
    alignment_file,
    check_folder,
    read_alignment,
    write_alignment,
)
from colonnade.alignment.private import (
    Organisation,
    Seat,
    align_apart,
    align_here,
    align_privately,
    refuse_nobody,
)
from colonnade.alignment.statement import who_learns_what

__all__ = [
    "Kept",
    "Organisation",
    "Seat",
    "align_apart",
    "align_here",
    "align_privately",
    "alignment_file",
    "check_folder",
    "read_alignment",
    "refuse_nobody",
    "who_learns_what",
    "write_alignment",
]
