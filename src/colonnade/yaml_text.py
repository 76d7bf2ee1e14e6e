"""From YAML text to plain values, however the text was meant: what multiplies is counted first.

A few hundred bytes can stand for more values than there is memory for, since an alias stands for
all that its anchor does, aliases inside included; and what is nested deeply ends in Python's own
limit. PyYAML composes a graph of nodes before it makes values of them. There is a node for each
place in the text, so all is counted on the graph, as it grows and before any value is made.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain
from typing import Any, NamedTuple

import yaml

from colonnade.errors import ConfigurationError
from colonnade.telling import shown

__all__ = ["MOST_LEVELS", "MOST_VALUES", "NOT_YAML", "read_yaml"]

MOST_LEVELS = 32
"""How deep values may be nested."""

MOST_VALUES = 10**6
"""How many there may be, those that aliases stand for included."""

# PyYAML lets through what Python says of the date 2024-99-99, and of too deep a nesting.
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)

_MERGE = "tag:yaml.org,2002:merge"
_MOST_MERGED = 10**5


class _Extent(NamedTuple):
    """How many values a node stands for, and how deep they are nested."""

    values: int = 1
    levels: int = 0


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which counts values and what is merged, and takes each key once."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = 0
        self._extents: dict[int, _Extent] = {}
        self._merged = 0
        self._seen: dict[int, yaml.MappingNode] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node and all that is in it, or return the one that an alias stands for."""
        is_alias = self.check_event(yaml.AliasEvent)
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]  # PyYAML's
        self._refuse_deep(self._level, line)  # not yet composed, which takes a call for each level
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        if not is_alias:
            self._extents[id(node)] = self._extent(node, line)
        elif id(node) not in self._extents:  # it is still being composed, around this
            raise ConfigurationError(f"line {line}: an alias stands for what it is a part of")
        self._refuse_deep(self._level + self._extents[id(node)].levels, line)
        return node

    def _extent(self, node: yaml.Node | None, line: int) -> _Extent:
        if not isinstance(node, yaml.CollectionNode):
            return _Extent()
        inside = list(chain(*node.value)) if isinstance(node, yaml.MappingNode) else node.value
        extents = [self._extents[id(each)] for each in inside]
        values = 1 + sum(each.values for each in extents)
        if values > MOST_VALUES:
            raise ConfigurationError(
                f"line {line}: more than {MOST_VALUES:,} values, those that aliases stand for "
                "included"
            )
        return _Extent(values, 1 + max((each.levels for each in extents), default=0))

    def _refuse_deep(self, levels: int, line: int) -> None:
        if levels > MOST_LEVELS:
            raise ConfigurationError(f"line {line}: nested more than {MOST_LEVELS} levels deep")

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
        If a key is there twice, or too much is nested, aliased or merged.

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
