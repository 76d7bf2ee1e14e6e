"""Tables larger than memory: encoded once, block by block, and mapped into memory from disk.

``streamed_rows`` does it all; what comes of it is trained on as any other data.
"""

from colonnade.streamed.columns import Columns
from colonnade.streamed.rows import StreamedRows, streamed_rows
from colonnade.streamed.transformer import RowEncoder

__all__ = ["Columns", "RowEncoder", "StreamedRows", "streamed_rows"]
