"""The second factor: turned on with a code, asked for after the password, throttled, and turned off again."""

import asyncio
import re
from base64 import b32decode
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from cryptography.exceptions import InvalidTag

from commands.merchants.merchants import MerchantCreated
from commands.people.attempts import CODE_ATTEMPTS, CODE_WINDOW, EMAIL_ATTEMPTS, WINDOW
from commands.people.second_factor import open_secret, seal_secret
from commands.people.sessions import IDLE
from domain.totp import STEP_S, code_at, step_at
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.code_reader import qr_text
from tests.support.dashboard import ENTRY, Clock, Person, Seen, a_merchant, owner_in_browser, settings_with
from tests.support.pages import serving

CODE = f"{ENTRY}/codigo"
FACTOR = "/painel/acesso/codigo"


@pytest_asyncio.fixture(loop_scope="session")
async def address(pool: Pool, clock: Clock) -> AsyncIterator[str]:
    async with serving(pool, clock.now, settings_with()) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def merchant(pool: Pool) -> MerchantCreated:
    return await a_merchant(pool)


def _secret(page: Seen) -> bytes:
    return b32decode(page.field("Ou digite este segredo no aplicativo").replace(" ", ""))


async def _enrol(person: Person, clock: Clock) -> tuple[bytes, list[str]]:
    """Turn the factor on; return its secret and the recovery codes."""
    page = await person.opened(FACTOR)
    secret = _secret(page)
    sealed = re.search(r'name="secret" value="([0-9a-f]+)"', page.html)
    assert sealed
    done = await person.post(
        FACTOR, form=page, secret=sealed[1], code=code_at(secret, step_at(clock.at)), password=person.password
    )
    assert done.status == 200, done.text[:400]
    codes = re.findall(r"<code>([A-Z2-7]{4}-[A-Z2-7]{4}-[A-Z2-7]{4})</code>", done.html)
    # The page offers to copy and to save them, because ten codes are easily written down wrong by hand.
    kept = re.search(r'id="codes" data-text="([^"]*)"', done.html)
    assert kept is not None
    assert kept[1].split() == codes
    assert 'data-copy="codes"' in done.html
    assert 'data-save="codes"' in done.html
    clock.on(timedelta(seconds=STEP_S))
    return secret, codes


async def _with_code(person: Person, code: str, *, form: Seen | None = None) -> Seen:
    """Send the password, unless a form is given, and then the code."""
    page = form or await person.sign_in()
    assert page.status == 200, (page.status, page.where)
    assert "Código de acesso" in page.text
    return await _send_code(person, page, code)


async def _send_code(person: Person, page: Seen, code: str) -> Seen:
    step = re.search(r'name="passo" value="([0-9a-f]*)"', page.html)
    assert step
    return await person.ask("POST", CODE, data={"csrf": page.hidden()["csrf"], "passo": step[1], "codigo": code})


async def test_an_authenticator_reads_the_secret_and_its_code_turns_the_factor_on(
    address: str, clock: Clock, pool: Pool, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person, owner_in_browser(address, merchant) as elsewhere:
        page = await person.opened(FACTOR)
        image = re.search(r'src="data:image/png;base64,([^"]+)"', page.html)
        assert image
        parts = urlsplit(qr_text(image[1]))
        assert (parts.scheme, parts.netloc) == ("otpauth", "totp")
        assert b32decode(parse_qs(parts.query)["secret"][0]) == _secret(page)
        secret, codes = await _enrol(person, clock)
        assert len(set(codes)) == 10
        stored = await pool.fetchrow("SELECT * FROM dashboard_user WHERE email = $1", person.email)
        kept = await pool.fetch("SELECT code_hash FROM recovery_code WHERE email = $1", person.email)
        assert len(kept) == 10
        assert stored
        assert secret not in bytes(stored["totp_sealed"])
        sealed = seal_secret(person.email, secret, seal := Seal(bytes(32)))
        with pytest.raises(InvalidTag):  # in another person's row
            open_secret("another@example.com", sealed, seal)
        assert not any(code.replace("-", "") in str(kept) or code in str(kept) for code in codes)
        # Only this browser stays signed in, and the page no longer shows the secret.
        assert (await elsewhere.get("/painel")).status == 303
        again = await person.opened(FACTOR)
        assert "Restam 10 códigos" in again.text
        assert "otpauth" not in again.html
        assert "Ligou dois fatores" in (await person.opened("/painel/auditoria")).text


async def test_after_the_password_the_code_is_asked_for_and_works_once(
    address: str, clock: Clock, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person:
        secret, _ = await _enrol(person, clock)
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        asked = await person.sign_in(where_to="/painel/extrato")
        assert person.cookie() == ""
        assert (await person.get("/painel")).status == 303
        here = step_at(clock.at)
        for wrong in ("000000", "", "abc", code_at(secret, here - 2), code_at(secret, here + 2)):
            assert (await _with_code(person, wrong, form=asked)).status == 403, wrong
        # One step off is accepted, for the clock of the telephone.
        done = await _with_code(person, f" {code_at(secret, here + 1)[:3]} {code_at(secret, here + 1)[3:]}", form=asked)
        assert (done.status, done.where) == (303, "/painel/extrato")
    for used in (here + 1, here, here - 1):
        async with owner_in_browser(address, merchant, signed_in=False) as person:
            assert (await _with_code(person, code_at(secret, used))).status == 403
    clock.on(timedelta(seconds=2 * STEP_S))
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        code = code_at(secret, step_at(clock.at))
        pages = [await person.sign_in() for _ in range(2)]
        answers = await asyncio.gather(*(_send_code(person, page, code) for page in pages))
        assert sorted(each.status for each in answers) == [303, 403]


async def test_a_recovery_code_signs_in_once_and_its_use_is_audited(
    address: str, clock: Clock, pool: Pool, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person:
        _, codes = await _enrol(person, clock)
    for given, status in ((codes[0].lower(), 303), (codes[0], 403), (codes[1].replace("-", " "), 303), ("A" * 12, 403)):
        async with owner_in_browser(address, merchant, signed_in=False) as person:
            assert (await _with_code(person, given)).status == status, given
            if status == 303:
                seen = await person.opened("/painel/auditoria")
                assert "com: código de recuperação" in seen.text
    assert await pool.fetchval("SELECT count(*) FROM recovery_code WHERE email = $1", merchant.dashboard.email) == 8
    # Guesses at recovery codes are counted like passwords.
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        asked = await person.sign_in()
        guesses = [(await _send_code(person, asked, "A" * 12)).status for _ in range(EMAIL_ATTEMPTS)]
        assert (guesses[0], guesses[-1]) == (403, 429)


async def test_codes_may_be_guessed_only_ten_times_a_day_even_with_the_right_password(
    address: str, clock: Clock, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person:
        secret, codes = await _enrol(person, clock)
    async with owner_in_browser(address, merchant, signed_in=False) as person:
        guessed = 0
        while guessed < CODE_ATTEMPTS:
            asked = await person.sign_in()
            for _ in range(min(EMAIL_ATTEMPTS - 1, CODE_ATTEMPTS - guessed)):
                assert (await _send_code(person, asked, "000000")).status == 403
                guessed += 1
            clock.on(WINDOW + timedelta(seconds=1))
        asked = await person.sign_in()
        right = await _send_code(person, asked, code_at(secret, step_at(clock.at)))
        assert right.status == 429
        assert WINDOW.total_seconds() < int(right.headers["Retry-After"]) <= CODE_WINDOW.total_seconds() + 1
        # A recovery code still works, so whoever knows the password cannot lock the person out.
        assert (await _send_code(person, asked, codes[0])).status == 303


async def test_the_step_between_password_and_code_is_bound_to_one_browser_and_five_minutes(
    address: str, clock: Clock, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person:
        secret, _ = await _enrol(person, clock)
    async with (
        owner_in_browser(address, merchant, signed_in=False) as person,
        owner_in_browser(address, merchant, signed_in=False) as thief,
    ):
        asked = await person.sign_in()
        stolen = re.search(r'name="passo" value="([0-9a-f]*)"', asked.html)
        own = await thief.get(ENTRY)
        assert stolen
        code = code_at(secret, step_at(clock.at))
        for step in (stolen[1], "", "00" * 40, stolen[1][:-2]):
            sent = await thief.ask("POST", CODE, data={"csrf": own.hidden()["csrf"], "passo": step, "codigo": code})
            assert (sent.status, thief.cookie()) == (403, ""), step
        clock.on(timedelta(seconds=301))
        late = await _send_code(person, asked, code_at(secret, step_at(clock.at)))
        assert (late.status, person.cookie()) == (403, "")


async def test_the_factor_is_turned_off_only_with_password_and_code(
    address: str, clock: Clock, pool: Pool, merchant: MerchantCreated
) -> None:
    off = f"{FACTOR}/desligar"
    async with owner_in_browser(address, merchant) as person:
        earlier = await person.opened(FACTOR)
        secret, _ = await _enrol(person, clock)

        async def turn_off(password: str, code: str) -> Seen:
            return await person.post(off, on=FACTOR, password=password, code=code)

        code = code_at(secret, step_at(clock.at))
        for password, given in (("wrong", code), ("", code), (person.password, "000000"), (person.password, "")):
            assert (await turn_off(password, given)).status == 400, (password, given)
        # A form for another secret, opened before, does not replace the factor with the password alone.
        held = "SELECT totp_sealed FROM dashboard_user WHERE email = $1"
        before = await pool.fetchval(held, person.email)
        other = re.search(r'name="secret" value="([0-9a-f]+)"', earlier.html)
        assert other
        its_code = code_at(_secret(earlier), step_at(clock.at))
        fresh = await person.post(FACTOR, form=earlier, secret=other[1], code=its_code, password=person.password)
        assert fresh.status == 400
        assert before == await pool.fetchval(held, person.email)
        assert (await turn_off(person.password, code)).where == "/painel/acesso?feito=fator-desligado"
        assert "desligados" in (await person.opened("/painel/acesso")).text
    async with owner_in_browser(address, merchant) as person:
        assert (await person.get("/painel")).status == 200
    assert await pool.fetchval("SELECT count(*) FROM recovery_code WHERE email = $1", merchant.dashboard.email) == 0


async def test_a_wrong_first_code_or_password_turns_nothing_on_and_shows_the_same_secret(
    address: str, clock: Clock, pool: Pool, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person:
        page = await person.opened(FACTOR)
        sealed = re.search(r'name="secret" value="([0-9a-f]+)"', page.html)
        assert sealed
        right = code_at(_secret(page), step_at(clock.at))
        for code, password in (("000000", person.password), (right, "wrong")):
            seen = await person.post(FACTOR, form=page, secret=sealed[1], code=code, password=password)
            assert seen.status == 400
            assert _secret(seen) == _secret(page)
        for strange in ("", "zz", "00" * 60):
            assert (await person.post(FACTOR, secret=strange, code=right, password=person.password)).status == 400
        assert await pool.fetchval("SELECT totp_sealed FROM dashboard_user WHERE email = $1", person.email) is None


async def test_a_form_of_an_ended_session_is_also_kept_through_the_step_of_the_code(
    address: str, clock: Clock, merchant: MerchantCreated
) -> None:
    def hidden(page: Seen) -> dict[str, str]:
        return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.html))

    async with owner_in_browser(address, merchant) as person:
        secret, _ = await _enrol(person, clock)
        page = "/painel/empresa"
        form = await person.opened(page)
        clock.on(IDLE + timedelta(seconds=1))
        late = await person.post(f"{page}/contato", form=form, contact_email="ajuda@example.com")
        sent = {**hidden(late), "email": person.email, "password": person.password}
        code = await person.ask("POST", ENTRY, data=sent)
        assert "Código de acesso" in code.text
        given = {**hidden(code), "codigo": code_at(secret, step_at(clock.at))}
        entered = await person.ask("POST", CODE, data=given)
        assert "Falta enviar o formulário" in entered.text, entered.text[:300]
        assert (await person.ask("POST", f"{page}/contato", data=hidden(entered))).status == 303
        assert "ajuda@example.com" in (await person.opened(page)).html
