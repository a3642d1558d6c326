"""Passwords that an attacker tries first are recognized, and others are accepted."""

import pytest

from domain.merchants.guessable import is_guessable


@pytest.mark.parametrize(
    "password",
    ["1234567890", "0987654321", "abcdefghij", "qwertyuiop", "1qaz2wsx3edc", "aaaaaaaaaa", "abababababab", "senha12345",
     "Senha@2026", "P@ssw0rd123", "Flamengo10!", "senhasenha", "Senha123Senha123", "mudar123456", "quita.2026",
     "S3nh4F0rt3!", "jesuscristo1", "teste12345", "1111122222", "flamengo1981", "trustno1", "mariaeduarda2010",
     "1q2w3e4r5t6y", "drowssap321", "deusefiel777", "19101985aa"],
)  # fmt: skip
def test_passwords_that_attackers_try_first_are_guessable(password: str) -> None:
    assert is_guessable(password)


@pytest.mark.parametrize(
    "password",
    ["cavalo certo bateria grampo", "segredo de família", "xK9#mQ2$vL", "trem azul de domingo", "correct horse staple",
     "mqhgYbAbD2Xe", "padaria-aurora-cedo", "7Hx!pq0Zr", "ônibus verde 42 esquina"],
)  # fmt: skip
def test_other_passwords_are_accepted(password: str) -> None:
    assert not is_guessable(password)


def test_a_password_derived_from_the_owners_email_is_guessable() -> None:
    assert is_guessable("joaninha2026", "joaninha@example.com")
    assert is_guessable("J0aninha!2026".replace("0", "o"), "joaninha@example.com")
    assert not is_guessable("joaninha2026", "pedro@example.com")
    assert not is_guessable("joaninha voa sobre o milharal", "joaninha@example.com")
    assert not is_guessable("ana vai ao mercado", "ana@example.com")
