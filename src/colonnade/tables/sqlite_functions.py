"""The functions that a query to SQLite may call: those that compute with what they are given.

SQLite has others in it that take addresses of memory or load programs, as ``fts3_tokenizer`` and
``load_extension``, and a build may have more; so what may be called is listed, and not what may
not.

Some compare all parts of one value with all of another, so of long values one call takes hours, and
within a call nothing can end it. Where one of them is called, values are shorter: a call takes a
second or two. Some of JSON make a text of many values before anybody looks how long it is, and
those that make one of many rows, or of as much white space as they are told, are not called at all.
"""

from __future__ import annotations

__all__ = ["FUNCTIONS", "LONGEST", "LONGEST_PATTERN"]

_CORE = (
    "abs changes char coalesce concat concat_ws glob hex ifnull iif instr last_insert_rowid "
    "length like likelihood likely lower ltrim max min nullif octet_length quote random "
    "randomblob replace round rtrim sign soundex sqlite_source_id sqlite_version substr substring "
    "total_changes trim typeof unhex unicode unlikely upper zeroblob"
)
_OF_ROWS = (
    "avg count group_concat string_agg sum total row_number rank dense_rank percent_rank cume_dist "
    "ntile lag lead first_value last_value nth_value median percentile percentile_cont "
    "percentile_disc"
)
_OF_TIME = (
    "date time datetime julianday unixepoch strftime timediff current_date current_time "
    "current_timestamp"
)
_MATHS = (
    "acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 "
    "log2 mod pi pow power radians sin sinh sqrt tan tanh trunc"
)
_OF_JSON = (
    "json json_array_length json_error_position json_extract json_remove json_type json_valid "
    "jsonb jsonb_extract jsonb_remove -> ->>"
)
_TO_JSON = (
    "json_array json_insert json_object json_patch json_quote json_replace json_set jsonb_array "
    "jsonb_insert jsonb_object jsonb_patch jsonb_replace jsonb_set"
)
_OF_TEXTS = "match snippet offsets matchinfo bm25 highlight"  # which are searched by fts

FUNCTIONS = frozenset(
    " ".join((_CORE, _OF_ROWS, _OF_TIME, _MATHS, _OF_JSON, _TO_JSON, _OF_TEXTS)).split()
)
"""Names in lower case."""

LONGEST = {
    **dict.fromkeys(("instr", "replace", "like", "glob"), 2**18),
    **dict.fromkeys(_TO_JSON.split(), 2**20),
    **dict.fromkeys(("json_patch", "jsonb_patch"), 2**16),
    "unhex": 2**14,
}
"""The most bytes of a value where a function is called that takes long for long ones, or much."""

LONGEST_PATTERN = 2**9
"""Bytes of what ``like`` and ``glob`` look for."""
