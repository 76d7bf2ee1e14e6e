"""Paths on a disk: a job names none, and each site keeps what a job needs in a folder of its own.

Else whoever writes a job would choose where every site writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from colonnade.config.choices import MadeSection
from colonnade.config.sections import Section

__all__ = ["named_places", "placed"]


def named_places(value: Any, at: str = "") -> Iterator[str]:
    """Yield the path to each setting within a section that says a file or folder.

    Examples
    --------
    >>> from colonnade.config import parse_config
    >>> disk = {"storage": "disk", "folder": "anywhere"}
    >>> top_k = {"codec": "top_k", "ratio": 0.5}
    >>> method = {"name": "efvfl", "embedding": top_k, "surrogates": disk}
    >>> list(named_places(parse_config({"method": method}).method, "method"))
    ['method.surrogates.folder']
    """
    if isinstance(value, Path):
        yield at
    for key, each in _within(value):
        yield from named_places(each, f"{at}.{key}" if at else str(key))


def placed(value: Any, folder: Path | None) -> Any:
    """Return a section in which all storages on a disk have this folder; None, that of each site.

    Examples
    --------
    >>> from colonnade.config import parse_config
    >>> disk = {"storage": "disk", "folder": "anywhere"}
    >>> top_k = {"codec": "top_k", "ratio": 0.5}
    >>> method = {"name": "efvfl", "embedding": top_k, "surrogates": disk}
    >>> placed(parse_config({"method": method}).method, None).surrogates.folder is None
    True
    """
    if isinstance(value, Section):
        inside = {key: placed(each, folder) for key, each in _within(value)}
        is_storage = isinstance(value, MadeSection) and value.part.group.name == "storages"
        own = {"folder": folder} if is_storage and "folder" in inside else {}
        return value.model_copy(update=inside | own)
    if isinstance(value, list | tuple):
        return type(value)(placed(each, folder) for each in value)
    if isinstance(value, Mapping):
        return {key: placed(each, folder) for key, each in value.items()}
    return value


def _within(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what a section, a list or a mapping holds, by key or number."""
    if isinstance(value, Section):
        yield from ((key, getattr(value, key)) for key in type(value).model_fields)
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    elif isinstance(value, Mapping):
        yield from value.items()
