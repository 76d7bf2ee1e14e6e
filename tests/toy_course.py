"""Plays a role's course by hand: what it committed and sent, in order, as if nobody answered."""

from __future__ import annotations

from colonnade.effects import Commit, Notes, Recall, Send, Work


def played(course, notes=None):
    """Return what a course returned, and its commits and sends in order."""
    steps, answer, acts = course.__await__(), None, []
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration as end:
            return end.value, acts
        answer = None
        match effect:
            case Work():
                answer = effect.function()
            case Recall():
                answer = notes or Notes(0)
            case Commit() | Send():
                acts.append(effect)
            case _:
                raise AssertionError(f"{effect} was not to be expected")


def sent(acts):
    """Return the bodies that were sent."""
    return [act.body for act in acts if isinstance(act, Send)]


def committed(acts):
    """Return the records that were committed."""
    return [act.record for act in acts if isinstance(act, Commit)]
