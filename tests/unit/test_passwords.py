"""Password hashes: how passwords are stored and verified."""

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from runtime import passwords
from runtime.passwords import hash_password, is_outdated, matches_hash


def test_a_password_is_stored_as_argon2id_with_its_parameters_and_its_own_salt() -> None:
    stored = hash_password("segredo de família")
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert stored != hash_password("segredo de família")
    assert not is_outdated(stored)


def test_only_the_right_password_matches_its_hash() -> None:
    stored = hash_password("segredo de família")
    assert matches_hash("segredo de família", stored)
    assert not matches_hash("segredo de familia", stored)
    assert not matches_hash("", stored)


def test_without_a_stored_hash_no_password_matches() -> None:
    assert not matches_hash("", None)
    assert not matches_hash("\0" * 32, None)


def test_for_an_unknown_person_the_password_is_hashed_all_the_same() -> None:
    """Otherwise the response time would reveal who exists, because a hash that cannot be parsed is refused at once."""
    assert not is_outdated(passwords._NOBODY)
    with pytest.raises(VerifyMismatchError):
        PasswordHasher().verify(passwords._NOBODY, "segredo")


def test_a_hash_of_other_parameters_is_outdated() -> None:
    assert is_outdated(PasswordHasher(time_cost=1).hash("segredo de família"))


def test_a_hash_that_cannot_be_parsed_matches_no_password() -> None:
    assert not matches_hash("x", "$argon2id$v=19$broken")
    assert not matches_hash("x", "plain")
