"""What a package of this project says of itself."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_licence_is_the_text_of_apache_2_and_travels_with_the_package():
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    # A classifier beside the expression is refused by package indices.
    assert not [name for name in project["classifiers"] if name.startswith("License")]
    assert "Apache-2.0" in (ROOT / "README.md").read_text(encoding="utf-8")
