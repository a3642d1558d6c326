"""Rules of the code that no other tool checks: sizes, names, import cycles, schema names in SQL."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("api", "banks", "cli", "commands", "domain", "readmodels", "runtime", "sql", "web", "workers")
LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60
FILES_MAX: Final = 15

LONG_FILES: Final = {
    "banks/banco_do_brasil/cobrancas.py": "one API of the bank: every call with its wire format",
    "banks/simulated/boleto_wire.py": "the same API from the bank's side, in one piece to be read beside the adapter",
    "banks/simulated/boletos.py": "the simulated bank's books of boletos: one state machine",
    "banks/simulated/wire.py": "the PIX API from the bank's side, in one piece to be read beside the adapter",
}
LARGE_FOLDERS: Final = {"api/routes": "a file for each resource of the API"}


@cache
def trees() -> dict[str, ast.Module]:
    """The product's Python files by their path."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_files_are_short_or_listed_with_a_reason() -> None:
    long = {path for path in trees() if len((ROOT / path).read_text(encoding="utf-8").splitlines()) > LINES_MAX}
    assert long == set(LONG_FILES)


def test_functions_are_short() -> None:
    long = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= FUNCTION_LINES_MAX
    ]
    assert long == []


def test_folders_contain_at_most_15_files() -> None:
    files = [*trees(), *(path.relative_to(ROOT).as_posix() for path in (ROOT / "sql").rglob("*.sql"))]
    count = Counter(path.rpartition("/")[0] for path in files if not path.endswith("/__init__.py"))
    assert {folder: number for folder, number in count.items() if number > FILES_MAX}.keys() == LARGE_FOLDERS.keys()


def test_no_annotation_in_a_class_has_the_name_of_one_of_its_fields() -> None:
    """From Python 3.14 on, annotations are evaluated on demand in the finished class: there `type | None` refers to the
    field `type`, and the API would not start."""
    found = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                names = {each.target.id for each in fields if isinstance(each.target, ast.Name)}
                names |= {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
                for each in fields:
                    used = {name.id for name in ast.walk(each.annotation) if isinstance(name, ast.Name)}
                    found += [f"{path}:{each.lineno} {name}" for name in sorted(used & names)]
    assert found == []


def test_no_two_public_classes_have_the_same_name() -> None:
    where = defaultdict(list)
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(path)
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_names_of_limits_end_in_max() -> None:
    """So one search for _MAX finds every bound."""
    odd = re.compile(r"_?(MOST_[A-Z_0-9]+|[A-Z_0-9]+_MOST|MAX_[A-Z_0-9]+)")
    found = [
        f"{path}:{node.lineno} {node.id}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and odd.fullmatch(node.id)
    ]
    assert found == []


def test_no_modules_import_each_other() -> None:
    """Imports within functions and under TYPE_CHECKING count as well."""
    modules = {path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in trees()}
    imports = {name: _imports(trees()[path], modules) - {name} for name, path in modules.items()}
    while leaves := [name for name, others in imports.items() if not others & imports.keys()]:
        for name in leaves:
            del imports[name]
    assert _cycle(imports) == []


def test_only_its_package_and_the_table_of_banks_import_a_bank() -> None:
    """So a second bank needs only a package, a row in banks/choice.py and settings. The simulated bank plays Banco do
    Brasil, so it may import it."""
    knowing = {
        path
        for path, tree in trees().items()
        for node in ast.walk(tree)
        for name in _names(node)
        if name.startswith("banks.banco_do_brasil")
    }
    allowed = ("banks/banco_do_brasil/", "banks/simulated/", "banks/choice.py")
    assert {path for path in knowing if not path.startswith(allowed)} == set()


def _names(node: ast.AST) -> list[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def _imports(tree: ast.Module, modules: dict[str, str]) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules.keys() or {node.module}
    return found & modules.keys()


def _cycle(imports: dict[str, set[str]]) -> list[str]:
    """Returns one cycle among the remaining modules, each of which imports another of them."""
    walked: list[str] = []
    name = next(iter(imports), None)
    while name is not None and name not in walked:
        walked.append(name)
        name = next(iter(sorted(imports[name] & imports.keys())), None)
    return walked[walked.index(name) :] if name is not None else []


def test_no_statement_names_a_schema() -> None:
    """Statements find the schema of their cell by search_path. pg_temp is allowed: it belongs to the session."""
    named = re.compile(r"\b(public|simulated_bank)\.\w|\bSET\s+search_path\b(?! = %I)|\bCREATE\s+SCHEMA\b", re.I)
    found = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in sorted((ROOT / "sql").rglob("*.sql"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if named.search(line.partition("--")[0])
    ]
    assert found == []


def test_no_statement_has_a_universal_filter() -> None:
    """`:x IS NULL OR ...` has one plan for all combinations of filters, which fits none of them."""
    universal = re.compile(r":\w+(::[\w\[\]]+)?\s+IS\s+NULL\s+OR\b", re.I)
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for path in sorted((ROOT / "sql").rglob("*.sql"))
        for hit in universal.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
