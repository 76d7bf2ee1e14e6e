"""How a user says what is to be done with a column, in Python and in YAML."""

from __future__ import annotations

import json

__all__ = ["as_missing", "as_text", "named_in", "setting"]


def named_in(parameter: str, column: str, it: str = "the column") -> str:
    """Return the advice to name a column in a parameter of its transformer.

    >>> named_in("ignore", "name", it="it")
    'name it in ignore: TableTransformer(ignore=["name"]) in transformers (YAML: features: \
{ignore: ["name"]})'
    """
    return f"name {it} in {parameter}: {setting(parameter, [column])}"


def as_missing(value: str) -> str:
    """Return the advice how cells of a value become missing ones.

    >>> print(as_missing("old"))
    read the table with missing=['old'] (YAML: missing: ["old"]) if it stands for none
    """
    written = json.dumps(value, ensure_ascii=False)
    return (
        f"read the table with missing=[{value!r}] (YAML: missing: [{written}]) if it stands for "
        "none"
    )


def as_text(column: str) -> str:
    """Return the advice how values of a column become text.

    >>> as_text("code")
    'make text of it, by a cast where it comes from (of a text file by read_table(..., \
text=["code"]))'
    """
    named = json.dumps(column, ensure_ascii=False)
    return (
        "make text of it, by a cast where it comes from (of a text file by read_table(..., "
        f"text=[{named}]))"
    )


def setting(parameter: str, value: str | list[str]) -> str:
    """Return how a parameter of a party's transformer is given a value.

    >>> setting("unseen", "error")
    'TableTransformer(unseen="error") in transformers (YAML: features: {unseen: "error"})'
    """
    written = json.dumps(value, ensure_ascii=False)
    return (
        f"TableTransformer({parameter}={written}) in transformers "
        f"(YAML: features: {{{parameter}: {written}}})"
    )
