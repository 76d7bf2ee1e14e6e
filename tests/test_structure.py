"""Laws of the source itself: floors, forbidden imports, exported names, documentation.

The laws are in ``laws.py``. Each is asked of every module, and shown to fail where it is broken.
"""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import colonnade
import laws
from colonnade import errors
from laws import CHANCE, CLOCKS, FILES, FLOOR, NEVER_FILES, THREADS, Module

SOURCE = Path(colonnade.__file__).parent


def _name(path):
    parts = ("colonnade", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    _name(path): Module(_name(path), path.read_text(encoding="utf-8"))
    for path in sorted(SOURCE.rglob("*.py"))
}
each_module = pytest.mark.parametrize("module", MODULES.values(), ids=list(MODULES))

LAWS = [
    laws.imports_from_above,
    laws.hidden_imports,
    laws.reaches_the_world,
    laws.hidden_chance,
    laws.mixes_seed_and_secrets,
    laws.touches_files,
    laws.data_becomes_code,
    laws.picks_columns_by_pattern,
    laws.imports_beyond_its_needs,
    laws.peeks_into_parts,
    laws.wrong_exports,
    laws.undocumented,
    laws.misplaced_errors,
]


@each_module
def test_a_module_keeps_the_laws(module):
    found = {law: law(module) for law in LAWS}
    broken = [
        f"{law.__doc__.splitlines()[0]} {'; '.join(told)}" for law, told in found.items() if told
    ]
    assert not broken, f"{module.name}: {' '.join(broken)}"


def test_no_modules_import_each_other_in_a_circle():
    assert not laws.circles(MODULES.values())


def test_the_tables_name_nothing_that_is_gone():
    assert set(FLOOR) == {module.room for module in MODULES.values()}
    for name in (*FILES, *CHANCE, *CLOCKS, *THREADS):
        assert name in MODULES
        assert MODULES[name].below_drivers


def test_nothing_that_must_be_the_same_everywhere_may_open_files():
    assert not {MODULES[name].room for name in (*FILES, *CLOCKS, *THREADS)} & NEVER_FILES


# Each law fails where it is broken

ROLE = "colonnade.roles.planted"
LOCAL = "colonnade.local_updates.planted"

PLANTED = {
    laws.imports_from_above: [
        (ROLE, "from colonnade.drivers import Simulate"),
        (ROLE, "import colonnade.drivers.simulate as s"),
        (ROLE, "def f():\n    from colonnade import Simulate"),
        (ROLE, "import colonnade"),
        ("colonnade.wire", "from colonnade.codecs import Codec"),
        ("colonnade.methods", "from colonnade import federation"),
        (ROLE, "from .rounds import Round"),
        (ROLE, "from . import rounds"),
        ("colonnade.novel.part", "import math"),
    ],
    laws.hidden_imports: [
        (ROLE, "__import__('time')"),
        (ROLE, "import importlib\nimportlib.import_module('time')"),
        (ROLE, "from importlib import import_module as load\nload('time')"),
        (ROLE, "import builtins as b\nb.__import__('time')"),
        ("colonnade.cli", "import importlib\nload = importlib.import_module"),
    ],
    laws.reaches_the_world: [
        (ROLE, "import time"),
        ("colonnade.tables.sqlite_bounds", "import time\ntime.sleep(1)"),
        ("colonnade.tables.sqlite_bounds", "import threading"),
        (ROLE, "from time import perf_counter as tick"),
        (ROLE, "def f():\n    import threading"),
        (ROLE, "import concurrent.futures"),
        (ROLE, "from urllib import request"),
        (ROLE, "import urllib.request"),
        ("colonnade.codecs.planted", "import socket"),
        ("colonnade.wire", "import asyncio"),
        (ROLE, "def f(loop):\n    loop.sleep(1)"),
        (ROLE, "import datetime\ndatetime.datetime.now()"),
        (ROLE, "from datetime import datetime as d\nd.now()"),
        (ROLE, "from datetime import datetime as d\nclock = d.utcnow"),
        (ROLE, "import datetime as d\nd.date.today()"),
    ],
    laws.hidden_chance: [
        (ROLE, "import random"),
        (ROLE, "import secrets"),
        (ROLE, "from random import random as r"),
        (ROLE, "import numpy as n\nn.random.rand()"),
        (ROLE, "import numpy\nnumpy.random.default_rng()"),
        (ROLE, "from numpy import random as r\nr.rand()"),
        (ROLE, "from numpy.random import default_rng"),
        (ROLE, "import numpy.random as r"),
        (ROLE, "import numpy as n\nm = n\nm.random.rand()"),
        (ROLE, "import os\nos.urandom(8)"),
        (ROLE, "from os import urandom"),
        (ROLE, "from os import urandom as u\nu(8)"),
        (ROLE, "import os as o\ndraw = o.urandom"),
        (ROLE, "import os\ngetattr(os, 'urandom')(8)"),
        (ROLE, "import uuid\nuuid.uuid4()"),
        (ROLE, "from uuid import uuid1"),
        ("colonnade.checkpoints", "import os\nos.urandom(8)"),
        (ROLE, "import torch\ntorch.manual_seed(0)"),
        (ROLE, "from torch import random as r\nr.set_rng_state(0)"),
        (ROLE, "import torch as t\nt.rand(3)"),
        (ROLE, "from torch import randn\nrandn(3)"),
        (ROLE, "def f(x):\n    x.normal_()"),
        (ROLE, "from cryptography.hazmat.primitives import hashes"),
        ("colonnade.secure.planted", "import os\nos.urandom(8)"),
    ],
    laws.mixes_seed_and_secrets: [
        ("colonnade.secure.planted", "from colonnade.streams import StreamKey"),
        ("colonnade.privacy.planted", "from colonnade.kernels.philox import uniform_words"),
        ("colonnade.privacy.planted", "import torch\ndef f(g):\n    torch.randn(3, generator=g)"),
        ("colonnade.defences.planted", "from colonnade.kernels.philox import permutation"),
        (ROLE, "from colonnade.secure import Keystream\nKeystream(bytes(16))"),
        (ROLE, "from colonnade.secure import Secrets\nSecrets.insecure(7)"),
        (ROLE, "from colonnade.secure import Source\nSource('bank', 0, False, b'', b'')"),
        (ROLE, "from colonnade.secure.secrets import Secrets as S\nS(bytes(32))"),
    ],
    laws.touches_files: [
        (ROLE, "open('x')"),
        (ROLE, "import builtins\nbuiltins.open('x')"),
        (ROLE, "import builtins as b\nb.open('x')"),
        (ROLE, "from builtins import open as o\no('x')"),
        (ROLE, "opener = open"),
        (ROLE, "import io\nio.open('x')"),
        (ROLE, "import os"),
        (ROLE, "from os import path"),
        (ROLE, "from pathlib import Path"),
        (ROLE, "def f(folder):\n    folder.open()"),
        (ROLE, "def f(folder):\n    return folder.read_text()"),
        (ROLE, "def f(folder):\n    return folder.write_bytes(b'')"),
        (ROLE, "import numpy as n\nn.save('x', 1)"),
        (ROLE, "import torch\ntorch.save(1, 'x')"),
        (ROLE, "import polars as pl\npl.read_csv('x')"),
        *[(f"colonnade.{room}.planted", "open('x')") for room in sorted(NEVER_FILES)],
        ("colonnade.tables.planted", "open('x')"),
        ("colonnade.surrogates.memory", "import mmap"),
    ],
    laws.data_becomes_code: [
        ("colonnade.cli", "import pickle"),
        ("colonnade.runs", "from pickle import loads"),
        ("colonnade.cli", "eval('1')"),
        ("colonnade.cli", "import builtins\nbuiltins.exec('1')"),
        ("colonnade.cli", "run = exec"),
        ("colonnade.cli", "import torch as t\nt.load('x')"),
        ("colonnade.cli", "from torch import load as l\nl('x')"),
        ("colonnade.cli", "import yaml as y\ny.unsafe_load('x')"),
        ("colonnade.cli", "import joblib"),
        ("colonnade.cli", "def f():\n    import marshal"),
    ],
    laws.imports_beyond_its_needs: [
        (ROLE, "import logging"),
        (ROLE, "from safetensors.torch import save_file"),
        ("colonnade.uplinks.planted", "def f():\n    import polars"),
        (
            "colonnade.codecs.planted",
            "from cryptography.hazmat import primitives",
        ),
        ("colonnade.exchanges.planted", "import trio, torch"),
        ("colonnade.defences.planted", "import polars"),
        ("colonnade.privacy.planted", "import yaml"),
    ],
    laws.picks_columns_by_pattern: [
        ("colonnade.tables.planted", "def f(frame, names):\n    return frame.select(names)"),
        ("colonnade.tables.planted", "def f(frame, id):\n    return frame.drop(id)"),
        ("colonnade.streamed.planted", "import polars as pl\ndef f(name):\n    pl.col(name)"),
        ("colonnade.tables.planted", "from polars import selectors"),
    ],
    laws.peeks_into_parts: [
        (ROLE, "from colonnade.uplinks import Plain as P\ndef f(x):\n    return isinstance(x, P)"),
        (ROLE, "def f(x):\n    return type(x) in (int, Plain)"),
        (ROLE, "def f(method):\n    return getattr(method.uplink, 'link')"),
        (ROLE, "def f(uplink):\n    return hasattr(uplink, 'link')"),
        ("colonnade.planning.planted", "def f(method):\n    return method.uplink.link"),
        ("colonnade.planning.planted", "def f(method):\n    u = 1\n    return method.exchange.top"),
        ("colonnade.federation", "def f(uplink):\n    return uplink.held_out"),
        (ROLE, "def f(m):\n    match m.exchange:\n        case Split(): return 1"),
        (ROLE, "from colonnade import exchanges\nisinstance(1, exchanges.Relay)"),
        (ROLE, "def f(x):\n    return isinstance(x, (int, Consecutive))"),
        (ROLE, "def f(x):\n    return type(x) is Plain"),
        ("colonnade.cli", "def f(x):\n    return isinstance(x, Direct | ErrorFeedback)"),
        (ROLE, "def f(self):\n    return self._local_updates.passes"),
        (ROLE, "def f(self):\n    return getattr(self._local_updates, 'passes', 0)"),
        (ROLE, "def f(self):\n    u = self._local_updates\n    return u.passes"),
        (ROLE, "def f(m):\n    if u := m.local_updates:\n        return u.passes"),
        (ROLE, "def f(x):\n    return type(x).__name__ == 'Proximal'"),
        (ROLE, "def f(x):\n    return 'Proximal' == type(x).__name__"),
        (ROLE, "def f(x):\n    return x.__class__ is Proximal"),
        (ROLE, "def f(self):\n    return type(self._uplink) == self.kind"),
        # Halves of policies, and what was collected
        (ROLE, "def f(self):\n    return self._steps._rotation.steps"),
        (ROLE, "def f(self):\n    s = self._steps\n    return s.capacity"),
        (ROLE, "def f(self):\n    return type(self._steps).__name__ == '_PartyWorkset'"),
        (ROLE, "def f(half: HolderSteps):\n    return half.bursts"),
        (ROLE, "def f(self):\n    return getattr(self._steps, 'capacity', 1)"),
        (LOCAL, "def f(batch):\n    return hasattr(batch.collected, 'embeddings')"),
        (LOCAL, "def f(batch):\n    return batch.collected.embeddings"),
        (LOCAL, "def f(c):\n    return hasattr(c, 'embeddings')"),
        (LOCAL, "def f(c: Collected | None):\n    return c.bodies"),
        (ROLE, "def f(collected: Itemised):\n    return collected.embeddings"),
        # Mechanisms, their events, and defences
        ("colonnade.uplinks.masked", "def f(x):\n    return isinstance(x, PoissonBinomial)"),
        ("colonnade.uplinks.planted", "def f(self):\n    return self.mechanism.trials"),
        ("colonnade.uplinks.planted", "def f(summand: Summand):\n    return summand.trials"),
        ("colonnade.uplinks.planted", "def f(self):\n    return self.noise.multiplier"),
        ("colonnade.uplinks.planted", "def f(x):\n    return hasattr(x, 'multiplier')"),
        ("colonnade.uplinks.account", "def f(x):\n    return isinstance(x, BinomialSum)"),
        ("colonnade.uplinks.account", "def f(event):\n    return event.trials"),
        (
            "colonnade.privacy.accountant",
            "match 1:\n    case GaussianNoise(): 1",
        ),
        ("colonnade.privacy.planted", "def f(x):\n    return type(x) is Unprotected"),
        (
            ROLE,
            "from colonnade.defences import Bare\ndef f(self):\n    isinstance(self._guard, Bare)",
        ),
        (ROLE, "def f(self):\n    return self._guard.account"),
        ("colonnade.exchanges.split", "def f(self):\n    return self.defence.multiplier"),
        ("colonnade.exchanges.planted", "def f(d: Defence | None):\n    return d.limit"),
        ("colonnade.reports.planted", "def f(x):\n    return isinstance(x, GaussianDerivatives)"),
        ("colonnade.defences.planted", "def f(x):\n    return hasattr(x, 'account')"),
        # Costs, delays and drivers
        ("colonnade.planning.planted", "def f(costs):\n    return isinstance(costs, Measured)"),
        ("colonnade.planning.planted", "def f(d: Driver):\n    return d.costs"),
        ("colonnade.drivers.planted", "def f(self):\n    return self.costs.slowdown"),
        ("colonnade.drivers.planted", "from colonnade.costs import Delayed as D\nisinstance(1, D)"),
        ("colonnade.drivers.planted", "def f(costs):\n    return getattr(costs, 'costs', costs)"),
        ("colonnade.drivers.planted", "def f(costs):\n    return getattr(costs, 'label')"),
        ("colonnade.costs", "def f(d):\n    return isinstance(d, FromTrace)"),
        ("colonnade.costs", "def f(delay):\n    return delay.mean"),
        ("colonnade.config.world", "def f(delay):\n    return isinstance(delay, Constant)"),
        ("colonnade.federation", "def f(x):\n    return isinstance(x, Simulate)"),
        ("colonnade.federation", "def f(driver):\n    return driver.costs"),
        ("colonnade.federation", "def f(driver):\n    return hasattr(driver, 'costs')"),
    ],
    laws.wrong_exports: [
        (ROLE, "def f(): ..."),
        (ROLE, "class A: ..."),
        (ROLE, "__all__ = ['f']"),
        (ROLE, "def f(): ...\n__all__ = ['f', 'f']"),
    ],
    laws.undocumented: [
        (ROLE, "x = 1"),
        (ROLE, "'''A module.'''\ndef f(): ..."),
        (ROLE, "'''A module.'''\nasync def f(): ..."),
        (ROLE, "'''A module.'''\nclass A: ..."),
        (ROLE, "'''A module.'''\nclass A:\n    '''A class.'''\n    def f(self): ..."),
    ],
    laws.misplaced_errors: [
        (ROLE, "class Wrong(Exception): ..."),
        (ROLE, "class Wrong(ValueError): ..."),
        ("colonnade.cli", "class Leave(BaseException): ..."),
    ],
}

KEPT = {
    laws.imports_from_above: [
        (ROLE, "from colonnade.links import Link\nfrom colonnade.roles import rounds"),
        ("colonnade.cli", "from colonnade import __version__"),
        ("colonnade.demo", "from colonnade.cli import main"),
    ],
    laws.hidden_imports: [(ROLE, "import importlib.metadata")],
    laws.reaches_the_world: [
        ("colonnade.drivers.planted", "import time"),
        (ROLE, "from datetime import date\nfrom urllib.parse import quote\ntime = 1"),
        (ROLE, "from colonnade.effects import Since\nSince.NOW"),
    ],
    laws.hidden_chance: [
        ("colonnade.surrogates.disk", "import os\nos.urandom(8)"),
        ("colonnade.drivers.planted", "import torch\ntorch.manual_seed(0)"),
        (ROLE, "import torch\ndef f(g):\n    torch.rand(3, generator=g).uniform_(generator=g)"),
        (ROLE, "import uuid\nuuid.UUID"),
        ("colonnade.models.planted", "from torch import nn\nnn.init.normal_(1)"),
        (ROLE, "def f(uuid, random):\n    return uuid + random.choice"),
        ("colonnade.secure.planted", "from cryptography.hazmat.primitives import hashes"),
        ("colonnade.secure.secrets", "import secrets\nsecrets.token_bytes(8)"),
    ],
    laws.mixes_seed_and_secrets: [
        ("colonnade.secure.planted", "from colonnade.secure.secrets import Secrets\nSecrets(b'')"),
        ("colonnade.layout", "from colonnade.secure import Secrets\nSecrets.system()"),
        (ROLE, "def f(secrets):\n    return secrets.keystream('noise', 3)"),
        ("colonnade.testing.planted", "from colonnade.secure import Keystream\nKeystream(1)"),
    ],
    laws.touches_files: [
        ("colonnade.tables.stored", "from pathlib import Path\nPath('x').open()"),
        ("colonnade.drivers.planted", "open('x')"),
        (ROLE, "import torch, numpy\nimport json"),
    ],
    laws.data_becomes_code: [
        ("colonnade.cli", "import yaml\nyaml.safe_load('1')\ndef f(model):\n    model.eval()"),
    ],
    laws.imports_beyond_its_needs: [
        ("colonnade.drivers.planted", "import logging"),
        (ROLE, "import math, torch.nn\nfrom colonnade import links"),
    ],
    laws.picks_columns_by_pattern: [
        ("colonnade.tables.planted", "import polars\ndef f(scan):\n    scan.select(polars.len())"),
        ("colonnade.tables.planted", "import sqlalchemy as sql\ndef f(x):\n    sql.select(*x)"),
        ("colonnade.ledger", "import polars\npolars.col('bytes')"),
    ],
    laws.peeks_into_parts: [
        (
            "colonnade.exchanges.planted",
            "class Mine:\n    share: float\ndef f(exchange: Mine):\n    return exchange.share",
        ),
        ("colonnade.planning.planted", "def f(m, l):\n    return m.uplink.flows(l, 1, 2)"),
        ("colonnade.exchanges.split", "def f(x):\n    return isinstance(x, Split)"),
        (ROLE, "def f(x):\n    return isinstance(x, int | str)"),
        (ROLE, "def f(x):\n    return type(x).__name__ == 'Tensor'"),
        (ROLE, "def f(self):\n    u = self._local_updates\n    return u.repeats"),
        (ROLE, "def f(self):\n    self._steps.add(1)\n    return self._steps.steps(2)"),
        (ROLE, "def f(batch):\n    return batch.collected.fuse(None)"),
        (ROLE, "def f(collected: Itemised):\n    return collected.bodies"),
        (
            "colonnade.defences.planted",
            "class Mine:\n    @property\n    def limit(self): ...\n"
            "def f(defence: Mine):\n    return defence.limit",
        ),
        ("colonnade.uplinks.planted", "def f(self):\n    return self.mechanism.event(4, 1).draws"),
        ("colonnade.uplinks.planted", "def f(noise, words):\n    noise.fill(words)"),
        (ROLE, "def f(self, d, m):\n    return self._guard.protected(d, m)"),
        ("colonnade.privacy.planted", "def f(event):\n    return event.under('sample')"),
        (ROLE, "from colonnade.drivers import Elsewhere\nisinstance(1, Elsewhere)"),
        ("colonnade.drivers.planted", "def f(costs):\n    return getattr(costs, 'measures', True)"),
        (
            "colonnade.planning.planted",
            "class OnAClock(Protocol):\n    def network(self): ...\n"
            "def f(driver):\n    return isinstance(driver, OnAClock) and driver.network",
        ),
        ("colonnade.config.planted", "def f(self):\n    return self.costs.build()"),
        ("colonnade.costs", "def f(x):\n    return isinstance(x, Delayed)"),
    ],
    laws.wrong_exports: [(ROLE, "def f(): ...\n__all__ = ['f']"), (ROLE, "def _f(): ...")],
    laws.undocumented: [(ROLE, "'''A module.'''\ndef _f(): ...\nclass _A:\n    def f(self): ...")],
    laws.misplaced_errors: [
        (ROLE, "class _Signal(Exception): ..."),
        (ROLE, "from colonnade.errors import Diverged"),
    ],
}


def _cases(planted):
    return [(law, name, source) for law, cases in planted.items() for name, source in cases]


def _title(value):
    return getattr(value, "__name__", str(value)).replace("\n", "; ")


@pytest.mark.parametrize(("law", "name", "source"), _cases(PLANTED), ids=_title)
def test_what_breaks_a_law_is_found(law, name, source):
    assert law(Module(name, source, planted=True))


@pytest.mark.parametrize(("law", "name", "source"), _cases(KEPT), ids=_title)
def test_what_keeps_a_law_is_left_alone(law, name, source):
    assert not law(Module(name, source, planted=True))


def test_no_law_is_untested():
    assert set(PLANTED) == set(KEPT) == set(LAWS)


def test_a_circle_is_found():
    one = Module("colonnade.one", "from colonnade.two import f")
    two = Module("colonnade.two", "def f():\n    import colonnade.three")
    three = Module("colonnade.three", "from colonnade import one")
    assert not laws.circles([one, two])
    (found,) = laws.circles([one, two, three])
    assert all(module.name in found for module in (one, two, three))


# Documentation


@pytest.mark.parametrize(
    "module",
    [m for m in MODULES.values() if ">>> " in m.source],
    ids=lambda module: module.name,
)
def test_examples_in_docstrings_are_true(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(module.value)
    assert results.attempted > 0, f"doctest does not find the examples of {module.name}"
    assert results.failed == 0, f"{results.failed} examples of {module.name} fail; see the output"


# Errors


def test_all_errors_are_in_one_tree():
    classes = dict(inspect.getmembers(errors, inspect.isclass))
    assert sorted(classes) == sorted(errors.__all__)
    for name, error in classes.items():
        assert error.__module__ == "colonnade.errors"
        assert issubclass(error, errors.ColonnadeError | Warning), name
        assert name in errors.__doc__, f"{name} is not in the tree that the module begins with"
    assert issubclass(errors.ColonnadeError, Exception)
