"""Which passwords are guessed first: what lists of leaked ones begin with, in their shapes rather than one by one.

A list of ten million would stop more, and would have to be kept, renewed and looked into; what is tried against a page
that counts its tries (docs/dashboard.md) is the beginning of such a list. NIST SP 800-63B, 5.1.1.2, asks for common
words, repetitions, sequences, and what the account itself suggests.
"""

from itertools import pairwise
from typing import Final

_DISTINCT_MIN: Final = 5
_OWN_MIN: Final = 4
"""Characters beside a guessable word that make it another password."""
# Letters as digits and signs are written for them; case is folded before.
_LEET: Final = str.maketrans("0134578@$", "oieastbas")
# What is left of leaked passwords without digits and signs at their ends, in Portuguese and English.
_WORDS: Final = frozenset(
    """
    abc abcd acesso admin administrador administrator adoro amor amovoce amigo anjo batman bemvindo boleto
    brasil brazil cachorro caixa carro casa changeme cliente corinthians cruzeiro default deus deusefiel
    dinheiro dragon dragao empresa familia felicidade feliz fernanda financeiro flamengo football futebol
    gabriel gremio guest hello iloveyou internacional jesus jesuscristo juliana letmein loja login love lucas
    maria master mestre monkey mudar natal palmeiras pagamento paix palavra pass passe passwd password paulo
    pedro pix pokemon princesa princess quita rafael root santos saopaulo secret segredo segura seguro senha
    senhaforte senhas shadow sistema sol star starwars sunshine superman teamo temp temporaria teste test
    trabalho trocar usuario user vasco vida welcome
    """.split()  # noqa: SIM905 - a hundred words in quotes of their own are not easier to read
)
_ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "qazwsxedcrfvtgbyhnujm", "1qaz2wsx3edc4rfv5tgb", "0123456789")


def is_guessable(password: str, email: str = "") -> bool:
    """Whether it is among what is tried first: one word with digits, a repetition, a sequence, or the e-mail itself."""
    folded = password.casefold()
    if len(set(folded)) < _DISTINCT_MIN or _is_sequence(folded) or _is_repeated(folded):
        return True
    core = _core(folded)
    if not core or core in _WORDS or _is_repeated(core):
        return True
    own = _core(email.partition("@")[0].casefold())
    return len(own) >= _OWN_MIN and own in folded and len(folded) - len(own) < 2 * _OWN_MIN


def _core(folded: str) -> str:
    """The letters between what stands before and after them, digits within read as the letters they are written for."""
    spelled = _without_ends(folded.translate(_LEET))
    if spelled in _WORDS:
        return spelled
    return "".join(each for each in _without_ends(folded).translate(_LEET) if each.isalpha())


def _without_ends(text: str) -> str:
    """What is between the first letter and the last."""
    return text.strip("".join(each for each in set(text) if not each.isalpha()))


def _is_sequence(folded: str) -> bool:
    """Most of it goes on by one, or along a row of the keyboard, either way."""
    steps = sum(
        abs(ord(one) - ord(other)) == 1 or any(one + other in row or other + one in row for row in _ROWS)
        for one, other in pairwise(folded)
    )
    return steps >= 0.75 * (len(folded) - 1)


def _is_repeated(folded: str) -> bool:
    """A piece of it, over and over: it is found in itself doubled before its own length."""
    return len(folded) > 1 and (folded + folded).find(folded, 1) < len(folded)
