"""Refuse passwords that are easily guessed.

NIST SP 800-63B, 5.1.1.2, requires that leaked passwords, common words, repetitions, sequences and words related to the
account are refused. zxcvbn (MIT) knows the thirty thousand passwords leaked most often, English words and names,
keyboard rows, dates, and letters written as digits or signs; this module adds the words most frequent in Brazil.
"""

from typing import Final

GUESSES_MIN: Final = 10**8
"""Guesses that a password must withstand. The pages that ask for a password limit the attempts (docs/dashboard.md)."""
_CHECKED_CHARACTERS_MAX: Final = 72
"""Characters of a password that are checked: the time grows with the square of their number, and the rest of a longer
password does not make it easier to guess."""
# Leaked passwords in Portuguese without the digits and signs at their ends, the most frequent first.
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
    """Whether an attacker who knows the e-mail finds the password with fewer than GUESSES_MIN guesses."""
    # Imported here because its lists take 10 MB, which a process that never checks passwords need not spend.
    from zxcvbn import zxcvbn

    estimate = zxcvbn(password[:_CHECKED_CHARACTERS_MAX], user_inputs=[email, *email.split("@"), *_WORDS])
    return bool(estimate["guesses"] < GUESSES_MIN)
