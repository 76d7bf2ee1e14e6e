"""From YAML text to plain values, however the text was meant: what multiplies is counted first.

A few hundred bytes can stand for more values than there is memory for, since an alias stands for
all that its anchor does, aliases inside included; and what is nested deeply ends in Python's own
limit. PyYAML composes a graph of nodes before it makes values of them. There is a node for each
place in the text, so all is counted on the graph, as it grows and before any value is made. PyYAML
takes its time for each node, so a text that is too long for a configuration is not begun with, and
one with too many values is left at the first of them.

What is written without quotes is a number, or true or false, only where it is hardly meant
otherwise. To YAML 1.1, which PyYAML reads, ``no`` is false, ``007`` is 7, ``1:30`` is 90, and
2024-01-31 is a day; here they are texts, as editors, which read YAML 1.2, show them. So is 1e5,
which fields for numbers read as one.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, ClassVar, NamedTuple

import yaml

from colonnade.errors import ConfigurationError
from colonnade.telling import shown

__all__ = ["MOST_CHARACTERS", "MOST_LEVELS", "MOST_VALUES", "NOT_YAML", "read_yaml"]

MOST_CHARACTERS = 2**20
"""How long a text may be."""

MOST_LEVELS = 32
"""How deep values may be nested."""

MOST_VALUES = 10**5
"""How many there may be, those that aliases stand for included."""

# PyYAML lets through what Python says of a text that is not what its tag says, as of !!bool maybe,
# of a character beyond Unicode, and of too deep a nesting.
NOT_YAML = (
    *(yaml.YAMLError, ValueError, LookupError, OverflowError, TypeError, AttributeError),
    RecursionError,
)

_MERGE = "tag:yaml.org,2002:merge"
_MOST_MERGED = 10**5


_WITHOUT_QUOTES = {
    "bool": ("true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": ("[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)", "-+0123456789"),
    "float": (
        r"[-+]?(?:0|[1-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|[-+]?\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": ("<<", "<"),
    "value": ("=", "="),
}


class _Extent(NamedTuple):
    """How many values a node stands for, and how deep they are nested."""

    values: int
    levels: int


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which counts values and what is merged, and takes each key once."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]  # PyYAML's is one

    def __init__(self, text: str, most_values: int) -> None:
        super().__init__(text)
        self._most_values = most_values
        self._values = 0
        self._levels = [0]  # of each node that is being composed: how deep it goes, so far
        self._extents: dict[int, _Extent] = {}
        self._merged = 0
        self._seen: dict[int, yaml.MappingNode] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node and all that is in it, or return the one that an alias stands for."""
        coming = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's
        line = coming.start_mark.line + 1
        level = len(self._levels) - 1
        self._refuse_deep(level, line)  # not yet composed, which takes a call for each level
        if isinstance(coming, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._extents:  # it is still being composed, around this
                raise ConfigurationError(f"line {line}: an alias stands for what it is a part of")
            extent = self._extents[id(node)]
            self._count(extent.values, line)
            self._refuse_deep(level + extent.levels, line)
        else:
            before = self._values
            self._count(1, line)
            self._levels.append(0)
            node = super().compose_node(parent, index)
            extent = _Extent(self._values - before, self._levels.pop())
            if coming.anchor is not None:
                self._extents[id(node)] = extent
        self._levels[-1] = max(self._levels[-1], extent.levels + 1)
        return node

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > self._most_values:
            raise ConfigurationError(
                f"line {line}: more than {self._most_values:,} values, those that aliases stand "
                "for included"
            )

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


def _number(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """Return the number that a text is; one to the base of 60, as 1:30, is none here."""
    tag = node.tag.rpartition(":")[2]
    if ":" in node.value:
        raise ConfigurationError(
            f"line {node.start_mark.line + 1}: {shown(node.value)} is no number, as !!{tag} says"
        )
    return getattr(yaml.SafeLoader, f"construct_yaml_{tag}")(loader, node)


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _number)

for _name, (_form, _first) in _WITHOUT_QUOTES.items():
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_form})$"), list(_first)
    )


def read_yaml(text: str, times: int = 1) -> Any:
    """Return the plain values of a text.

    Parameters
    ----------
    text
        What is read.
    times
        How many times as much it may be as a user may write: what a run writes of a configuration
        says all that was left out, each value in a line of its own.

    Raises
    ------
    ConfigurationError
        If the text is too long, a key is there twice, or too much is nested, aliased or merged.

    Examples
    --------
    >>> read_yaml("{a: &x {b: 1, c: 2}, d: {<<: *x, c: 3}}")["d"]
    {'b': 1, 'c': 3}
    >>> read_yaml("[no, 007, 1:30, 1.50, true]")
    ['no', '007', '1:30', 1.5, True]
    >>> read_yaml("{a: 1, a: 2}")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: line 1: the key 'a' is there twice
    """
    if len(text) > times * MOST_CHARACTERS:
        raise ConfigurationError(
            f"there are more than {times * MOST_CHARACTERS:,} characters in it; is it a table? A "
            "run is described by a YAML file"
        )
    loader = _Loader(text, times * MOST_VALUES)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
