"""Configuration: YAML to objects and back; the only place where a string picks a class.

A configuration is validated whole before anything is made or written: an unknown key, a wrong type
or an impossible value is a ``ConfigurationError`` that names the field by its path.
"""

from colonnade.config.parse import json_schema, load_config, override, parse_config
from colonnade.config.run import RunConfig
from colonnade.config.trained import Trained, load_trained

__all__ = [
    "RunConfig",
    "Trained",
    "json_schema",
    "load_config",
    "load_trained",
    "override",
    "parse_config",
]
