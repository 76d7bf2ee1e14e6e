"""Who learns what by an alignment, in sentences that name the organisations."""

from __future__ import annotations

from colonnade.roles.align import Meeting

__all__ = ["who_learns_what"]


def who_learns_what(meeting: Meeting) -> tuple[str, ...]:
    """Return what each organisation learns, what some would together, and what a liar would.

    Examples
    --------
    >>> for sentence in who_learns_what(Meeting(("bank",), "insurer"))[:2]:
    ...     print(sentence)
    everybody learns how many ids each organisation has, and whether they are whole numbers or text
    everybody learns which of its own ids are in all tables
    """
    holder, shuffler = meeting.label_holder, meeting.shuffler
    told = [
        "everybody learns how many ids each organisation has, and whether they are whole numbers "
        "or text",
        "everybody learns which of its own ids are in all tables",
    ]
    if len(meeting.parties) > 1:
        told += [
            f"{holder!r} learns how many ids any of the organisations have in common, but of those "
            "that are not in all tables not which",
            f"if {holder!r} and a party put together what they have, they learn who has each id of "
            f"this party, and with {shuffler!r} who has each id of {holder!r}; parties without the "
            "label holder learn nothing together",
        ]
    return (
        *told,
        "nothing else is learned of ids that are not in all tables, where all follow the protocol",
        "who brings ids that it only guesses learns which of them are in all tables: no guess can "
        "be told from a row",
    )
