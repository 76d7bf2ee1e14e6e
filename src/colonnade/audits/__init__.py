"""Audits: what can be learned of features and labels from what travelled, by trying it."""

from colonnade.audits.audit import Audit, Scope, audit
from colonnade.audits.files import AUDIT_FILES, write_audits
from colonnade.audits.finding import Finding
from colonnade.audits.sheets import MEANING, attack_sheets, overview_sheets

__all__ = [
    "AUDIT_FILES",
    "MEANING",
    "Audit",
    "Finding",
    "Scope",
    "attack_sheets",
    "audit",
    "overview_sheets",
    "write_audits",
]
