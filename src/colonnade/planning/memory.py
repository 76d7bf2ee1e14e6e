"""What an organisation will hold in memory: counted on copies of its own models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colonnade.agreement import Agreement
from colonnade.drawing import drawing_apart
from colonnade.federation import Federation
from colonnade.models import Features, Learner, copied, sparse_parameters, take

__all__ = ["MemoryUse", "memory_of"]


@dataclass(frozen=True)
class MemoryUse:
    """What an organisation will hold in memory besides the program itself, in bytes.

    Parameters
    ----------
    features
        Its columns, as its bottom model takes them.
    parameters
        Its models' parameters and buffers, and their gradients.
    optimiser
        What its optimisers remember.
    batch
        What autograd keeps of one batch until it is backpropagated.
    messages
        The largest messages of a round, sent and received.
    surrogates
        What is remembered of each row, by error feedback or an exchange, or of a link's stream.
    replayed
        The batches that local updates remember.
    """

    features: int
    parameters: int
    optimiser: int
    batch: int
    messages: int
    surrogates: int = 0
    replayed: int = 0

    @property
    def total(self) -> int:
        """The sum of all."""
        return sum(vars(self).values())


@drawing_apart()
def memory_of(federation: Federation, agreement: Agreement) -> dict[str, MemoryUse]:
    """Return what each organisation will hold, by its name."""
    holder, flows = federation.label_holder, agreement.flows()
    batch = agreement.batches.batch_size
    rows = federation.train_rows[:batch]

    def messages(name: str) -> int:
        own = [f for f in flows if f.purpose.trains and name in (f.sender, *f.receivers)]
        return sum(flow.bytes_at_most for flow in own)

    def remembered(name: str) -> int:
        of_rows = agreement.method.exchange.bytes_remembered(agreement.layout).get(name, 0)
        return of_rows + sum(flow.bytes_remembered(name) for flow in flows)

    layout, updates = agreement.layout, agreement.method.local_updates

    def replayed(batches: int, width: int) -> int:
        return 4 * min(batches, agreement.batches.rounds) * batch * width

    memory = {}
    for party in federation.parties:
        learner = Learner(copied(party.bottom), party.optimiser)
        inputs = take(party.features, rows)
        memory[party.name] = MemoryUse(
            _features_bytes(party.features),
            *_learner_bytes(learner, inputs),
            _kept_bytes(learner, inputs),
            messages(party.name),
            remembered(party.name),
            # Of each batch what was sent, and the derivative there.
            replayed(updates.party_steps().memory, 2 * layout.widths[party.name]),
        )
    fusion = agreement.method.fusion
    fused = torch.zeros(batch, fusion.width(list(federation.widths.values())))
    top = Learner(copied(holder.top), holder.optimiser)
    parameters, optimiser = _learner_bytes(top, fused)
    kept, columns = _kept_bytes(top, fused), 0
    if holder.bottom is not None and holder.features is not None:
        own = Learner(copied(holder.bottom), holder.optimiser)
        inputs = take(holder.features, rows)
        more, optimiser_more = _learner_bytes(own, inputs)
        parameters, optimiser = parameters + more, optimiser + optimiser_more
        kept += _kept_bytes(own, inputs)
        columns = _features_bytes(holder.features)
    columns += holder.labels.nbytes
    steps = updates.holder_steps()
    memory[holder.name] = MemoryUse(
        columns,
        parameters,
        optimiser,
        kept,
        messages(holder.name),
        remembered(holder.name) + agreement.method.stragglers.bytes_remembered(layout),
        replayed(steps.memory, (1 + steps.keeps_derivatives) * sum(layout.party_widths.values())),
    )
    return memory


def _features_bytes(features: Features) -> int:
    parts = [features] if isinstance(features, Tensor) else features.values()
    return sum(values.nbytes for values in parts)


def _learner_bytes(learner: Learner, inputs: Any) -> tuple[int, int]:
    """Return the bytes of parameters with gradients, and of what the optimiser remembers."""
    module = learner.module
    saved = module.state_dict().values()  # an extra state may be anything
    parameters = sum(value.nbytes for value in saved if isinstance(value, Tensor))
    for p in module.parameters():
        p.grad = torch.zeros_like(p) if p.requires_grad else None
    if sparse := sparse_parameters(module):  # of these a batch alone tells what a gradient holds
        output = learner(inputs, training=True)
        found = torch.autograd.grad(output, sparse, torch.zeros_like(output), allow_unused=True)
        for p, gradient in zip(sparse, found, strict=True):
            p.grad = gradient
    gradients = sum(_gradient_bytes(p.grad) for p in module.parameters() if p.grad is not None)
    learner.step()
    remembered = 0
    if learner.optimiser is not None:
        for state in learner.optimiser.state.values():
            remembered += sum(v.nbytes for v in state.values() if isinstance(v, Tensor))
    return parameters + gradients, remembered


def _gradient_bytes(gradient: Tensor) -> int:
    if not gradient.is_sparse:
        return gradient.nbytes
    return gradient._indices().nbytes + gradient._values().nbytes  # each row as often as it is met


def _kept_bytes(learner: Learner, inputs: Any) -> int:
    """Return what autograd keeps of one batch, parameters apart, and the output."""
    own = {p.data_ptr() for p in learner.module.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = learner(inputs, training=True)
    return sum(kept.values()) + output.nbytes
