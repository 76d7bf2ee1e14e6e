"""Whether clients would take the certificate of a service, known before it listens."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from colonnade.errors import ConfigurationError
from colonnade.serving.config import ServeConfig

__all__ = ["check_certificate"]

_CURVES = (SECP256R1, SECP384R1, SECP521R1)


def check_certificate(config: ServeConfig) -> None:
    """Raise ``ConfigurationError`` if a certificate is no pair with its key, or no client takes it.

    Parameters
    ----------
    config
        With the files of both, or of neither.
    """
    if config.certificate is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(config.certificate, config.key, partial(_refuse_phrase, config.key))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{config.certificate} and {config.key} are no certificate and its key: {error}"
        ) from None
    try:
        certificate = x509.load_pem_x509_certificate(config.certificate.read_bytes())
    except (ValueError, x509.InvalidVersion):  # in a form that OpenSSL takes all the same
        return
    if not _is_taken(certificate):
        raise ConfigurationError(
            f"{config.certificate} is of a kind of key that no client takes; make one of RSA, of "
            "a curve of NIST's (P-256) or of Ed25519"
        )
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begins <= datetime.now(UTC) <= ends:
        raise ConfigurationError(
            f"{config.certificate} is valid from {begins:%Y-%m-%d} to {ends:%Y-%m-%d}: no client "
            "takes it now"
        )


def _is_taken(certificate: x509.Certificate) -> bool:
    """Whether clients take its kind of key."""
    try:
        key = certificate.public_key()
    except UnsupportedAlgorithm:
        return False
    if isinstance(key, EllipticCurvePublicKey):
        return isinstance(key.curve, _CURVES)
    return isinstance(key, Ed448PublicKey | Ed25519PublicKey | RSAPublicKey)


def _refuse_phrase(key: Path | None) -> str:
    """Refuse a key that is protected, where OpenSSL would ask at the terminal for its phrase."""
    raise ConfigurationError(
        f"{key} is protected by a pass phrase, and nobody is there to type it: give a key without "
        f"one (openssl pkey -in {key} -out key.pem)"
    )
