"""The texts of mails to people of the dashboard, in Portuguese: one-time links, and notices on access and money."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from domain.brazilian import moment
from readmodels.documents.mail_letter import Letter

ROLES: Final = {
    "owner": "Proprietário", "finance": "Financeiro", "developer": "Desenvolvimento", "support": "Atendimento",
    "admin": "Administração", "operations": "Operações",
}  # fmt: skip
_NOT_ASKED: Final = "Se não foi você quem pediu, ignore este e-mail: nada muda e o link deixa de valer sozinho."
_NEVER_ASKED: Final = "Nunca pedimos a senha, nem este link, por telefone ou mensagem."


def link_letter(
    *,
    account: str,
    role: str,
    name: str | None,
    fresh: bool,
    invited_by: str | None,
    link: str,
    minutes: int,
    staff: bool = False,
) -> Letter:
    """The letter with a link to choose a first password (`fresh`) or a new one."""
    greeting = f"Olá, {name}. " if name else ""
    facts = [("Perfil", ROLES[role])] if staff else [("Conta", account), ("Perfil", ROLES[role])]
    if invited_by is not None:
        facts.append(("Convite de", invited_by))
    if fresh:
        where, how_to_renew = "ao painel da Quita", "peça outro em “Esqueceu a senha?”, na página de entrada"
        if staff:
            where, how_to_renew = "à plataforma da Quita", "peça outro a quem administra a equipe"
        return Letter(
            subject="Seu acesso à plataforma da Quita" if staff else f"Seu acesso a {account} na Quita",
            heading="Escolha a sua senha",
            lead=f"{greeting}Você tem um acesso {where}. Escolha a sua senha para entrar.",
            facts=tuple(facts),
            link=("Escolher a senha", link),
            merchant="" if staff else account,
            closing=(
                f"O link vale por {minutes} minutos e uma única vez. Se passar do tempo, {how_to_renew}.", _NEVER_ASKED,
            ),
        )  # fmt: skip
    return Letter(
        subject="Escolha uma senha nova na Quita",
        heading="Escolha uma senha nova",
        lead=f"{greeting}Alguém pediu uma senha nova para este e-mail.",
        facts=tuple(facts),
        link=("Escolher a senha", link),
        merchant="" if staff else account,
        closing=(
            f"O link vale por {minutes} minutos e uma única vez. Ao trocar a senha, todas as suas sessões terminam; os "
            "dois fatores continuam ligados.",
            _NOT_ASKED,
            _NEVER_ASKED,
        ),
    )


def other_account_letter(*, account: str, app_url: str) -> Letter:
    """The letter to an invited person whose e-mail already signs in to another account. The inviting person is not
    told."""
    return Letter(
        subject=f"Convite para {account} na Quita",
        heading="Este e-mail já entra em outra conta",
        lead=f"Você foi convidado para o painel de {account}, mas este e-mail já entra em outra conta da Quita, e um "
        "e-mail entra em uma conta só. Se quiser aceitar, peça o convite para outro endereço seu.",
        link=("Abrir a Quita", f"{app_url}/painel/entrar"),
        merchant=account,
        closing=("Quem o convidou não fica sabendo deste aviso.",),
    )


# Heading and lead by kind of action. A new kind of action that is notified needs its words here.
_NOTICE_TEXTS: Final[dict[str, tuple[str, str]]] = {
    "person.invited": (
        "Uma pessoa foi convidada para a sua conta", "Quem aceitar o convite abre o painel com o perfil abaixo."),
    "person.joined": (
        "Uma pessoa nova entra na sua conta", "Ela escolheu a senha e já abre o painel com o perfil abaixo."),
    "person.role_changed": (
        "O perfil de uma pessoa mudou", "O perfil decide o que ela vê e faz no painel."),
    "person.removed": (
        "Uma pessoa saiu da sua conta", "As sessões dela terminaram, e os convites que ela fez não valem mais. "
        "Credenciais que ela criou ou renovou continuam valendo até que alguém as revogue em “Credenciais”, e o "
        "segredo do webhook, se ela o viu, até que alguém o troque em “Webhooks”."),
    "person.access_sent": (
        "Um link de acesso foi enviado", "Com ele a pessoa escolhe uma senha nova, pelo próprio e-mail."),
    "person.factor_cleared": (
        "Os dois fatores de uma pessoa foram desligados", "Até ligá-los de novo, ela entra só com a senha."),
    "staff.invited": (
        "Uma pessoa foi convidada para a equipe", "Quem aceitar o convite abre a plataforma com o perfil abaixo."),
    "staff.joined": (
        "Uma pessoa nova entra na equipe", "Ela escolheu a senha e já abre a plataforma com o perfil abaixo."),
    "staff.role_changed": (
        "O perfil de uma pessoa da equipe mudou", "O perfil decide o que ela vê e faz na plataforma."),
    "staff.access_sent": (
        "Um link de acesso foi enviado a uma pessoa da equipe", "Com ele a pessoa escolhe uma senha nova, pelo próprio "
        "e-mail."),
    "staff.factor_cleared": (
        "Os dois fatores de uma pessoa da equipe foram desligados", "Até ligá-los de novo, ela não abre nenhuma página "
        "da plataforma."),
    "staff.removed": (
        "Uma pessoa saiu da equipe", "As sessões dela terminaram."),
    "withdrawal.asked": (
        "Um saque foi pedido", "O valor saiu do saldo e segue para a chave abaixo."),
    "withdrawal.daily_set": (
        "O saque automático foi ligado ou alterado", "Todo dia o que passar do valor abaixo sai para esta chave."),
    "refund.asked": (
        "Uma devolução para uma chave Pix foi pedida", "O valor saiu do saldo e segue para a chave abaixo."),
    "program.withdrawals": (
        "Um programa pediu saques", "O valor saiu do saldo e segue para a chave dos saques. Dos próximos avisamos no "
        "máximo uma vez por hora; todos estão em “Saques”."),
    "program.refunds": (
        "Um programa pediu devoluções para uma chave Pix", "O valor saiu do saldo e segue para quem devia pagar. Das "
        "próximas avisamos no máximo uma vez por hora; todas estão em “Devoluções”."),
    "credential.money": (
        "Uma credencial que movimenta dinheiro tem um segredo novo", "Com ela um programa devolve, saca ou programa "
        "cobranças sem perguntar a ninguém."),
    "credential.created": (
        "Uma credencial foi criada", "Com ela um programa faz pela API o que está abaixo, em produção."),
    "credential.rotated": (
        "O segredo de uma credencial foi trocado", "Programas que usam o segredo de antes param quando ele deixar de "
        "valer."),
    "webhook.registered": (
        "Um webhook foi cadastrado", "Os eventos da sua conta passam a ir para o servidor abaixo."),
    "webhook.moved": (
        "O endereço do webhook mudou", "Os eventos da sua conta passam a ir para o servidor abaixo."),
    "webhook.rotated": (
        "O segredo do webhook foi trocado", "Os eventos passam a sair assinados com o segredo novo."),
    "webhook.removed": (
        "O webhook foi removido", "Seu sistema deixa de ser avisado dos eventos da sua conta."),
    "payout_key.asked": (
        "A troca da chave dos saques foi pedida", "Até a data abaixo os saques vão para a chave de antes, e qualquer "
        "proprietário pode cancelar a troca em “Saques”."),
    "payout_key.proposed": (
        "A plataforma pediu a troca da chave dos saques", "Outra pessoa da plataforma precisa confirmar; depois disso "
        "passam 24 horas. Qualquer proprietário pode cancelar a troca em “Saques”."),
    "payout_key.cancelled": (
        "A troca da chave dos saques foi cancelada", "Os saques continuam indo para a chave de antes."),
    "merchant.fees_set": (
        "As tarifas da sua conta mudaram", "Valem para os pagamentos confirmados e os saques pedidos a partir de "
        "agora. O que já foi lançado fica como está."),
    "password.recovered": (
        "Sua senha foi trocada", "A senha nova foi escolhida pelo link enviado a este e-mail. Todas as suas sessões "
        "terminaram."),
    "password.changed": (
        "Sua senha foi trocada", "A senha nova foi escolhida em “Seu acesso”. Suas outras sessões terminaram."),
    "factor.on": (
        "Dois fatores ligados", "Para entrar, além da senha é preciso um código do telefone que acaba de ser ligado."),
    "factor.off": (
        "Dois fatores desligados", "Para entrar basta a senha."),
    "session.new_place": (
        "Entrada de um lugar novo", "Alguém entrou com a sua senha em um navegador conhecido, mas de uma rede de onde "
        "você não costuma entrar."),
    "session.new_device": (
        "Entrada em um aparelho novo", "Alguém entrou no painel com a sua senha em um navegador que não conhecíamos."),
}  # fmt: skip
_FACT_LABELS: Final = {
    "person": "Pessoa", "name": "Nome", "role": "Perfil", "cell": "Célula", "reason": "Motivo",
    "browser": "Navegador", "count": "Quantidade", "amount": "Valor", "since": "Desde", "kept": "Fica no saldo",
    "fees": "Tarifas", "fee_pix": "Tarifa por Pix", "fee_boleto": "Tarifa por boleto",
    "fee_withdrawal": "Tarifa por saque",
    "destination": "Destino", "host": "Servidor", "effective": "Vale a partir de", "scopes": "Permissões",
    "by": "Quem fez", "from": "Endereço de rede",
}  # fmt: skip
_CLOSING: Final = (
    "Se não reconhece isto, troque a sua senha em “Esqueceu a senha?”, encerre as sessões em “Seu acesso” e fale com a "
    "plataforma."
)
_CLOSING_OF_STAFF: Final = (
    "Se não reconhece isto, fale já com quem administra a plataforma, e encerre as suas sessões em “Seu acesso”."
)
_LAST: Final = "É o último aviso deste tipo por hoje: foram muitos. O que acontecer depois fica na auditoria."
NOTICE_KINDS: Final = frozenset(_NOTICE_TEXTS)


def security_letter(
    *,
    kind: str,
    at: datetime,
    facts: Mapping[str, str],
    account: str,
    app_url: str,
    staff: bool,
    cell: str = "",
    last: bool = False,
) -> Letter:
    """The notice of an action: what, when, by whom and from where. Facts are shown in the order of _FACT_LABELS. `cell`
    is the name of a cell other than home: its staff cannot sign in on the page that leads to home."""
    heading, lead = _NOTICE_TEXTS[kind]
    platform = f"/plataforma/entrar?celula={cell}" if cell else "/plataforma"
    shown_facts = [("Quando", moment(at))] if staff else [("Conta", account), ("Quando", moment(at))]
    for name, label in _FACT_LABELS.items():
        if facts.get(name):
            shown_facts.append((label, ROLES.get(facts[name], facts[name]) if name == "role" else facts[name]))
    return Letter(
        subject=heading,
        heading=heading,
        lead=lead,
        facts=tuple(shown_facts),
        link=("Abrir a plataforma", app_url + platform) if staff else ("Abrir o painel", f"{app_url}/painel"),
        merchant="" if staff else account,
        closing=(_CLOSING_OF_STAFF if staff else _CLOSING, *((_LAST,) if last else ())),
    )
