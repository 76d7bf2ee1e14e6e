"""From YAML text to plain values, however the text was meant: what multiplies is counted first."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from colonnade.config.foreign import shown
from colonnade.errors import ConfigurationError

__all__ = ["NOT_YAML", "read_yaml"]

# PyYAML lets through what Python says of the date 2024-99-99, and of too deep a nesting.
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)

_MERGE = "tag:yaml.org,2002:merge"
_MOST_MERGED = 10**5


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which counts what is merged and takes each key once."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._merged = 0
        self._seen: dict[int, yaml.MappingNode] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put what ``<<`` merges before a mapping's own keys, which win."""
        if id(node) in self._seen:  # a mapping that is merged again is flat already
            return
        self._seen[id(node)] = node
        own, merged = [], []
        for key, value in node.value:
            if key.tag == _MERGE:
                merged.append(value)
            else:
                own.append((key, value))
        self._refuse_twice(own)
        node.value, before = own, []
        for value in merged:
            several = reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]
            for each in several:
                if not isinstance(each, yaml.MappingNode):
                    raise ConfigurationError(
                        f"line {value.start_mark.line + 1}: << takes keys and values, or a list "
                        "of such"
                    )
                self.flatten_mapping(each)
                self._merged += 1 + len(each.value)
                if self._merged > _MOST_MERGED:
                    raise ConfigurationError(f"<< merges more than {_MOST_MERGED:,} keys")
                before += each.value
        node.value = before + own

    def _refuse_twice(self, pairs: list[Any]) -> None:
        found = set()
        for node, _ in pairs:
            if node.tag == "tag:yaml.org,2002:value":  # the key =, as PyYAML has it
                node.tag = "tag:yaml.org,2002:str"
            key = self.construct_object(node, deep=True)
            if not isinstance(key, Hashable):
                continue  # PyYAML says so
            if key in found:
                line = node.start_mark.line + 1
                raise ConfigurationError(f"line {line}: the key {shown(key)} is there twice")
            found.add(key)


def read_yaml(text: str) -> Any:
    """Return the plain values of a text.

    Raises
    ------
    ConfigurationError
        If a key is there twice, or too much is merged.

    Examples
    --------
    >>> read_yaml("{a: &x {b: 1, c: 2}, d: {<<: *x, c: 3}}")["d"]
    {'b': 1, 'c': 3}
    >>> read_yaml("{a: 1, a: 2}")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: line 1: the key 'a' is there twice
    """
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
