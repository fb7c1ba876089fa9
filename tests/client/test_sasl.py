"""SCRAM against the examples of its RFCs, and against servers that lie."""

from __future__ import annotations

import pytest

from oncestream.client.sasl import LoginRefused, login, scram

# The example of RFC 7677.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_sha_256_says_what_the_rfc_says() -> None:
    steps = scram("sha256", "user", "pencil", lambda: NONCE)
    assert next(steps) == f"n,,n=user,r={NONCE}".encode()
    assert steps.send(SERVER_FIRST.encode()) == f"c=biws,r={SERVER_NONCE},p={PROOF}".encode()
    with pytest.raises(StopIteration):
        steps.send(SERVER_FINAL.encode())


@pytest.mark.parametrize("final", ["v=AAAA", "e=invalid-proof", "x"])
def test_a_server_that_cannot_prove_the_password_is_refused(final: str) -> None:
    steps = scram("sha256", "user", "pencil", lambda: NONCE)
    next(steps)
    steps.send(SERVER_FIRST.encode())
    with pytest.raises(LoginRefused):
        steps.send(final.encode())


@pytest.mark.parametrize(
    "first", ["r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", f"r={SERVER_NONCE},s=AA==,i=99999999"]
)
def test_a_server_with_another_nonce_or_endless_work_is_refused(first: str) -> None:
    steps = scram("sha256", "user", "pencil", lambda: NONCE)
    next(steps)
    with pytest.raises(LoginRefused):
        steps.send(first.encode())


def test_names_with_commas_are_escaped() -> None:
    assert next(scram("sha512", "a,b=c", "x", lambda: "N")) == b"n,,n=a=2Cb=3Dc,r=N"


def test_plain_is_one_message() -> None:
    assert list(login("PLAIN", "u", "p")) == [b"\0u\0p"]
