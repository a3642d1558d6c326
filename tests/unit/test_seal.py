"""Sealed bytes open only for their purpose, in their own row, and with the key that they name."""

import pytest
from cryptography.exceptions import InvalidTag

from runtime.seal import CHARGE_PAYER, DESTINATION, MAIL_TO, Seal, SecretKeys, read_keys

OLD, NEW = "11" * 32, "22" * 32


def test_sealed_bytes_open_only_for_their_purpose_and_in_their_own_row() -> None:
    seal = Seal(bytes.fromhex(OLD))
    sealed = seal.seal(b"ana@example.com", MAIL_TO, 7)
    assert seal.open(sealed, MAIL_TO, 7) == b"ana@example.com"
    assert b"ana" not in sealed
    for what, row in ((MAIL_TO, 8), (DESTINATION, 7), (CHARGE_PAYER, "")):
        with pytest.raises(InvalidTag):
            seal.open(sealed, what, row)


@pytest.mark.parametrize("at", [0, 1, 2, 3, 14, 15, -1])
def test_sealed_bytes_with_any_byte_altered_do_not_open(at: int) -> None:
    seal = Seal(read_keys(f"2:{NEW},1:{OLD}"))
    sealed = bytearray(seal.seal(b"secret", MAIL_TO, 1))
    sealed[at] ^= 1
    with pytest.raises(InvalidTag):
        seal.open(bytes(sealed), MAIL_TO, 1)


@pytest.mark.parametrize("sealed", [b"", b"\x01", b"\x01" * 14, b"\x00" * 40, b"\x03" * 40])
def test_bytes_that_were_never_sealed_do_not_open(sealed: bytes) -> None:
    with pytest.raises(InvalidTag):
        Seal(bytes.fromhex(OLD)).open(sealed, MAIL_TO, 1)


def test_after_a_rotation_the_new_key_seals_and_the_old_key_still_opens() -> None:
    before = Seal(read_keys(OLD))
    after = Seal(read_keys(f"2:{NEW},1:{OLD}"))
    sealed = before.seal(b"secret", MAIL_TO, 1)
    assert after.open(sealed, MAIL_TO, 1) == b"secret"
    resealed = after.seal(b"secret", MAIL_TO, 1)
    assert (sealed[0], resealed[0], after.current) == (1, 2, 2)
    assert Seal(read_keys(f"2:{NEW}")).open(resealed, MAIL_TO, 1) == b"secret"
    for single_key, other in ((read_keys(f"2:{NEW}"), sealed), (read_keys(OLD), resealed)):
        with pytest.raises(InvalidTag):
            Seal(single_key).open(other, MAIL_TO, 1)


def test_the_same_secret_is_never_sealed_to_the_same_bytes() -> None:
    seal = Seal(bytes.fromhex(OLD))
    assert len({seal.seal(b"secret", MAIL_TO, 1) for _ in range(1_000)}) == 1_000


def test_a_key_derived_from_a_salt_is_replaced_after_a_thousand_messages() -> None:
    """Two of the five salts may be equal by chance; no two nonces may."""
    seal = Seal(bytes(32))
    sealed = [seal.seal(b"x", CHARGE_PAYER, at) for at in range(5_000)]
    assert len({each[1:3] for each in sealed}) in (4, 5)
    assert len({each[:15] for each in sealed}) == len(sealed)
    assert Seal(bytes(32)).open(sealed[-1], CHARGE_PAYER, 4_999) == b"x"


def test_fingerprints_stay_those_of_the_oldest_key() -> None:
    assert Seal(read_keys(f"2:{NEW},1:{OLD}")).blind("12345678909") == Seal(read_keys(OLD)).blind("12345678909")


def test_sealed_bytes_and_fingerprints_of_earlier_versions_stay_valid() -> None:
    """Sealed bytes, fingerprints and signed texts are stored longer than any version of the code is in use."""
    seal = Seal(read_keys(f"2:{NEW},1:{OLD}"))
    stored = bytes.fromhex(
        "02298c062a20ae0a6192efd23c92c08eea6c68f8e92c30e9dba1ad2395b964f40e0c65ec9c217a94cdeab5d48ffe"
    )
    assert seal.open(stored, MAIL_TO, 7) == b"ana@example.com"
    assert seal.blind("12345678909") == "3309507cfb31382e454dae660ed1c338"
    assert seal.key("cursor").hex() == "c7ea7ef89a6ff9b064642035e286fe03e8826b0a176c5664cd444fb85295cd28"
    assert seal.fingerprints() == {2: "cc934ebe72346569ac5300fd8964cdbf", 1: "b87b1fda3b69d86d53656cef97b0628e"}


def test_text_signed_before_a_key_rotation_is_accepted_after_it() -> None:
    before, after = Seal(read_keys(OLD)), Seal(read_keys(f"2:{NEW},1:{OLD}"))
    assert before.key("cursor") in after.keys("cursor")
    assert after.keys("cursor")[0] == after.key("cursor") != before.key("cursor")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "64 hex digits"),
        ("11" * 31, "64 hex digits"),
        ("zz" * 32, "64 hex digits"),
        (f"0:{OLD}", "from 1 to 255"),
        (f"256:{OLD}", "from 1 to 255"),
        (f"0001:{OLD}", "from 1 to 255"),
        (f"x:{OLD}", "from 1 to 255"),
        (f"１:{OLD}", "from 1 to 255"),
        (f"{OLD},{NEW}", "an id of its own"),
        (f"2:{NEW},2:{OLD}", "an id of its own"),
        (",".join(f"{id}:{OLD}" for id in range(1, 18)), "at most 16"),
    ],
)
def test_an_invalid_secret_key_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_keys(text)


def test_one_key_needs_no_id() -> None:
    assert read_keys(OLD) == read_keys(f"1:{OLD}") == SecretKeys(((1, bytes.fromhex(OLD)),))


def test_sixteen_keys_with_ids_up_to_255_are_accepted() -> None:
    keys = read_keys(",".join(f"{id}:{OLD}" for id in range(255, 239, -1)))
    assert [id for id, _ in keys.keys] == list(range(255, 239, -1))
