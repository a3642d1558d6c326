"""An empty sheet of charges to fill in, as .xlsx and as CSV: it has the column names and no row that would be read as a
charge."""

import io
from functools import cache
from typing import Any, Final

from litestar.response import Response

from readmodels.reports.csv_lines import BOM, CONTENT_TYPE, csv_line
from web.painel.charges.sheets.rows import AMOUNT_COLUMNS, COLUMNS, DAY_COLUMNS, KINDS, ROWS_MAX
from web.painel.page_request import PAGE_HEADERS, PageRequest
from web.painel.xlsx_export import MEDIA_TYPE

_WIDTH: Final = 22  # characters
_HELP: Final[dict[str, str]] = {
    "tipo": "Obrigatória. pix, boleto, boleto_hibrido (boleto com Pix) ou boleto_pix (boleto e Pix: o primeiro pago "
    "encerra o outro).",
    "valor": "Obrigatória. Em reais: 1.234,56.",
    "vencimento": "De boletos, e obrigatória neles: um dia depois de hoje.",
    "validade_dias": "De Pix: 1, 3, 7 ou 30 dias; vazia, 7.",
    "referencia": "O seu número desta cobrança.",
    "descricao": "Aparece para o pagador.",
    "nome": "Do pagador. Obrigatória em boletos.",
    "documento": "CPF ou CNPJ do pagador. Obrigatória em boletos.",
    "email": "Do pagador.",
    "telefone": "Do pagador.",
    "cep": "Do pagador. O endereço é obrigatório em boletos: cep, rua, cidade e estado.",
    "rua": "Do pagador.",
    "numero": "Do imóvel.",
    "cidade": "Do pagador.",
    "estado": "Do pagador, em duas letras: SP.",
    "multa_percentual": "De boletos, uma vez se atrasar: 2 ou 2,00.",
    "multa_valor": "De boletos: a multa em reais, no lugar da porcentagem.",
    "juros_percentual_mes": "De boletos, por atraso: 1 ou 1,00 ao mês.",
    "juros_valor_dia": "De boletos: os juros em reais por dia, no lugar da porcentagem.",
    "pagavel_dias_depois": "De boletos: por quantos dias depois do vencimento pode ser pago.",
    "desconto_em": "De boletos: % para descontos em porcentagem; vazia, em reais.",
    "desconto": "De boletos, por pagamento antecipado.",
    "desconto_ate": "O último dia do desconto.",
    "desconto_2": "Um segundo desconto, depois do primeiro.",
    "desconto_2_ate": "O último dia do segundo desconto.",
    "desconto_3": "Um terceiro desconto, depois do segundo.",
    "desconto_3_ate": "O último dia do terceiro desconto.",
}


async def show_csv(request: PageRequest) -> Response[Any]:
    return _attachment(BOM + csv_line(list(COLUMNS)), "csv", CONTENT_TYPE)


async def show_xlsx(request: PageRequest) -> Response[Any]:
    return _attachment(workbook(), "xlsx", MEDIA_TYPE)


def _attachment(content: bytes, kind: str, media_type: str) -> Response[Any]:
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="cobrancas-modelo.{kind}"'}
    return Response(content, headers=headers, media_type=media_type)


@cache
def workbook() -> bytes:
    """Returns the empty workbook. Its columns have formats, so that a CPF keeps its zeros; its second sheet explains
    each column."""
    import xlsxwriter  # as in xlsx_export.py

    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        bold, text = book.add_format({"bold": True}), book.add_format({"num_format": "@"})
        amount, day = book.add_format({"num_format": "#,##0.00"}), book.add_format({"num_format": "dd/mm/yyyy"})
        sheet, help_sheet = book.add_worksheet("cobrancas"), book.add_worksheet("como preencher")
        sheet.freeze_panes(1, 0)
        for index, column in enumerate(COLUMNS):
            cell_format = amount if column in AMOUNT_COLUMNS else day if column in DAY_COLUMNS else text
            sheet.set_column(index, index, _WIDTH, cell_format)
            sheet.write_string(0, index, column, bold)
            help_sheet.write_string(index, 0, column, bold)
            help_sheet.write_string(index, 1, _HELP[column])
        validation = {"validate": "list", "source": list(dict.fromkeys(KINDS.values()))}
        sheet.data_validation(1, list(COLUMNS).index("tipo"), ROWS_MAX, list(COLUMNS).index("tipo"), validation)
        help_sheet.set_column(0, 0, _WIDTH)
        help_sheet.set_column(1, 1, 4 * _WIDTH)
    return buffer.getvalue()


assert set(_HELP) == set(COLUMNS)
