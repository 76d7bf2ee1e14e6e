"""Masking beside copying memory and beside the raw keystream, and what a sum costs besides.

    python benchmarks/masks.py

CPU time of one thread. First, for a batch of 4096 x 256 words, what a party and the label holder of
four do in one sum: milliseconds, and in brackets the ratio to copying the words and to filling them
with as many keystreams as there are masks, of the same run. Aim: masking and packing of 16 bits in
3 ms.

Then what is agreed on before, in microseconds: once at a start, and for every sum. Secrets are
shared and sealed for 64 sums at once, and divided by 64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from colonnade.kernels.words import word_type
from colonnade.secure import (
    SEAL_KEY_BYTES,
    AgreementKey,
    Identity,
    Keystream,
    Seal,
    Secrets,
    Source,
    Total,
    announce,
    announced,
    context,
    mask,
    masked_body,
    recover,
    share,
    words_of,
)
from timing import cpu_seconds

COUNT, REPEATS = 4096 * 256, 31
SUMS = 64  # whose secrets travel in one message


def streams(source: Source, number: int) -> list[Keystream]:
    return [source.keystream("benchmark", part=part) for part in range(number)]


def masking(source: Source, bits: int, parties: int = 4) -> None:
    values = np.frombuffer(source.keystream("values").bytes(COUNT), dtype=np.uint8)
    words = words_of(values & min(255, 2**bits - 1), bits)
    other, body = words.copy(), masked_body(words, bits)

    def fill() -> None:
        for stream in streams(source, parties):
            stream.fill(other)

    def masked() -> None:
        own, one, two, three = streams(source, parties)
        mask(words, [own, one], [two, three])

    def packed() -> None:
        masked()
        masked_body(words, bits)

    def added() -> Total:
        total = Total(COUNT, bits)
        for _ in range(parties):
            total.add(body, "bank")
        return total

    def unmasked() -> None:
        total = added()
        total.unmask(streams(source, parties))
        total.values  # noqa: B018  # it is computed

    contenders: dict[str, Callable[[], object]] = {
        "copy": lambda: np.copyto(other, words),
        "keystreams": fill,
        "mask": masked,
        "mask, pack": packed,
        "add 4": added,
        "add, unmask": unmasked,
    }
    seconds = cpu_seconds(contenders, REPEATS)
    cells = [f"{bits:4}", f"{1e3 * seconds['copy']:8.2f}"]
    for name in list(contenders)[1:]:
        ratios = seconds[name] / seconds["copy"], seconds[name] / seconds["keystreams"]
        cells.append(f"{1e3 * seconds[name]:9.2f} ({ratios[0]:5.1f} {ratios[1]:4.2f})")
    print("".join(cells), f"{word_type(bits).name:>8} {len(body):>10,}", flush=True)


def agreeing(source: Source, parties: int, threshold: int) -> None:
    """Print what a party and the label holder do for one sum of so many."""
    identity = Identity(source.identity)
    session = context("session", "a run", "bank", 0)
    keys = [AgreementKey(source.key("agree", part=part, size=32)) for part in range(parties)]
    mine, others = keys[0], keys[1:]
    hello = announce(identity, mine.public, session)
    seal = Seal(source.key("seal", size=SEAL_KEY_BYTES))
    owned = source.keystream("secrets").bytes(48 * SUMS)
    # Recovered in one sum: the seeds of all but one party, and the mask key of that one.
    seeds = share(owned[:16] * (parties - 1), parties, threshold, source.keystream("noise"))
    lost = share(source.key("agree", part=0, size=32), parties, threshold, source.keystream("n"))
    bodies = [
        seal.seal(body, session) for body in share(owned, parties, threshold, Keystream(bytes(16)))
    ]

    def start() -> None:
        AgreementKey(source.key("agree", part=0, size=32))
        announce(identity, mine.public, session)
        for other in others:
            announced(hello, identity.public, session, "bank")
            for use in (b"there", b"back"):
                Seal(mine.shared(other.public, use, "bank", SEAL_KEY_BYTES))

    def agree() -> None:
        AgreementKey(source.key("agree", part=0, size=32))
        for other in others:
            Keystream(mine.shared(other.public, session, "bank"))

    def deal() -> None:
        share(owned, parties, threshold, source.keystream("shares"))

    def open_all() -> None:
        for body in bodies[1:]:
            seal.opened(body, session, len(owned), "the shares of 'bank'")

    def seal_all() -> None:
        for _ in others:
            seal.seal(owned, session)

    def recover_seeds(count: int) -> Callable[[], object]:
        some = dict(list(enumerate(seeds, 1))[:count])
        return lambda: recover(some, threshold, 16 * (parties - 1), "the masks")

    def recover_lost() -> None:
        some = dict(list(enumerate(lost, 1))[-threshold:])
        secret = recover(some, threshold, 32, "the mask key of 'bank'")
        key = AgreementKey.recovered(secret, mine.public, "bank")
        for other in others:
            Keystream(key.shared(other.public, session, "bank"))

    seconds = cpu_seconds(
        {
            "party, once at a start": start,
            "party: agree on masks": agree,
            "party: share": deal,
            "party: seal": seal_all,
            "party: open": open_all,
            "label holder: recover, of as many as needed": recover_seeds(threshold),
            "label holder: recover, of all but one": recover_seeds(parties - 1),
            "label holder: for a lost party": recover_lost,
        },
        REPEATS,
    )
    print(f"\n{parties} parties, {threshold} needed")
    for name, each in seconds.items():
        sums = SUMS if name in ("party: share", "party: seal", "party: open") else 1
        print(f"{name:45}{1e6 * each / sums:10.1f} us")


def main() -> None:
    # A process that had a larger array, as any that loaded a table, gets its memory back from its
    # own heap; another pays the system for every page of every message.
    np.ones(2**24, dtype=np.uint8)
    source = Secrets.insecure(7).begin("bank", incarnation=0)
    names = ("4 keystreams", "mask", "mask, pack", "add 4", "add 4, unmask")
    print("bits    copy" + "".join(f"{name:>22}" for name in names) + "    type       body")
    for bits in (1, 7, 8, 12, 16, 20, 32):
        masking(source, bits)
    for parties, threshold in ((4, 3), (28, 19)):
        agreeing(source, parties, threshold)


if __name__ == "__main__":
    main()
