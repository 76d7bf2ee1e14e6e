"""The registry: which object a name in a configuration stands for, and who brought it.

Ours are in the table below. Other packages add theirs by entry points, in a group of the same name:

.. code-block:: toml

    [project.entry-points."colonnade.codecs"]
    ternary = "acme.codecs:Ternary"

Theirs are looked up when a name is asked for and imported when it is chosen or listed, never
before. A name has one owner: where two packages, or a package and Colonnade, offer the same, it is
refused with both their names, and neither takes the place of the other.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_type_hints

from colonnade import methods
from colonnade.codecs import (
    QSGD,
    ByRound,
    Codec,
    Entropy,
    Float,
    LargeRows,
    Lattice,
    LloydMax,
    LowRank,
    ProductQuantised,
    Scalar,
    TopK,
)
from colonnade.codecs.quantiser import Quantiser
from colonnade.config.bottoms import (
    CnnConfig,
    LstmConfig,
    MlpConfig,
    MvcnnConfig,
    PolynomialConfig,
    ResNet18Config,
    TopConfig,
    WideAndDeepConfig,
)
from colonnade.config.foreign import guarded
from colonnade.config.sections import Duration, Number
from colonnade.defences import Defence, GaussianDerivatives
from colonnade.delays import Constant, Delay, Exponential, FromTrace
from colonnade.errors import ConfigurationError
from colonnade.exchanges import Asynchronous, EventDriven, Relay, Split
from colonnade.links import Direct, ErrorFeedback, LearnedEntropy, Link
from colonnade.local_updates import Consecutive, Proximal, Replayed, Workset
from colonnade.method import Method
from colonnade.models import Additive, Concat, DotProduct, Fusion, Max, Mean, Sum
from colonnade.privacy import (
    Budget,
    Clipped,
    FixedPoint,
    Gaussian,
    Perturbation,
    PoissonBinomial,
    Summand,
)
from colonnade.stragglers import Deadline, Fastest, Wait
from colonnade.surrogates import Disk, Memory, Storage
from colonnade.telling import plain, shown
from colonnade.uplinks import Coded, Masked, Perturbed, Plain

__all__ = ["GROUPS", "OURS", "Group", "Part", "find", "group_of", "names"]

OURS = "colonnade"


@dataclass(frozen=True, eq=False)  # one of each: equal is the same
class Group:
    """Things of one kind, from which a configuration chooses by name.

    Parameters
    ----------
    name
        In the plural; the entry points of other packages are in ``colonnade.NAME``.
    key
        The key of a section that says which one it is.
    one
        What messages call one of them.
    about
        What they are for.
    ours
        What Colonnade has, by name: a class or function whose arguments are the settings, or a
        section.
    kinds
        Annotations of arguments that are chosen from this group.
    default
        Which one a section without the key is.
    keys
        Keys of settings that are called otherwise than the argument.
    given
        Arguments that the program gives: no settings.
    numbers
        The type of settings that are numbers.
    """

    name: str
    key: str
    one: str
    about: str
    ours: Mapping[str, Callable[..., Any]]
    kinds: tuple[Any, ...] = ()
    default: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    numbers: Any = Number

    @property
    def entry_points(self) -> str:
        """The group of entry points by which other packages add to it."""
        return f"{OURS}.{self.name}"


@dataclass(frozen=True)
class Part:
    """What a name stands for.

    Parameters
    ----------
    group
        What kind of thing it is.
    name
        Its name in a configuration.
    make
        A class or function whose arguments are the settings, or a section.
    origin
        Who brought it: ``colonnade``, or a package with its version.
    """

    group: Group
    name: str
    make: Callable[..., Any]
    origin: str = OURS


GROUPS = {
    group.name: group
    for group in (
        Group(
            "methods",
            "name",
            "method",
            "ready-made compositions of all the parts below",
            {
                "svfl": methods.svfl,
                "fedbcd": methods.fedbcd,
                "cvfl": methods.cvfl,
                "efvfl": methods.efvfl,
                "celu": methods.celu,
                "vafl": methods.vafl,
                "lean": methods.lean,
                "pbm_vfl": methods.pbm_vfl,
                "wait_dp": methods.wait_dp,
                "fedvs": methods.fedvs,
            },
            default="svfl",
            keys={
                "codec": "embedding",
                "derivative_codec": "derivative",
                "top_codec": "top",
                "storage": "surrogates",
            },
        ),
        Group(
            "uplinks",
            "uplink",
            "uplink",
            "how a batch's embeddings become the top model's input",
            {"plain": Plain, "masked": Masked, "perturbed": Perturbed, "coded": Coded},
        ),
        Group(
            "mechanisms",
            "mechanism",
            "mechanism",
            "how embeddings become whole numbers, whose sums a masked uplink shows",
            {
                "poisson_binomial": PoissonBinomial,
                "calibrated": PoissonBinomial.calibrated,
                "fixed_point": FixedPoint,
            },
            (Summand,),
        ),
        Group(
            "budgets",
            "budget",
            "budget",
            "how much may be disclosed of a row before training ends",
            {"differential_privacy": Budget},
            (Budget,),
            default="differential_privacy",
        ),
        Group(
            "exchanges",
            "exchange",
            "exchange",
            "what travels in a round, and who therefore learns what",
            {
                "split": Split,
                "asynchronous": Asynchronous,
                "event_driven": EventDriven,
                "relay": Relay,
            },
        ),
        Group(
            "local_updates",
            "local_updates",
            "policy of local updates",
            "which steps follow an exchange",
            {
                "consecutive": Consecutive,
                "proximal": Proximal,
                "replayed": Replayed,
                "workset": Workset,
            },
        ),
        Group(
            "stragglers",
            "stragglers",
            "policy for stragglers",
            "for whom a round waits",
            {"wait": Wait, "deadline": Deadline, "fastest": Fastest},
            numbers=Duration,
        ),
        Group(
            "delays",
            "delay",
            "delay",
            "how much longer an organisation takes in a round than its work costs",
            {"constant": Constant, "exponential": Exponential, "trace": FromTrace},
            (Delay,),
            numbers=Duration,
        ),
        Group(
            "fusions",
            "fusion",
            "fusion",
            "how embeddings become the top model's input",
            {"concat": Concat, "sum": Sum, "mean": Mean, "max": Max, "dot_product": DotProduct},
            (Fusion, Additive),
        ),
        Group(
            "links",
            "link",
            "link",
            "a stream of embeddings or derivatives through a codec",
            {
                "direct": Direct,
                "error_feedback": ErrorFeedback,
                "learned_entropy": LearnedEntropy,
            },
            (Link,),
        ),
        Group(
            "codecs",
            "codec",
            "codec",
            "numbers to bytes and back",
            {
                "float": Float,
                "scalar": Scalar,
                "lattice": Lattice,
                "lloyd_max": LloydMax,
                "qsgd": QSGD,
                "product": ProductQuantised,
                "entropy": Entropy,
                "top_k": TopK,
                "large_rows": LargeRows,
                "low_rank": LowRank,
                "by_round": ByRound,
            },
            (Codec, Quantiser),
        ),
        Group(
            "noises",
            "noise",
            "noise",
            "what becomes of embeddings before they leave their party",
            {"gaussian": Gaussian, "calibrated": Gaussian.calibrated, "clipped": Clipped},
            (Perturbation,),
        ),
        Group(
            "defences",
            "defence",
            "defence",
            "what becomes of derivatives before they leave the label holder",
            {
                "gaussian": GaussianDerivatives,
                "calibrated": GaussianDerivatives.calibrated,
            },
            (Defence,),
        ),
        Group(
            "storages",
            "storage",
            "storage",
            "where error feedback keeps what is known of each row",
            {"memory": Memory, "disk": Disk},
            (Storage,),
        ),
        Group(
            "models",
            "model",
            "bottom model",
            "what a party turns its columns into embeddings by",
            {
                "mlp": MlpConfig,
                "polynomial": PolynomialConfig,
                "cnn": CnnConfig,
                "resnet18": ResNet18Config,
                "mvcnn": MvcnnConfig,
                "lstm": LstmConfig,
                "wide_and_deep": WideAndDeepConfig,
            },
            default="mlp",
            given=("inputs",),
        ),
        Group(
            "tops",
            "model",
            "top model",
            "what the label holder predicts by, from all embeddings",
            {"mlp": TopConfig},
            default="mlp",
            given=("inputs", "outputs"),
        ),
    )
}


def group_of(annotation: Any) -> Group | None:
    """Return the group that an argument so annotated is chosen from, if it is from one.

    >>> group_of(Codec).name
    'codecs'
    """
    for kind, group in _kinds():
        if kind == annotation:
            return group
    return None


@cache
def _kinds() -> list[tuple[Any, Group]]:
    """Return annotations and their groups; ``Method`` has those of its own parts."""
    kinds = [(kind, group) for group in GROUPS.values() for kind in group.kinds]
    hints = get_type_hints(Method)
    del hints["name"]  # which is no part: another part's argument may be a text, too
    return kinds + [(hints[group.key], group) for group in GROUPS.values() if group.key in hints]


def names(group: Group) -> tuple[str, ...]:
    """Return all names there are, ours first; nothing is imported for it."""
    return tuple(dict.fromkeys([*group.ours, *_installed(group)]))


def find(group: Group, name: str) -> Part:
    """Return what a name stands for.

    Raises
    ------
    ConfigurationError
        If nobody has it, several have it, or the package that has it cannot be imported.
    """
    offered = _installed(group).get(name, [])
    owners = [OURS] * (name in group.ours) + [_origin(point) for point in offered]
    if not owners:
        raise ConfigurationError(f"there is no {group.one} {name!r}")
    if len(owners) > 1:
        raise ConfigurationError(
            f"{' and '.join(owners)} both have a {group.one} called {name!r}, so it is not clear "
            "which is meant; one of the packages has to rename or to go"
        )
    if name in group.ours:
        return Part(group, name, group.ours[name])
    return Part(group, name, _loaded(group, offered[0]), owners[0])


def _installed(group: Group) -> Mapping[str, list[EntryPoint]]:
    return _all_installed(tuple(sys.path)).get(group.entry_points, {})


@cache
def _all_installed(path: tuple[str, ...]) -> Mapping[str, Mapping[str, list[EntryPoint]]]:
    """Return the entry points of other packages, by group and name, that are on this path."""
    found: dict[str, dict[str, list[EntryPoint]]] = defaultdict(lambda: defaultdict(list))
    every = entry_points()
    for group in GROUPS.values():
        for point in every.select(group=group.entry_points):
            found[point.group][point.name].append(point)
    return {group: dict(by_name) for group, by_name in found.items()}


def _origin(point: EntryPoint) -> str:
    try:
        said = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    except Exception:  # a package whose metadata are damaged
        said = point.value
    return plain(said)


def _loaded(group: Group, point: EntryPoint) -> Callable[..., Any]:
    where = f"the {group.one} {point.name!r} of {_origin(point)} ({plain(point.value)})"
    with guarded(where, "cannot be imported"):
        made = point.load()
        useful = callable(made)
    if not useful:
        raise ConfigurationError(f"{where} is neither a class nor a function, but {shown(made)}")
    return made  # type: ignore[no-any-return]  # callable is all that is known
