"""Secrets and what is built on them: keys, seals, masks, shares, blinded ids. One idea a file."""

from colonnade.secure.agreement_keys import AGREEMENT_BYTES, AgreementKey
from colonnade.secure.announcements import ANNOUNCEMENT_BYTES, announce, announced
from colonnade.secure.blinding import POINT_BYTES, Blinding, CurveBlinding
from colonnade.secure.coded_sums import CodedHolder, CodedParty, CodedSums, Instant
from colonnade.secure.contexts import context
from colonnade.secure.conversations import Conversation
from colonnade.secure.double_masking import Heard, SumHolder, SumParty, Sums
from colonnade.secure.fields import Field
from colonnade.secure.identities import (
    IDENTITY_BYTES,
    SIGNATURE_BYTES,
    Identity,
    checked_identity,
    verify,
)
from colonnade.secure.in_all import VALUE_BYTES, InAll, in_all
from colonnade.secure.keystream import Keystream
from colonnade.secure.lagrange import LagrangeCode, answers_needed
from colonnade.secure.masks import Total, bits_for, mask, masked_body, words_of
from colonnade.secure.quantised import Quantised
from colonnade.secure.sealed import SEAL_BYTES, SEAL_KEY_BYTES, Seal
from colonnade.secure.secrets import Secrets, Source
from colonnade.secure.shamir import MOST_HOLDERS, recover, share
from colonnade.secure.shuffles import shuffle

__all__ = [
    "AGREEMENT_BYTES",
    "ANNOUNCEMENT_BYTES",
    "IDENTITY_BYTES",
    "MOST_HOLDERS",
    "POINT_BYTES",
    "SEAL_BYTES",
    "SEAL_KEY_BYTES",
    "SIGNATURE_BYTES",
    "VALUE_BYTES",
    "AgreementKey",
    "Blinding",
    "CodedHolder",
    "CodedParty",
    "CodedSums",
    "Conversation",
    "CurveBlinding",
    "Field",
    "Heard",
    "Identity",
    "InAll",
    "Instant",
    "Keystream",
    "LagrangeCode",
    "Quantised",
    "Seal",
    "Secrets",
    "Source",
    "SumHolder",
    "SumParty",
    "Sums",
    "Total",
    "announce",
    "announced",
    "answers_needed",
    "bits_for",
    "checked_identity",
    "context",
    "in_all",
    "mask",
    "masked_body",
    "recover",
    "share",
    "shuffle",
    "verify",
    "words_of",
]
