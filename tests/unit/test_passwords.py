"""What is kept of a password."""

import hashlib

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from runtime import passwords
from runtime.passwords import hash_password, is_outdated, matches_hash


def with_scrypt(password: str) -> str:
    salt = bytes(range(16))
    digest = hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)
    return f"scrypt$14$8$1${salt.hex()}${digest.hex()}"


def test_a_password_is_kept_as_argon2id_with_its_parameters_and_a_salt_of_its_own() -> None:
    kept = hash_password("segredo de família")
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert kept != hash_password("segredo de família")
    assert not is_outdated(kept)


@pytest.mark.parametrize("keep", [hash_password, with_scrypt])
def test_only_the_right_password_is_right(keep: object) -> None:
    assert callable(keep)
    kept = keep("segredo de família")
    assert matches_hash("segredo de família", kept)
    assert not matches_hash("segredo de familia", kept)
    assert not matches_hash("", kept)


def test_no_password_is_nobodys() -> None:
    assert not matches_hash("", None)
    assert not matches_hash("\0" * 32, None)


def test_an_unknown_persons_password_is_hashed_like_anybodys() -> None:
    """Or the time it takes would tell who is known: a hash that cannot be read is refused at once."""
    assert not is_outdated(passwords._NOBODY)
    with pytest.raises(VerifyMismatchError):
        PasswordHasher().verify(passwords._NOBODY, "segredo")


def test_what_was_kept_with_scrypt_is_outdated() -> None:
    assert is_outdated(with_scrypt("segredo de família"))


def test_what_cannot_be_read_lets_nobody_in() -> None:
    assert not matches_hash("x", "$argon2id$v=19$broken")
    assert not matches_hash("x", "plain")
