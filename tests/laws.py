"""The laws of the source as functions of one module: each returns what it finds broken.

``test_structure.py`` asks them of every module of Colonnade, and of modules planted to break them.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import graphlib
import importlib
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType

from colonnade import (
    costs,
    defences,
    delays,
    drivers,
    exchanges,
    links,
    local_updates,
    privacy,
    stragglers,
    uplinks,
)
from colonnade.agreement import Exchange
from colonnade.costs import CostModel
from colonnade.defences import Defence, Guard
from colonnade.delays import Delay
from colonnade.drivers import Driver
from colonnade.local_updates import HolderSteps, LocalUpdates, PartySteps
from colonnade.privacy import Event, Perturbation, Summand
from colonnade.secure import Keystream
from colonnade.stragglers import Stragglers
from colonnade.uplinks import Collected, Collector, Itemised, Uplink, Uploader

# Every module, or a whole package, and its floor: it imports from floors below and from its own.
FLOORS = [
    "errors streams wire effects kernels models defaults telling faults locks paths drawing "
    "yaml_text annotated quiet turns forked ordinary",
    "codecs surrogates links flows labelling disclosures layout metrics organisations secure "
    "privacy",
    "batches ledger tallies clocks traces checkpoints journals departures channels costs delays "
    "descriptions functions_told bound_anew own_code lookups packages_told tables",
    "local_updates stragglers training uplinks defences evaluation agreement",
    "roles",
    "exchanges method",
    "drivers",
    "alone checks fallbacks prediction export runs run_folder run_read run_seal summaries "
    "summaries_read reaching sent local_reports networks_told notes predictions_told "
    "predictions_counted outputs runs_told",
    "reports methods datasets objectives streamed",
    "federation",
    "planning assembly alignment partners progress convergence audits",
    "estimators",
    "config",
    "serving",
    "experiments deployment",
    "demo audit_subjects console cli testing",
]
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}
FLOOR[""] = len(FLOORS)  # colonnade itself hands out names of every floor
DRIVERS = FLOOR["drivers"]

FILES = {
    "colonnade.checkpoints": "a cut is kept on disk, for the driver that asks for it",
    "colonnade.departures": "what had left when a process was killed can be counted",
    "colonnade.journals": "what was committed is on disk before what follows it leaves",
    "colonnade.turns": "opens none, and lets no process inherit a lock",
    "colonnade.forked": "asks the system which threads a process has as it is forked",
    "colonnade.locks": "two processes must not write what others of this list write",
    "colonnade.ledger": "a ledger is handed over as CSV, when training is over",
    "colonnade.ordinary": "reads for others of this list, and waits for no pipe",
    "colonnade.paths": "makes a path of a text, and opens none",
    "colonnade.surrogates.disk": "surrogates that outgrow memory",
    "colonnade.surrogates.lock": "two processes must not write one table",
    "colonnade.surrogates.marks": "what a killed process finds again",
    "colonnade.surrogates.slots": "the rows of a table on disk",
    "colonnade.tables.database": "reads the user's tables before any role runs",
    "colonnade.tables.delimited": "reads the user's tables before any role runs",
    "colonnade.tables.read": "tells the kinds of the user's files apart",
    "colonnade.delays": "reads who was how slow, as the user has measured it",
    "colonnade.tables.sqlite_bounds": "tells how much SQLite sorts on the disk",
    "colonnade.tables.sqlite_trims": "gives functions to SQLite, and asks one in memory",
    "colonnade.tables.there": "tells whether the user's files are there",
    "colonnade.tables.stored": "reads columns and rows of a Parquet file when they are needed",
}
"""Modules below the drivers that may open files, each with its reason. Nobody else there may."""

CLOCKS = {
    "colonnade.tables.sqlite_bounds": "ends a query that takes an hour, before any role runs",
}
"""Modules below the drivers that may ask how long something took. Nobody else there may."""

THREADS = {
    "colonnade.turns": "what is one for all threads, which are the user's, one uses at a time",
}
"""Modules below the drivers that know of threads. Nobody else there may."""

NEVER_FILES = {
    *("agreement", "codecs", "defences", "exchanges", "flows", "kernels", "labelling", "links"),
    *("local_updates", "method", "privacy", "roles", "stragglers", "uplinks"),
}
"""Rooms that cannot be on that list: what they do must be the same under every driver."""

PURE = {
    *("__future__", "abc", "bisect", "collections", "colonnade", "constriction", "copy"),
    *(
        "dataclasses",
        "difflib",
        "dp_accounting",
        "enum",
        "functools",
        "hashlib",
        "itertools",
        "llvmlite",
        "math",
    ),
    *("numba", "numpy", "scipy", "struct", "torch", "types", "typing", "warnings"),
}
"""What those rooms may import besides Colonnade itself: nothing there knows of a world."""

CHANCE = {
    "colonnade.secure.secrets": "root secrets; all else that is secret is derived from one",
    "colonnade.surrogates.disk": "a mark tells two files of a table apart; no result depends on it",
}
"""Modules below the drivers that may ask the operating system for random bytes."""

SECRET = {"secure", "privacy"}
"""Rooms where everything that is drawn is secret."""

ROOTS = {
    "colonnade.alignment.private": "gives each organisation that aligns a root of its own",
    "colonnade.layout": "gives an organisation that brings none a root of its own",
    "colonnade.testing.mechanisms": "tries mechanisms with noise that is the same each time",
}
"""Modules outside of these rooms that make root secrets."""

_WORLD = {
    *("asyncio", "concurrent", "ftplib", "http", "httpx", "multiprocessing", "requests", "sched"),
    *("select", "selectors", "signal", "socket", "socketserver", "ssl", "subprocess", "threading"),
    *("_socket", "_thread", "aiohttp", "anyio", "curio", "queue", "smtplib", "time", "timeit"),
    *("torch.distributed", "trio", "urllib.request", "urllib3"),
}
_CLOCKS = {"now", "today", "utcnow"}  # of datetime, date, and whoever is like them
_CHANCE = {
    "cryptography",
    "numpy.random",
    "os.getrandom",
    "os.urandom",
    "random",
    "secrets",
    "uuid.getnode",
} | {f"uuid.uuid{version}" for version in (1, 4, 6, 7, 8)}
_FILES = {
    *("builtins.open", "fcntl", "fileinput", "glob", "gzip", "io.FileIO", "io.open", "mmap"),
    *("numpy.fromfile", "numpy.load", "numpy.loadtxt", "numpy.memmap", "numpy.save"),
    *("numpy.savetxt", "numpy.savez", "os", "pathlib", "polars.scan_csv"),
    *("polars.scan_parquet", "safetensors.safe_open", "shutil", "sqlite3", "tempfile"),
    *("torch.save", "zipfile"),
}
_FILE_METHODS = {
    *("open", "read_bytes", "read_csv", "read_parquet", "read_text", "tofile"),
    *("write_bytes", "write_csv", "write_parquet", "write_text"),
}
_CODE = {
    *("builtins.eval", "builtins.exec", "cloudpickle", "dill", "joblib", "marshal"),
    *("pickle", "shelve", "torch.load", "yaml.full_load", "yaml.full_load_all", "yaml.load"),
    *("yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all"),
}
_DYNAMIC = {"builtins.__import__", "importlib.__import__", "importlib.import_module"}
_SEEDS = {
    *("torch.initial_seed", "torch.manual_seed", "torch.random", "torch.seed"),
    *("torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.set_rng_state"),
}
_DRAWS = {
    f"torch.{name}"
    for name in (
        *("bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint"),
        *("randint_like", "randn", "randn_like", "randperm"),
    )
}
_DRAWING_METHODS = {
    *("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_"),
    *("uniform_",),
}


@dataclass(frozen=True)
class Module:
    """A module's dotted name and its source."""

    name: str
    source: str
    planted: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def value(self) -> ModuleType:
        """The module itself."""
        if not self.planted:
            return importlib.import_module(self.name)
        made = ModuleType(self.name)
        exec(compile(self.tree, self.name, "exec"), made.__dict__)  # a test's own
        return made

    @property
    def room(self) -> str:
        """What the table of floors knows: colonnade.codecs.float is in codecs."""
        return (self.name + ".").split(".")[1]

    @property
    def below_drivers(self) -> bool:
        return FLOOR.get(self.room, 0) < DRIVERS

    @cached_property
    def imported(self) -> list[tuple[str, str, bool]]:
        """Everything imported, wherever: its name, the local one, and whether they differ."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    short = alias.asname or alias.name.split(".")[0]
                    found.append((alias.name, short, bool(alias.asname)))
            elif isinstance(node, ast.ImportFrom):
                start = "." * node.level + (node.module or "")
                for alias in node.names:
                    found.append((f"{start}.{alias.name}", alias.asname or alias.name, True))
        return found

    @cached_property
    def _local(self) -> dict[str, str]:
        """What local names stand for: imports, and names given to what was imported."""
        local = {short: name if renamed else short for name, short, renamed in self.imported}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and (name := _dotted(node.value, local)):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        local.setdefault(target.id, name)
        return local

    def stands_for(self, name: str) -> str:
        """What a local name was imported as, or the name itself."""
        return self._local.get(name, name)

    @cached_property
    def used(self) -> list[str]:
        """Dotted names of everything that is read, local names replaced by what they stand for.

        ``getattr(os, "urandom")`` reads os.urandom.
        """
        found = [_dotted(node, self._local) for node in ast.walk(self.tree)]
        return [name for name in found if name]

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """Dotted names of what is called, with the call."""
        return [
            (_dotted(node.func, self._local) or ast.unparse(node.func), node)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call)
        ]

    def uses(self, names: Iterable[str]) -> list[str]:
        """Which of these, or what of these, is imported or read."""
        names = set(names)
        seen = [name for name, _, _ in self.imported] + self.used
        return sorted({name for name in seen if any(start in names for start in _starts(name))})

    def reads(self, attributes: Iterable[str]) -> list[str]:
        """Which attributes of these names are read, of whatever."""
        attributes = set(attributes)
        return sorted(
            {
                ast.unparse(node)
                for node in ast.walk(self.tree)
                if isinstance(node, ast.Attribute) and node.attr in attributes
            }
        )


def _starts(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: i + 1]) for i in range(len(parts)))


def _dotted(node: ast.AST, local: dict[str, str]) -> str:
    """Return ``a.b.c`` of an expression that is no more, if a was imported or is built in."""
    if isinstance(node, ast.Name):
        builtin = f"builtins.{node.id}" if hasattr(builtins, node.id) else ""
        return local.get(node.id, builtin)
    if isinstance(node, ast.Attribute):
        start = _dotted(node.value, local)
        return f"{start}.{node.attr}" if start else ""
    match node:
        case ast.Call(ast.Name("getattr"), [of, ast.Constant(str(attribute)), *_]):
            start = _dotted(of, local)
            return f"{start}.{attribute}" if start else ""
    return ""


# Imports


def dependencies(module: Module, modules: Iterable[str]) -> list[str]:
    """The modules of Colonnade that a module imports; its version is none."""
    return [
        name if name in modules else name.rpartition(".")[0]
        for name, _, _ in module.imported
        if name.split(".")[0] == "colonnade" and name != "colonnade.__version__"
    ]


def imports_from_above(module: Module) -> list[str]:
    """A module imports from its own floor and from those below, by full names."""
    if module.room not in FLOOR:
        return [f"{module.room!r} is new: put it on its floor in the table FLOORS"]
    found = [
        f"{name} is a relative import; write the module's full name"
        for name, _, _ in module.imported
        if name.startswith(".")
    ]
    floor = FLOOR[module.room]
    for name, _, _ in module.imported:
        if name.split(".")[0] == "colonnade" and name != "colonnade.__version__":
            room = name.split(".")[1] if "." in name else ""
            above = FLOOR.get(room, FLOOR[""])
            if above > floor:
                found.append(f"on floor {floor}, it must not import {name} of floor {above}")
    return found


def circles(modules: Iterable[Module]) -> list[str]:
    """No modules import each other in a circle."""
    modules = list(modules)
    names = {module.name for module in modules}
    graph = {module.name: set(dependencies(module, names)) for module in modules}
    try:
        list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        return [f"modules import each other: {' <- '.join(error.args[1])}"]
    return []


def hidden_imports(module: Module) -> list[str]:
    """Every import is a statement, so that the other laws see it; only colonnade's names wait."""
    return [] if module.name == "colonnade" else module.uses(_DYNAMIC)


# The world


def reaches_the_world(module: Module) -> list[str]:
    """Below the drivers: neither clock, nor thread, nor socket. A driver gives all that.

    Who asks a clock all the same, or knows of threads, is on a list.
    """
    if not module.below_drivers:
        return []
    sleeping = [name for name, _ in module.calls if name.split(".")[-1] == "sleep"]
    world = _WORLD - {"time"} if module.name in CLOCKS else _WORLD
    if module.name in THREADS:
        world = world - {"threading"}
    return module.uses(world) + module.reads(_CLOCKS) + sleeping


def hidden_chance(module: Module) -> list[str]:
    """Below the drivers: no randomness but that of keys (``streams``) and of seeded work.

    Torch's generators are seeded before each piece of work, for models that draw, as dropout does.
    Nobody else draws from them without naming a generator, and nobody seeds them.
    """
    if not module.below_drivers or module.name in CHANCE:
        return []
    chance = _CHANCE - {"cryptography"} if module.room == "secure" else _CHANCE
    found = module.uses(chance | _SEEDS)
    for name, call in module.calls:
        given = {keyword.arg for keyword in call.keywords}
        draws = name in _DRAWS or name.split(".")[-1] in _DRAWING_METHODS
        if draws and "generator" not in given and not name.startswith("torch.nn.init."):
            found.append(f"{name} without generator=")
    return found


def mixes_seed_and_secrets(module: Module) -> list[str]:
    """What is secret is drawn from a root secret, and never from the seed that all know.

    The rooms of secrets, and defences, see no public stream, and only the former make a keystream
    of a key: everybody else asks ``Secrets`` for one, which derives it from a root. Who makes
    ``Secrets`` is on a list.
    """
    public = {"colonnade.streams", "colonnade.kernels.philox", *_DRAWS}
    found = module.uses(public) if module.room in {"defences", *SECRET} else []
    if module.room in SECRET:
        return found
    makers = {f"colonnade.secure.{name}" for name in ("Keystream", "keystream.Keystream")}
    if module.room == "testing":
        makers = set()  # a kit gives what it tries the streams that it chooses
    if module.name not in ROOTS:
        roots = ("Secrets", "secrets.Secrets", "Source", "secrets.Source")
        makers |= {f"colonnade.secure.{name}" for name in roots}
    return found + [
        f"{ast.unparse(call.func)}: ask the organisation's Secrets"
        for name, call in module.calls
        if any(start in makers for start in _starts(name))
    ]


def touches_files(module: Module) -> list[str]:
    """Below the drivers: files are for the modules of the list ``FILES``."""
    if not module.below_drivers or (module.name in FILES and module.room not in NEVER_FILES):
        return []
    return module.uses(_FILES) + module.reads(_FILE_METHODS)


def imports_beyond_its_needs(module: Module) -> list[str]:
    """What is the same under every driver needs arithmetic and words: a list says which modules."""
    if module.room not in NEVER_FILES:
        return []
    roots = {name.split(".")[0] for name, _, _ in module.imported}
    return sorted(roots - PURE)


def data_becomes_code(module: Module) -> list[str]:
    """Nowhere can data become code."""
    return module.uses(_CODE)


# Names of columns


def picks_columns_by_pattern(module: Module) -> list[str]:
    """Of people's tables ``tables/columns.py`` alone picks columns: polars takes ``*`` as all."""
    if module.room not in {"tables", "streamed"} or module.name == "colonnade.tables.columns":
        return []
    return module.uses({"polars.col", "polars.exclude", "polars.selectors"}) + [
        ast.unparse(call)
        for name, call in module.calls
        if name.split(".")[-1] in {"select", "drop"}
        and not name.startswith("sqlalchemy.")
        and not all(isinstance(given, ast.Call) for given in call.args)  # pl.len()
    ]


# Parts of a method answer for themselves


def peeks_into_parts(module: Module) -> list[str]:
    """Of a part of a method nobody asks which it is, or what its protocol does not answer."""
    found = []
    parts, fields = _named_parts(module.tree), _own_fields(module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            name = _part(node.value, parts)
            own = node.attr in fields or node.attr in ("__class__", "__name__")
            own = own or name in _OTHERS.get(module.room, ())
            if name in _PARTS and node.attr not in _answers(name) and not own:
                found.append(f"{ast.unparse(node)} is no answer of {_PARTS[name][0].__name__}")
        for kind in _told_apart(node):
            meant = module.stands_for(kind).split(".")[-1]
            home = _homes().get(meant)
            if home not in (None, module.name):
                found.append(f"{meant} of {home} is told from others")
        match node:
            case ast.Call(ast.Name("hasattr")) if module.room in _PLAYED:
                found.append(f"{ast.unparse(node)}: whatever it is, it has what its protocol says")
            case ast.Call(ast.Name("getattr" | "hasattr" | "vars"), [of, *what]):
                if _part(of, parts) in _PARTS and not _promised(_part(of, parts), what):
                    found.append(f"{ast.unparse(node)} asks what nobody promised")
            case ast.Compare(left, _, others) if any(map(_asks_type, (left, *others))):
                if any(_part(_typed(side), parts) in _PARTS for side in (left, *others)):
                    found.append(f"{ast.unparse(node)} tells a part from others")
                elif _names_a_part(node):
                    found.append(f"{ast.unparse(node)} tells a part from others by its name")
    return found


def _part(of: ast.AST | None, parts: dict[str, str]) -> str:
    """Which part an expression is by its name: ``x.uplink``, ``self._uplink``, or so assigned."""
    if isinstance(of, ast.Attribute):
        return of.attr.lstrip("_")
    if isinstance(of, ast.Name):
        return parts.get(of.id, of.id.lstrip("_"))
    return ""


def _promised(part: str, what: list[ast.expr]) -> bool:
    """Whether what is asked for by name, with something for whoever does not say, is an answer."""
    match what:
        case [ast.Constant(name), _]:
            return name in _answers(part)
    return False


def _named_parts(tree: ast.AST) -> dict[str, str]:
    """Names that were given to parts: ``u = self._local_updates``, ``def f(u: LocalUpdates)``."""
    parts: dict[str, str] = {}
    kinds = {kind.__name__: part for part, all_kinds in _PARTS.items() for kind in all_kinds}
    for node in ast.walk(tree):
        match node:
            case ast.arg(short, ast.expr() as kind):
                for one in {*ast.unparse(kind).split(" | ")} & kinds.keys():
                    parts[short] = kinds[one]
            case ast.Assign([ast.Name(short)], value) | ast.NamedExpr(ast.Name(short), value):
                if isinstance(value, ast.Attribute) and (name := _part(value, parts)) in _PARTS:
                    parts[short] = name
    return parts


def _typed(node: ast.AST) -> ast.AST | None:
    """Of what an expression is the type, or the type's name: ``type(x)``, ``x.__class__``."""
    match node:
        case ast.Attribute(of, "__name__" | "__qualname__"):
            return _typed(of)
        case ast.Attribute(of, "__class__") | ast.Call(ast.Name("type"), [of]):
            return of
    return None


def _asks_type(node: ast.AST) -> bool:
    return _typed(node) is not None


def _names_a_part(node: ast.AST) -> bool:
    """Whether a text in it is the name of a class that can be part of a method."""
    return any(isinstance(n, ast.Constant) and n.value in _homes() for n in ast.walk(node))


_PARTS: dict[str, tuple[type, ...]] = {
    "uplink": (Uplink, Uploader, Collector),  # what roles call theirs is the half that it made
    "collected": (Collected,),
    "exchange": (Exchange,),
    "local_updates": (LocalUpdates,),
    "steps": (PartySteps, HolderSteps),
    "stragglers": (Stragglers,),
    "driver": (Driver,),
    "costs": (CostModel,),
    "delay": (Delay,),
    "defence": (Defence,),
    "guard": (Guard,),
    "mechanism": (Summand, Perturbation, Defence),  # as a game calls what it tries
    "noise": (Perturbation, Keystream),  # what is added, and what that is drawn from
    "event": (Event,),
    "itemised": (Itemised,),  # a capability, known by the annotation of an argument
}
"""What parts are called, and what they answer."""

_PLAYED = {"defences", "exchanges", "local_updates", "roles", "stragglers", "uplinks"}
"""Rooms of methods, where a part may have any name."""

_OTHERS = {
    "config": {"costs", "delay"},  # sections, which build the part
    "experiments": {"noise"},  # settings that a trial is about
}
"""Rooms in which something else is called so."""


def _answers(part: str) -> set[str]:
    return {name for kind in _PARTS[part] for name in dir(kind) if not name.startswith("_")}


def _own_fields(module: Module) -> set[str]:
    """Names of what a module defines: fields and properties, since a part may read its own, and
    what its protocols ask for, since anybody may have such a capability."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            is_protocol = any(ast.unparse(base) == "Protocol" for base in node.bases)
            for member in node.body:
                match member:
                    case ast.AnnAssign(ast.Name(name)):
                        found.add(name)
                    case ast.FunctionDef(name, decorator_list=marks) if (
                        is_protocol or "property" in map(ast.unparse, marks)
                    ):
                        found.add(name)
    return found


def _told_apart(node: ast.AST) -> Iterator[str]:
    """Names of classes that a node tells values apart by: match, isinstance, type(x) is."""
    named: list[ast.AST] = []
    match node:
        case ast.MatchClass(cls):
            named = [cls]
        case ast.Call(ast.Name("isinstance" | "issubclass"), [_, kinds]):
            named = list(ast.walk(kinds))
        case ast.Compare(left, _, others) if any(map(_asks_type, (left, *others))):
            named = [name for side in (left, *others) for name in ast.walk(side)]
    for name in named:
        if isinstance(name, ast.Name):
            yield name.id
        elif isinstance(name, ast.Attribute):
            yield name.attr


@cache
def _homes() -> dict[str, str]:
    """The classes that can be part of a method, and the modules that define them."""
    rooms = (exchanges, links, local_updates, stragglers, uplinks, drivers, costs, delays)
    return {
        name: value.__module__
        for room in (*rooms, defences, privacy)
        for name, value in vars(room).items()
        if inspect.isclass(value) and name in room.__all__
        if dataclasses.is_dataclass(value) or Guard in value.__bases__
        if room is not drivers or _answers("driver") <= _members(value)
        if room is not privacy or _members(value) & {"event", "renyi"}  # mechanisms and events
    }


def _members(cls: type) -> set[str]:
    return {*dir(cls), *(field.name for field in dataclasses.fields(cls))}


# Names and documentation


def wrong_exports(module: Module) -> list[str]:
    """What is public is in ``__all__``, once, and is there."""
    names = getattr(module.value, "__all__", None)
    if names is None:
        public = [node.name for node in definitions(module.tree) if is_public(node.name)]
        return [f"defines {name}, and has no __all__" for name in public]
    twice = [f"__all__ names {name} twice" for name in set(names) if names.count(name) > 1]
    missing = [name for name in names if not hasattr(module.value, name)]
    return twice + [f"__all__ names {name}, which is not there" for name in missing]


def undocumented(module: Module) -> list[str]:
    """Everything public is documented, the module too."""
    found = [] if ast.get_docstring(module.tree) else [f"{module.name} has no docstring"]
    return found + list(_undocumented(module.tree, module.name))


def _undocumented(node: ast.AST, path: str) -> Iterator[str]:
    for child in definitions(node):
        if is_public(child.name):
            name = f"{path}.{child.name}"
            if not ast.get_docstring(child):
                yield f"{name} has no docstring"
            if isinstance(child, ast.ClassDef):
                yield from _undocumented(child, name)


def definitions(node: ast.AST) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [child for child in node.body if isinstance(child, kinds)]


def is_public(name: str) -> bool:
    return not name.startswith("_")


def misplaced_errors(module: Module) -> list[str]:
    """Public errors are defined in colonnade.errors, and nowhere else."""
    if module.name == "colonnade.errors":
        return []
    return [
        f"{name} belongs into colonnade.errors"
        for name, value in vars(module.value).items()
        if inspect.isclass(value)
        and value.__module__ == module.name
        and is_public(name)
        and issubclass(value, BaseException)
    ]
