"""Methods: ready-made compositions of exchange, fusion, links and local updates.

A method is a frozen value. The functions below name the published ones; what they do not offer is
composed by constructing ``Method`` itself. Each refuses an argument of another kind than it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from colonnade.agreement import Exchange
from colonnade.annotated import check_arguments
from colonnade.codecs import Codec, Entropy, Float, LargeRows, LowRank, Scalar
from colonnade.defences import Defence
from colonnade.errors import ConfigurationError
from colonnade.exchanges import Asynchronous, EventDriven, Relay, Split
from colonnade.links import Direct, ErrorFeedback, LearnedEntropy, Link
from colonnade.local_updates import Consecutive, LocalUpdates, Proximal, Replayed, Workset
from colonnade.method import Method
from colonnade.models import Additive, Concat, Fusion, Mean, Sum
from colonnade.privacy import Budget, Gaussian, PoissonBinomial, Summand
from colonnade.surrogates import Memory, Storage
from colonnade.uplinks import Coded, Masked, Perturbed, Plain

__all__ = [
    "HeldOutRows",
    "Labels",
    "Method",
    "Others",
    "celu",
    "cvfl",
    "efvfl",
    "fedbcd",
    "fedvs",
    "lean",
    "pbm_vfl",
    "svfl",
    "vafl",
    "wait_dp",
]

T = TypeVar("T")

Labels = Literal["private", "shared"]
Others = Literal["codes", "total"]
HeldOutRows = Literal["codes", "exact"]


@check_arguments
def svfl(
    codec: Codec | None = None,
    derivative_codec: Codec | None = None,
    fusion: Fusion | None = None,
    correction: float = 0.0,
) -> Method:
    """Vanilla split learning: embeddings up, derivatives down, one step a round.

    With the default exact codecs it equals centralised SGD on the joined model; with a lossy
    codec on the embeddings it is C-VFL's Algorithm 2 (Castiglia et al., ICML 2022).

    Parameters
    ----------
    codec
        Of the embeddings, by default ``Float(32)``.
    derivative_codec
        Of the derivatives, by default ``Float(32)``.
    fusion
        By default ``Concat()``.
    correction
        lambda of FedLite's correction of derivatives for lossy embeddings; see ``Split``. FedLite
        itself is ``svfl(ProductQuantised(...), correction=...)``.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> svfl(Scalar(bits=4)).name
    'svfl'
    """
    return Method(
        "svfl",
        _or(fusion, Concat()),
        Plain(Direct(_or(codec, Float()))),
        Split(Direct(_or(derivative_codec, Float())), correction),
    )


@check_arguments
def fedbcd(local_steps: int, fusion: Fusion | None = None, labels: Labels = "private") -> Method:
    """FedBCD(Q): Q steps on a batch, the exact one included, for one exchange of float32.

    Liu et al., "FedBCD: a communication-efficient collaborative learning framework for distributed
    features", IEEE TSP 2022. With private labels a party repeats its step with the derivative it
    got; with shared ones each organisation follows its own gradient anew in every step (C-VFL's
    Algorithm 1 without compression).

    Parameters
    ----------
    local_steps
        Q.
    fusion
        By default ``Concat()``.
    labels
        ``"private"`` for the split exchange, ``"shared"`` for relay.

    Examples
    --------
    >>> fedbcd(local_steps=5).local_updates
    Consecutive(steps=5)
    """
    exchange = Relay("shared") if labels == "shared" else Split()
    return Method("fedbcd", _or(fusion, Concat()), Plain(), exchange, Consecutive(local_steps))


@check_arguments
def cvfl(
    codec: Codec,
    local_steps: int = 1,
    fusion: Fusion | None = None,
    labels: Labels = "private",
    *,
    derivative_codec: Codec | None = None,
    top_codec: Codec | None = None,
    others: Others = "codes",
) -> Method:
    """C-VFL: compressed embeddings, and with shared labels several local steps a round.

    Castiglia, Das, Wang and Patterson, "Compressed-VFL", ICML 2022. Shared labels are its
    Algorithm 1; private ones its Algorithm 2, of one step.

    Parameters
    ----------
    codec
        Of the embeddings.
    local_steps
        Q; 1 with private labels.
    fusion
        By default ``Concat()``.
    labels
        ``"private"`` for the split exchange, ``"shared"`` for relay.
    derivative_codec
        Of the derivatives, with private labels; by default ``Float(32)``.
    top_codec
        C_0, of the top model's parameters, with shared labels; by default ``codec``.
    others
        With shared labels, what parties hear of each other: ``"codes"`` or their ``"total"``.

    Raises
    ------
    ConfigurationError
        If local steps or a codec are asked for where the labels leave no use for them.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> cvfl(Scalar(bits=4), local_steps=10, labels="shared").exchange.top
    Direct(codec=Scalar(bits=4, low=None, high=None, dither=True))
    """
    if labels == "shared":
        _no_derivatives("cvfl", derivative_codec)
        exchange: Exchange = Relay("shared", Direct(_or(top_codec, codec)), others)
    else:
        _one_step("C-VFL's Algorithm 2", local_steps)
        _no_relay("cvfl", top_codec, others)
        exchange = Split(Direct(_or(derivative_codec, Float())))
    return Method(
        "cvfl", _or(fusion, Concat()), Plain(Direct(codec)), exchange, Consecutive(local_steps)
    )


@check_arguments
def efvfl(
    codec: Codec,
    derivative_codec: Codec | None = None,
    fusion: Fusion | None = None,
    labels: Labels = "private",
    local_steps: int = 1,
    *,
    top_codec: Codec | None = None,
    others: Others = "codes",
    storage: Storage | None = None,
) -> Method:
    """EF-VFL: embeddings by error feedback, so that brutal codecs converge.

    Valdeira, Xavier, Soares and Chi, "Communication-efficient vertical federated learning via
    compressed error feedback": both ends of each link keep a surrogate of every row, and only what
    the receiver does not know yet is encoded. Held-out rows have no surrogate and travel as
    float32, as evaluation.

    With private labels it is Algorithm 2: the label holder takes the derivatives at the surrogates.
    With shared labels it is Algorithm 1: a party differentiates at its exact embedding and the
    others' surrogates, and may take several steps.

    Parameters
    ----------
    codec
        Of the embeddings: a contraction, such as ``TopK`` or ``QSGD``.
    derivative_codec
        Of the derivatives, with private labels; by default ``Float(32)``. For error feedback on
        these too compose ``Method`` with ``Split(ErrorFeedback(...))``.
    fusion
        By default ``Concat()``.
    labels
        ``"private"`` for the split exchange, ``"shared"`` for relay.
    local_steps
        Q; 1 with private labels.
    top_codec
        Of the top model's parameters, with shared labels; a lossy one goes by error feedback too,
        and must be a contraction. By default ``Float(32)``.
    others
        With shared labels, what parties hear of each other: ``"codes"`` or their ``"total"``.
    storage
        Where the surrogates of embeddings are kept, by default in memory.

    Raises
    ------
    ConfigurationError
        If a codec is no contraction, or local steps or a codec are asked for where the labels leave
        no use for them.

    Examples
    --------
    >>> from colonnade.codecs import TopK
    >>> efvfl(TopK(ratio=0.01)).name
    'efvfl'
    """
    if labels == "shared":
        _no_derivatives("efvfl", derivative_codec)
        top = Direct() if top_codec in (None, Float()) else ErrorFeedback(top_codec)
        exchange: Exchange = Relay("shared", top, others)
    else:
        _one_step("EF-VFL's Algorithm 2", local_steps)
        _no_relay("efvfl", top_codec, others)
        exchange = Split(Direct(_or(derivative_codec, Float())))
    uplink = Plain(ErrorFeedback(codec, _or(storage, Memory())))
    return Method("efvfl", _or(fusion, Concat()), uplink, exchange, Consecutive(local_steps))


@check_arguments
def celu(
    capacity: int = 5,
    reuses: int = 5,
    min_cosine: float | None = 0.5,
    codec: Codec | None = None,
    derivative_codec: Codec | None = None,
    fusion: Fusion | None = None,
    *,
    overlap: bool = True,
    bursts: bool = False,
) -> Method:
    """CELU-VFL: local steps on remembered batches while messages are under way.

    Fu, Miao, Jiang, Xue and Cui, "Towards communication-efficient vertical federated learning
    training via cache-enabled local updates", VLDB 2022. Labels stay private. To combine it with
    error feedback compose ``Method`` of ``Asynchronous(...)`` and ``Workset(...)``.

    Parameters
    ----------
    capacity
        W, how many batches are remembered.
    reuses
        R, local steps on each.
    min_cosine
        cos(xi), the least cosine between what is fresh and what is stale at which a row counts;
        None counts all rows in full.
    codec
        Of the embeddings; by default ``Float(32)``.
    derivative_codec
        Of the derivatives; by default ``Float(32)``.
    fusion
        By default ``Concat()``.
    overlap
        Whether local steps are taken while messages are under way, as many as there is time for;
        else all of them are, between the exact step of a round and the next message.
    bursts
        Whether more than R local steps may follow one exact step; see ``Workset``.

    Raises
    ------
    ConfigurationError
        If a value is out of range.

    Examples
    --------
    >>> celu(reuses=3).local_updates
    Workset(capacity=5, reuses=3, min_cosine=0.5, bursts=False)
    """
    exchange = Asynchronous if overlap else Split
    return Method(
        "celu",
        _or(fusion, Concat()),
        Plain(Direct(_or(codec, Float()))),
        exchange(Direct(_or(derivative_codec, Float()))),
        Workset(capacity, reuses, min_cosine, bursts),
    )


@check_arguments
def vafl(
    codec: Codec | None = None,
    derivative_codec: Codec | None = None,
    fusion: Fusion | None = None,
) -> Method:
    """VAFL: a party's embeddings are answered when they come, and nobody waits for anybody.

    Chen, Jin, Sun and Yin, "VAFL: a method of vertical asynchronous federated learning", 2020,
    without its noise on embeddings. The label holder fuses them with the newest of the others,
    of which it is sent every row once before the first step; see ``EventDriven``. Labels stay
    private. It is a baseline of FedVS (Li, Yao and Liu, 2023, section 6).

    Parameters
    ----------
    codec
        Of the embeddings; by default ``Float(32)``.
    derivative_codec
        Of the derivatives; by default ``Float(32)``.
    fusion
        By default ``Concat()``.

    Examples
    --------
    >>> vafl().timed
    True
    """
    return Method(
        "vafl",
        _or(fusion, Concat()),
        Plain(Direct(_or(codec, Float()))),
        EventDriven(Direct(_or(derivative_codec, Float()))),
    )


@check_arguments
def lean(
    step: float = 1.5,
    below: float = 0.5,
    passes: int = 2,
    rows: int = 32,
    pull: float = 0.05,
    replayed: int = 24,
    fusion: Fusion | None = None,
    held_out: HeldOutRows = "codes",
) -> Method:
    """Return what takes the fewest bytes to accuracy that we found, with private labels.

    Embeddings go up as the nearest multiples of ``step``, in the bits that a model which both ends
    learn makes of them (``LearnedEntropy``); a ``Sparse`` layer at the end of the bottom models
    makes them fewer. Derivatives come down only for rows that matter, as factors of low rank where
    embeddings are wide, entropy coded. For each message the parties take many small steps
    (``Proximal``), and the label holder more on batches that it has: so batches may be large, 256
    rows, and one or two passes over the data do. It wants a learning rate that falls: see
    ``colonnade reproduce lean-mnist``.

    Parameters
    ----------
    step
        Between two values of a component, for embeddings that are not bounded; they may go from
        -15 to 16 steps. Models learn to live with it: embeddings grow until they are told apart.
    below
        Rows whose derivative's norm is below this share of the root mean square are left out.
    passes, rows, pull
        Of the parties' steps; see ``Proximal``.
    replayed
        Steps of the label holder a round beyond the exact one, on the last 256 batches.
    fusion
        By default ``Concat()``.
    held_out
        How embeddings travel that are evaluated or predicted: as ``"codes"`` like those of
        training, or ``"exact"`` in float32, which is more accurate and takes more bytes.

    Raises
    ------
    ConfigurationError
        If a value cannot be used.

    Examples
    --------
    >>> lean().local_updates.passes
    2
    """
    codes = Scalar(5, -15 * step, 16 * step, dither=False)
    derivatives = LargeRows(below, LowRank(9, Entropy(Scalar(4)), Entropy(Scalar(4))))
    return Method(
        "lean",
        _or(fusion, Concat()),
        Plain(LearnedEntropy(codes), Direct(Entropy(codes) if held_out == "codes" else Float())),
        Split(Direct(derivatives)),
        Proximal(passes, rows, pull, Replayed(replayed, 256)),
    )


@check_arguments
def pbm_vfl(
    trials: int = 16,
    beta: float = 0.25,
    bound: float = 1.0,
    local_steps: int = 1,
    fusion: Additive | None = None,
    *,
    threshold: int | None = None,
    budget: Budget | None = None,
    held_out: Summand | None = None,
    derivative_codec: Codec | None = None,
    identities: Mapping[str, str] | None = None,
    overlap: bool = False,
    defence: Defence | None = None,
) -> Method:
    r"""PBM-VFL: the label holder learns noisy sums of embeddings, and an account says what of them.

    Tran, Castiglia, Patterson and Milanova, "Privacy tradeoffs in vertical federated learning"
    (Algorithm 2). A party turns each component x of its embedding, of [-C, C], into the heads of b
    coins,

    .. math:: q \sim \mathrm{Binomial}(b, 1/2 + \beta x / C),

    a secure sum over M parties shows the label holder their total alone, and of that it takes the
    unbiased estimate

    .. math:: \hat h = \frac{C}{\beta b} \Bigl(\sum_{m=1}^{M} q_m - \frac{b M}{2}\Bigr)

    in place of the sum of embeddings. One derivative goes to all parties; labels stay private. The
    summary's ``privacy_loss`` bounds epsilon by computation, evaluations included, as ``plan`` says
    it before training. The secure sum is Bonawitz et al.'s (2017), so a party that is lost spoils
    none. What epsilon does not cover is in ``docs/privacy.md``.

    Bottom models have to keep within the bound, as one that ends in tanh does for 1: in a file,
    ``model.bottom.activation: tanh``, or ``model.bound`` for any model.

    Parameters
    ----------
    trials
        b. The fewer, the more private, and the noisier.
    beta
        At most 1/4; the smaller, the more private, and the noisier.
    bound
        C, the largest magnitude of a component.
    local_steps
        Q, steps on a batch, the exact one included. Further ones disclose no more of embeddings:
        nothing is sent for them.
    fusion
        By default ``Sum()``; ``Mean()`` divides it by the number of those in it.
    threshold
        How many parties a sum has at least; by default more than half of them.
    budget
        What may be disclosed of each row: training ends before it would be exceeded. By default
        there is no end.
    held_out
        How rows travel that are evaluated or predicted, by default like those of training.
        ``FixedPoint()`` shows their sums without noise, as the authors evaluate.
    derivative_codec
        Of the derivatives, by default ``Float(32)``.
    identities
        By party, its public identity in hexadecimal digits; see ``Masked``.
    overlap
        Whether further steps are taken while messages are under way, as many as there is time for.
    defence
        Of labels: what becomes of derivatives before they leave the label holder.

    Raises
    ------
    ConfigurationError
        If a number is out of range, or the fusion needs each embedding.

    Examples
    --------
    >>> from colonnade.privacy import Budget
    >>> method = pbm_vfl(trials=4, beta=0.05, budget=Budget(epsilon=10, delta=1e-5))
    >>> method.uplink.mechanism
    PoissonBinomial(trials=4, beta=0.05, bound=1.0)
    """
    mechanism = PoissonBinomial(trials, beta, bound)
    uplink = Masked(mechanism, held_out, threshold, _or(identities, {}), budget)
    down = Direct(_or(derivative_codec, Float()))
    exchange, further = _steps_after(down, defence, local_steps, overlap)
    return Method("pbm_vfl", _or(fusion, Sum()), uplink, exchange, further)


@check_arguments
def fedvs(
    segments: int = 1,
    colluders: int = 1,
    local_steps: int = 1,
    fusion: Additive | None = None,
    *,
    data_bits: int | None = None,
    weight_bits: int | None = None,
    field_bits: Literal[31, 61] = 31,
    derivative_codec: Codec | None = None,
    identities: Mapping[str, str] | None = None,
    overlap: bool = False,
    defence: Defence | None = None,
) -> Method:
    r"""FedVS: exact sums of all parties' embeddings from the first that answer, by coded computing.

    Li, Yao and Liu, "FedVS: straggler-resilient and privacy-preserving vertical federated learning
    for split models" (ICML 2023, Algorithm 1). Bottom models are polynomial networks,

    .. math:: h_n = \sum_{i=1}^{D} \tilde x_n^i W_n^i,

    whose data are shared once and whose weights each round by Lagrange's code, with K segments and
    T masks. Each party answers with what all embeddings' sum is of its shares. From any
    2 (K + T - 1) + 1 answers the label holder has the mean over *all* N parties, and sends all its
    derivative: a party that is slow, or whose answer is lost, is in each round all the same. Any T
    parties together learn nothing of the others' data and weights.

    Parameters
    ----------
    segments
        K. A batch takes 1/K of the coded rows; more answers are needed.
    colluders
        T.
    local_steps
        Q, steps on a batch, the exact one included.
    fusion
        By default ``Mean()``, as in the paper, or ``Sum()``.
    data_bits, weight_bits
        l_x and l_w; by default as many as the field has room for. See ``Coded``.
    field_bits
        31 or 61, of the field.
    derivative_codec
        Of the derivatives, by default ``Float(32)``.
    identities
        By party, its public identity in hexadecimal digits; see ``Coded``.
    overlap
        Whether further steps are taken while messages are under way, as many as there is time for.
    defence
        Of labels: what becomes of derivatives before they leave the label holder.

    Raises
    ------
    ConfigurationError
        If a number is out of range, or the fusion needs each embedding.

    Examples
    --------
    >>> fedvs(segments=2, colluders=1).uplink.needed  # answers, of 5 parties or more
    5
    """
    bits = (data_bits, weight_bits, field_bits)
    uplink = Coded(segments, colluders, *bits, _or(identities, {}))
    down = Direct(_or(derivative_codec, Float()))
    exchange, further = _steps_after(down, defence, local_steps, overlap)
    return Method("fedvs", _or(fusion, Mean()), uplink, exchange, further)


def _steps_after(
    down: Link, defence: Defence | None, local_steps: int, overlap: bool
) -> tuple[Exchange, LocalUpdates]:
    """Return exchange and local updates of steps on a batch, at once or while messages fly."""
    if not overlap:
        return Split(down, defence=defence), Consecutive(local_steps)
    if local_steps < 2:
        raise ConfigurationError(
            f"overlap takes further steps while messages are under way, and local_steps is "
            f"{local_steps}: say 2 or more, or overlap=False"
        )
    return Asynchronous(down, defence=defence), Workset(1, local_steps - 1, None)


@check_arguments
def wait_dp(
    epsilon: float = 5.0,
    delta: float = 1e-5,
    bound: float = 1.0,
    codec: Codec | None = None,
    derivative_codec: Codec | None = None,
    fusion: Fusion | None = None,
    uses: int = 1,
    *,
    budget: Budget | None = None,
    defence: Defence | None = None,
) -> Method:
    """Wait-DP: embeddings clipped to a norm, with Gaussian noise of each party; all are waited for.

    The baseline with differential privacy of FedVS (Li, Yao and Liu, "FedVS: straggler-resilient
    and privacy-preserving vertical federated learning for split models", ICML 2023). There each
    release of a row's embedding is (5, 1e-5)-private by itself; rows are released again in every
    epoch and evaluation, and the summary tells what that comes to. Rows that are evaluated or
    predicted get the same noise.

    Parameters
    ----------
    epsilon, delta
        What the releases of a row satisfy: each by itself, or ``uses`` of them together.
    bound
        C, the L2 norm that embeddings are clipped to.
    codec
        Of the noisy embeddings, by default ``Float(32)``.
    derivative_codec
        Of the derivatives, by default ``Float(32)``.
    fusion
        By default ``Concat()``.
    uses
        How many releases the noise is calibrated for.
    budget
        What all releases of a row together may disclose: training ends before it would be exceeded.
        By default there is no end, and epsilon is told for ``delta``.
    defence
        Of labels: what becomes of derivatives before they leave the label holder.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Examples
    --------
    >>> round(wait_dp(epsilon=5.0, delta=1e-5).uplink.noise.multiplier, 4)
    0.8919
    """
    noise = Gaussian.calibrated(bound, epsilon, delta, uses)
    budget = _or(budget, Budget(float("inf"), delta))
    return Method(
        "wait_dp",
        _or(fusion, Concat()),
        Perturbed(noise, Plain(Direct(_or(codec, Float()))), budget=budget),
        Split(Direct(_or(derivative_codec, Float())), defence=defence),
    )


def _or(given: T | None, otherwise: T) -> T:
    """Return what was given, which may be as empty as it likes, or what stands for None."""
    return otherwise if given is None else given


def _one_step(algorithm: str, local_steps: int) -> None:
    if local_steps != 1:
        raise ConfigurationError(
            f"{algorithm}, with private labels, takes one step a round, not {local_steps}: a party "
            "cannot follow its gradient without the labels; share them (labels='shared'), or take "
            "fedbcd, which repeats the derivative"
        )


def _no_derivatives(method: str, codec: Codec | None) -> None:
    if codec not in (None, Float()):
        raise ConfigurationError(
            f"{method} with shared labels sends no derivatives, so there is nothing for "
            f"{codec} to encode; the top model has a codec (top_codec)"
        )


def _no_relay(method: str, top_codec: Codec | None, others: Others) -> None:
    if top_codec is not None or others != "codes":
        raise ConfigurationError(
            f"{method} with private labels sends the parties derivatives alone, neither the top "
            "model nor others' embeddings; share the labels (labels='shared') or leave top_codec "
            "and others out"
        )
