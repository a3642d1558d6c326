"""Which passwords are guessed first.

NIST SP 800-63B, 5.1.1.2, asks that leaked passwords, common words, repetitions, sequences and what the account itself
suggests be refused. zxcvbn (MIT) knows the thirty thousand most often leaked, words and names in English, rows of
keyboards, dates, and letters written as digits or signs; here it is told the words that Brazilians begin with.
"""

from typing import Final

GUESSES_MIN: Final = 10**8
"""Tries that a password must withstand. The pages that ask for one count tries (docs/dashboard.md)."""
_LOOKED_AT_MAX: Final = 72
"""Characters of it that are looked at: the time grows with their square, and so many withstand guessing by the rest."""
# What is left of leaked passwords in Portuguese without the digits and signs at their ends, the most frequent first.
_WORDS: Final = tuple(
    """
    senha mudar brasil flamengo amor deus jesus teamo amovoce corinthians palmeiras gabriel fernanda familia princesa
    felicidade vida sucesso vitoria saopaulo cruzeiro gremio internacional vasco santos fluminense botafogo trabalho
    empresa loja acesso admin administrador usuario cliente teste temporaria trocar sistema boleto pix caixa dinheiro
    pagamento financeiro cobranca quita bemvindo deusefiel jesuscristo juliana rafael lucas pedro maria julia joao
    eduardo eduarda mariaeduarda rodrigo camila beatriz larissa leticia bruna amanda futebol cachorro dragao mestre
    segredo segura seguro senhaforte estrela anjo amigo palavra natal copa casa carro sol paz feliz adoro lindo linda
    minha meu minhasenha brasileiro batata chocolate borboleta
    """.split()  # noqa: SIM905 - a hundred words in quotes of their own are not easier to read
)


def is_guessable(password: str, email: str = "") -> bool:
    """Whether fewer than GUESSES_MIN tries find it, by somebody who knows the e-mail."""
    # Its lists take 10 MB, which a process that is never asked is spared.
    from zxcvbn import zxcvbn

    found = zxcvbn(password[:_LOOKED_AT_MAX], user_inputs=[email, *email.split("@"), *_WORDS])
    return bool(found["guesses"] < GUESSES_MIN)
