"""Contexts: what a signature, a key or a seal is for, in bytes that cannot mean anything else.

A context is a label and fields: names, numbers, bytes. Each is preceded by its kind and its length,
so two contexts have the same bytes only where they are the same; ("ab", "c") is not ("a", "bc"),
nor is the number 1 the name "1".
"""

from __future__ import annotations

__all__ = ["context"]

_PROTOCOL = "colonnade secure 1"


def context(label: str, *fields: str | int | bytes) -> bytes:
    """Return the bytes of a label and its fields.

    Examples
    --------
    >>> context("seal", "ab", "c") == context("seal", "a", "bc")
    False
    >>> context("seal", 1) == context("seal", "1")
    False
    """
    return b"".join(map(_told, (_PROTOCOL, label, *fields)))


def _told(field: str | int | bytes) -> bytes:
    match field:
        case str():
            kind, content = b"s", field.encode()
        case int():
            kind, content = b"i", str(int(field)).encode()
        case _:
            kind, content = b"b", bytes(field)
    return kind + len(content).to_bytes(8, "little") + content
