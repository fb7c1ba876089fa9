"""SCRAM as the RFCs have it, and whatever a client may send instead."""

from __future__ import annotations

import base64
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.broker.security.scram import (
    BadMessage,
    Credential,
    Mechanism,
    credential_of,
    final_answer,
    first_answer,
    is_proof,
    parse_final,
    parse_first,
    salted_password,
)
from oncestream.client.sasl import scram

# The example of RFC 7677, section 3.
FIRST: Final = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE: Final = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT: Final = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FINAL: Final = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
PROVEN: Final = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_credential() -> Credential:
    salted = salted_password(Mechanism.SCRAM_SHA_256, "pencil", SALT, 4096)
    return credential_of(Mechanism.SCRAM_SHA_256, salted, SALT, 4096)


def test_the_example_of_rfc_7677() -> None:
    credential = rfc_credential()
    first, final = parse_first(FIRST), parse_final(FINAL)
    answer = first_answer(NONCE, credential)
    assert (first.user, first.nonce, first.gs2_header) == ("user", "rOprNGfwEbeRWgbNEkqO", "n,,")
    assert answer == f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert (final.nonce, final.binding) == (NONCE, b"n,,")
    signed = f"{first.bare},{answer},{final.unsigned}".encode()
    assert is_proof(credential, final.proof, signed)
    assert final_answer(credential, signed) == PROVEN


def test_a_proof_with_one_wrong_bit_is_none() -> None:
    credential, final = rfc_credential(), parse_final(FINAL)
    signed = f"{parse_first(FIRST).bare},{first_answer(NONCE, credential)},{final.unsigned}".encode()
    wrong = bytes([final.proof[0] ^ 1]) + final.proof[1:]
    assert not is_proof(credential, wrong, signed)
    assert not is_proof(credential, final.proof[:-1], signed)
    assert not is_proof(credential, b"", signed)
    assert not is_proof(credential, final.proof, signed + b"x")


@given(
    user=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
    mechanism=st.sampled_from(Mechanism),
)
def test_our_client_and_our_server_agree_for_every_user_name(user: str, mechanism: Mechanism) -> None:
    credential = credential_of(mechanism, salted_password(mechanism, "pässword", SALT, 1), SALT, 1)
    client = scram(mechanism.digest, user, "pässword")
    first = parse_first(next(client))
    assert first.user == user
    answer = first_answer(f"{first.nonce}more", credential)
    final = parse_final(client.send(answer.encode()))
    signed = f"{first.bare},{answer},{final.unsigned}".encode()
    assert is_proof(credential, final.proof, signed)
    with pytest.raises(StopIteration):  # it is content with our own proof
        client.send(final_answer(credential, signed))


def test_extensions_are_taken_as_part_of_what_is_signed() -> None:
    assert parse_first(b"n,,n=user,r=abc,tokenauth=true").bare == "n=user,r=abc,tokenauth=true"
    assert parse_final(b"c=biws,r=abc,x=y,p=YWJj").unsigned == "c=biws,r=abc,x=y"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=us=er,r=abc",
        b"n,,n=us=2cer,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,,m=must,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"p=tls-server-end-point,,n=user,r=abc",
        b"y,,n=user,r=abc",
        b"n,,n=user,r=abc\xff",
        b"\0user\0password",
    ],
)
def test_a_first_message_that_is_none_or_wants_what_is_not_offered_is_refused(message: bytes) -> None:
    with pytest.raises(BadMessage):
        parse_first(message)


@pytest.mark.parametrize(
    "message",
    [b"", b"c=biws,r=abc", b"r=abc,p=YWJj", b"c=biws,r=abc,p=", b"c=biws,r=abc,p=YWJ", b"c=b,r=abc,p=YWJj"],
)
def test_a_final_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(BadMessage):
        parse_final(message)


messages = st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
nearly = st.lists(st.sampled_from(["n", "p", "=", ",", "r", "c", "biws", "a", "=2C", "\0", "ä", " "])).map(
    lambda parts: "".join(parts).encode()
)


@given(messages | nearly | nearly.map(lambda rest: FIRST + rest) | nearly.map(lambda rest: FINAL + rest))
def test_no_message_makes_the_parser_fail_in_another_way(message: bytes) -> None:
    for parse in (parse_first, parse_final):
        try:
            parse(message)
        except BadMessage:
            continue


def test_a_credential_does_not_show_its_keys() -> None:
    credential = rfc_credential()
    assert credential.stored_key.hex() not in repr(credential)
    assert "key" not in repr(credential)
