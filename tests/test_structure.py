"""Laws of the source itself: floors, forbidden imports, exported names, documentation."""

from __future__ import annotations

import ast
import doctest
import graphlib
import importlib
import inspect
from functools import cache
from pathlib import Path

import pytest

import colonnade
from colonnade import errors

SOURCE = Path(colonnade.__file__).parent

# Every module, or a whole package, and its floor: it imports from floors below and from its own.
FLOORS = [
    "errors streams wire effects kernels models",
    "codecs surrogates links batches ledger checkpoints journals channels costs descriptions "
    "tables",
    "local_updates exchanges uplinks roles",
    "drivers",
    "metrics checks organisations prediction export runs",
    "reports methods datasets training objectives",
    "casting",
    "federation",
    "planning assembly partners progress",
    "estimators",
    "config",
    "experiments",
    "demo console cli",
]
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}
FLOOR[""] = len(FLOORS)  # colonnade itself hands out names of every floor

NO_WORLD = {
    "asyncio",
    "concurrent",
    "multiprocessing",
    "random",
    "sched",
    "select",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
}
NO_CODE_IN_DATA = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "torch.load",
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.unsafe_load",
    "yaml.unsafe_load_all",
}


def _name(path):
    parts = ("colonnade", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
each_module = pytest.mark.parametrize("module", list(PATHS))


@cache
def tree(module):
    return ast.parse(PATHS[module].read_text(encoding="utf-8"))


def room(module):
    """The part of a name that the table of floors knows: colonnade.codecs.float is in codecs."""
    return (module + ".").split(".")[1]


def imported(module, nodes=None):
    """Dotted names of everything a module imports, wherever in it: modules, and names of them."""
    for node in ast.walk(nodes or tree(module)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.asname or alias.name.split(".")[0], bool(alias.asname)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import; write the module's full name"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", alias.asname or alias.name, True


def dependencies(module):
    """The modules of Colonnade that a module imports; its version is none."""
    for name, _, _ in imported(module):
        if name.split(".")[0] == "colonnade" and name != "colonnade.__version__":
            yield name if name in PATHS else name.rpartition(".")[0]


def calls(module, nodes=None):
    """Dotted names of what a module calls, local names replaced by what was imported as them."""
    local = {short: name for name, short, renamed in imported(module, nodes) if renamed}
    for node in ast.walk(nodes or tree(module)):
        if isinstance(node, ast.Call):
            first, dot, rest = ast.unparse(node.func).partition(".")
            yield local.get(first, first) + dot + rest


def test_the_walk_finds_what_it_should():
    nodes = ast.parse(
        "import yaml as y, torch.nn\n"
        "def f():\n"
        "    from torch import load as l, nn\n"
        "    l(1); y.load(2); torch.nn.Linear(3); model.eval()\n"
    )
    names = [name for name, _, _ in imported("x", nodes)]
    assert names == ["yaml", "torch.nn", "torch.load", "torch.nn"]
    assert list(calls("x", nodes)) == ["torch.load", "yaml.load", "torch.nn.Linear", "model.eval"]
    assert "colonnade.drivers.control" in set(dependencies("colonnade.drivers.child"))
    assert "colonnade.errors" in set(dependencies("colonnade.wire"))


@each_module
def test_a_module_imports_from_its_own_floor_and_below(module):
    assert room(module) in FLOOR, (
        f"{module} is new: put {room(module)!r} on its floor in the table FLOORS of this test"
    )
    floor = FLOOR[room(module)]
    above = [name for name in dependencies(module) if FLOOR.get(room(name), 99) > floor]
    assert not above, f"{module} is on floor {floor} and must not import {', '.join(above)}"


def test_the_table_of_floors_names_nothing_that_is_gone():
    assert set(FLOOR) == {room(module) for module in PATHS}


def test_no_modules_import_each_other_in_a_circle():
    graph = {module: set(dependencies(module)) for module in PATHS}
    try:
        order = list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")
    assert set(order) == set(PATHS)


@each_module
def test_no_import_escapes_the_walk(module):
    dynamic = {"importlib.import_module", "import_module", "__import__", "importlib.__import__"}
    assert module == "colonnade" or not dynamic & set(calls(module))


@pytest.mark.parametrize("module", [m for m in PATHS if FLOOR.get(room(m), 0) < 3])
def test_below_the_drivers_nothing_reaches_the_world(module):
    """Neither clock, nor thread, nor socket, nor hidden randomness: a driver gives all that."""
    found = {name.split(".")[0] for name, _, _ in imported(module)} & NO_WORLD
    assert not found, f"{module} must not import {', '.join(found)}"
    sleeping = [call for call in calls(module) if call.split(".")[-1] == "sleep"]
    clocks = [call for call in calls(module) if call.startswith("time.")]
    assert not sleeping + clocks


@each_module
def test_no_data_can_become_code(module):
    found = {name.split(".")[0] for name, _, _ in imported(module)} & NO_CODE_IN_DATA
    assert not found, f"{module} must not import {', '.join(found)}"
    bad = {call.removeprefix("builtins.") for call in calls(module)} & FORBIDDEN_CALLS
    assert not bad, f"{module} must not call {', '.join(bad)}"


# Names and documentation


def importable(module):
    return importlib.import_module(module)


@each_module
def test_exported_names_exist_once_and_in_order(module):
    names = getattr(importable(module), "__all__", None)
    if names is None:
        public = [node.name for node in definitions(tree(module)) if public_name(node.name)]
        assert not public, f"{module} defines {', '.join(public)}, and has no __all__"
        return
    assert len(names) == len(set(names))
    missing = [name for name in names if not hasattr(importable(module), name)]
    assert not missing, f"{module}.__all__ names {', '.join(missing)}, which is not there"


def definitions(node):
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [child for child in node.body if isinstance(child, kinds)]


def public_name(name):
    return not name.startswith("_")


def undocumented(node, path):
    for child in definitions(node):
        if not public_name(child.name):
            continue
        name = f"{path}.{child.name}"
        if not ast.get_docstring(child):
            yield name
        if isinstance(child, ast.ClassDef):
            yield from undocumented(child, name)


@each_module
def test_everything_public_is_documented(module):
    assert ast.get_docstring(tree(module)), f"{module} has no docstring"
    assert not list(undocumented(tree(module), module))


def with_examples(module):
    return any(
        ">>> " in (ast.get_docstring(node) or "")
        for node in ast.walk(tree(module))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    )


@pytest.mark.parametrize("module", [module for module in PATHS if with_examples(module)])
def test_examples_in_docstrings_are_true(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testmod(importable(module))
    assert results.attempted > 0, f"doctest does not find the examples of {module}"
    assert results.failed == 0, f"{results.failed} examples of {module} fail; see the output"


# Errors


def test_all_errors_are_in_one_tree():
    classes = dict(inspect.getmembers(errors, inspect.isclass))
    assert sorted(classes) == sorted(errors.__all__)
    for name, error in classes.items():
        assert error.__module__ == "colonnade.errors"
        assert issubclass(error, errors.ColonnadeError), name
        assert name in errors.__doc__, f"{name} is not in the tree that the module begins with"
    assert issubclass(errors.ColonnadeError, Exception)


@each_module
def test_errors_are_defined_in_one_place(module):
    if module == "colonnade.errors":
        return
    for name, value in vars(importable(module)).items():
        if inspect.isclass(value) and value.__module__ == module and public_name(name):
            assert not issubclass(value, BaseException), f"{name} belongs into colonnade.errors"
