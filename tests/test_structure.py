"""Laws of the house: floors, what may not be imported where, names that exist, doctests."""

from __future__ import annotations

import ast
import doctest
import inspect
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import colonnade
from colonnade import errors

SOURCE = Path(colonnade.__file__).parent

# A module imports from floors below its own, or from its own without a cycle. A new module or
# package needs a place here, and in docs/design.md.
FLOORS = [
    {"errors", "streams", "wire", "effects", "kernels", "models"},
    {"codecs", "links", "batches", "ledger", "checkpoints", "channels", "costs"},
    {"uplinks", "roles"},
    {"drivers"},
    {"metrics", "runs"},
    {"datasets", "methods", "reports"},
    {"federation"},
    {"config"},
    {"demo", "cli"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {name_of(path): ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}
ROOMS = sorted(set(TREES) - {"colonnade"})


def imports(tree):
    """Return the full names of everything that a module imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(tree):
    """Return which of our own modules a module imports."""
    found = set()
    for name in imports(tree):
        while name and name not in TREES:
            name = name.rpartition(".")[0]
        found.add(name)
    return found - {"", "colonnade"}


@pytest.mark.parametrize("module", ROOMS)
def test_a_module_imports_only_from_floors_below_or_its_own(module):
    room = module.split(".")[1]
    assert room in FLOOR, f"{room} has no floor: give it one in this test and in docs/design.md"
    for other in modules(TREES[module]):
        assert FLOOR[other.split(".")[1]] <= FLOOR[room], f"{module} imports {other} from above"


def test_no_cycle():
    # A package's own __init__ only gathers what its modules define.
    graph = {
        module: {other for other in modules(tree) if not module.startswith(f"{other}.")}
        for module, tree in TREES.items()
        if module != "colonnade"
    }
    order = list(TopologicalSorter(graph).static_order())
    assert set(order) == set(ROOMS)


CLOCKS = {
    "asyncio", "multiprocessing", "random", "select", "signal", "socket", "subprocess",
    "threading", "time",
}  # fmt: skip


@pytest.mark.parametrize("module", [m for m in ROOMS if FLOOR[m.split(".")[1]] < 3])
def test_below_the_drivers_there_is_no_clock_thread_socket_or_hidden_randomness(module):
    assert not {name.split(".")[0] for name in imports(TREES[module])} & CLOCKS


@pytest.mark.parametrize("module", TREES)
def test_nothing_runs_code_that_came_as_data(module):
    forbidden = {"pickle", "cloudpickle", "marshal", "shelve", "dill"}
    assert not {name.split(".")[0] for name in imports(TREES[module])} & forbidden
    calls = {
        ast.unparse(node.func) for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)
    }
    assert not calls & {"eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load"}


@pytest.mark.parametrize("module", TREES)
def test_exported_names_exist_and_are_described(module):
    home = import_module(module)
    assert home.__doc__
    for name in getattr(home, "__all__", []):
        value = getattr(home, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{module}.{name} has no docstring"


@pytest.mark.parametrize("module", TREES)
def test_examples_in_docstrings(module):
    result = doctest.testmod(import_module(module))
    assert result.failed == 0


def test_every_error_is_in_the_tree_and_exported():
    classes = {n for n, v in vars(errors).items() if inspect.isclass(v)}
    assert classes == set(errors.__all__)
    for name in classes:
        assert issubclass(getattr(errors, name), errors.ColonnadeError)
    tree = (errors.__doc__ or "").split()
    assert classes <= set(tree), "the picture of the tree lacks one"
