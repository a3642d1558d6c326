"""The search of logs for personal data and secrets finds every kind of them, and nothing else."""

import pytest

from tests.support.log_search import leaks_in, remember_secret


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Authorization: Bearer 0123456789abcdefghijABCDEFGHIJ", "bearer token"),
        ('{"secret":"whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWo="}', "webhook secret"),
        ('{"to":"ana.souza@example.com"}', "e-mail"),
        ("GET /pagar/0123456789abcdefghijkl HTTP/1.1", "link of a payer"),
        ("cannot reach postgresql://quita:s3nha@db/quita", "password in an address"),
        ('{"document":"52998224725"}', "document"),
        ("CPF 529.982.247-25 recusado", "document"),
        ("Key (document)=(11222333000181) already exists.", "document"),
        ("CNPJ 11.222.333/0001-81", "document"),
        ("client a-secret-of-the-run was here", "secret"),
    ],
)
def test_personal_data_and_secrets_are_found(line: str, kind: str) -> None:
    remember_secret("a-secret-of-the-run")
    assert [leak.partition(":")[0] for leak in leaks_in(f"good line\n{line}\n")] == [kind]


@pytest.mark.parametrize(
    "line",
    [
        '{"ts":"2026-01-31T12:00:00.000Z","level":"info","event":"request","request_id":"req_EuCqhINoJooFuxq0GCbjrA"}',
        '{"txid":"01a206a751487474b054679b16d996f4","nosso_numero":"00031285570000030000"}',
        '{"end_to_end_id":"E00000000202611231204abcdefghijk","duration_ms":0.12345678909}',
        "database system is ready to accept connections at 127.0.0.1:5432",
        '{"number":"52998224724"}',
    ],
)
def test_ids_and_numbers_that_may_be_logged_are_not_reported(line: str) -> None:
    assert leaks_in(line) == []
