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
from colonnade.alignment.private import Organisation, align_apart, align_here, align_privately
from colonnade.alignment.statement import who_learns_what

__all__ = [
    "Kept",
    "Organisation",
    "align_apart",
    "align_here",
    "align_privately",
    "alignment_file",
    "check_folder",
    "read_alignment",
    "who_learns_what",
    "write_alignment",
]
