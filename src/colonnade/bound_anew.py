"""What somebody's code binds anew with each call: what it remembers from one to the next.

A count, or a running mean, has grown when a run goes on, and is no sign of another run: so what
tells functions leaves it out (``functions_told.py``). Who asks whether something remembers at all
looks here.
"""

from __future__ import annotations

from types import FunctionType

from colonnade.functions_told import Named
from colonnade.lookups import rebound
from colonnade.own_code import is_own, variables_of
from colonnade.reached import reached

__all__ = ["bound_anew"]


def bound_anew(called: object) -> list[Named]:
    """Return what is bound to other values when something is called, as it is now.

    It is what ``made_with`` leaves out: of a function, of those of a class or an object, and of all
    that these look up or hold.

    >>> bound_anew(lambda: None)
    []
    """
    own = (one for one in reached([called]) if isinstance(one, FunctionType) and is_own(one))
    return [values for function in own if (values := _rebound_of(function))]


def _rebound_of(function: FunctionType) -> Named:
    code, known = function.__code__, variables_of(function)
    return Named((name, known.get(name)) for name in rebound(code) - {*code.co_cellvars})
