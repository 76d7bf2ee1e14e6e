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
    everybody learns which of its own ids are in all tables, and so who of the others' they are
    """
    holder, shuffler = meeting.label_holder, meeting.shuffler
    told = [
        "everybody learns how many ids each organisation has, and whether they are whole numbers "
        "or text",
        "everybody learns which of its own ids are in all tables, and so who of the others' they "
        "are",
    ]
    if len(meeting.parties) > 1:
        told += [
            f"{holder!r} learns how many ids any of the organisations have in common, and of those "
            "that are not in all tables not which",
            f"if {holder!r} and a party put together what they have, they learn which other "
            f"organisations have each id of this party; with {shuffler!r} also which have each id "
            f"of {holder!r}",
        ]
    return (
        *told,
        "of ids that are not in all tables nobody learns more, where all follow the protocol",
        "who brings ids that it only guesses learns which of them are in all tables: no guess can "
        "be told from a row",
    )
