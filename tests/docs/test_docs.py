"""What the pages and the docstrings name is there: equations, sections, papers, files, functions, links."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "deploy/**/*.md")
FOLDERS = ("dmmc", "tests", "docs", "benchmarks", "examples", "deploy")


@pytest.fixture(scope="module")
def checkout(repo: Path) -> Path:
    if not (repo / "docs" / "mathematics.md").is_file():
        pytest.skip("docs: these tests need the checkout")
    return repo


@pytest.fixture(scope="module")
def mathematics(checkout: Path) -> str:
    return (checkout / "docs" / "mathematics.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(checkout: Path) -> dict[Path, str]:
    found = sorted({path for pattern in PAGES for path in checkout.glob(pattern)})
    return {path: path.read_text(encoding="utf-8") for path in found}


@pytest.fixture(scope="module")
def comments(checkout: Path) -> dict[Path, str]:
    """Docstrings and comments of each module of the package."""
    return {path: "\n".join(words(path)) for path in sorted((checkout / "dmmc").rglob("*.py"))}


def words(module: Path) -> Iterator[str]:
    text = module.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def without_code(page: str) -> str:
    return re.sub(r"```.*?```", "", page, flags=re.DOTALL)


def anchors(page: str) -> set[str]:
    """The names that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --------------------------------------------------------------------------------------------------- mathematics


def test_every_equation_has_its_own_number_and_none_is_left_out(mathematics: str) -> None:
    defined = [int(number) for number in re.findall(r"^ {4}.*\(E(\d+)\)$", mathematics, flags=re.MULTILINE)]
    assert sorted(defined) == list(range(1, len(defined) + 1))


def test_every_equation_that_the_code_cites_is_in_the_mathematics(mathematics: str, comments: dict[Path, str]) -> None:
    defined = set(re.findall(r"^ {4}.*\((E\d+)\)$", mathematics, flags=re.MULTILINE))
    cited = {number for text in comments.values() for number in re.findall(r"\bE\d+\b", text)}
    assert cited
    assert cited - defined == set()


def test_every_equation_that_a_page_cites_is_in_the_mathematics(mathematics: str, pages: dict[Path, str]) -> None:
    defined = set(re.findall(r"^ {4}.*\((E\d+)\)$", mathematics, flags=re.MULTILINE))
    cited = {number for text in pages.values() for number in re.findall(r"\(E\d+\)", text)}
    assert {number.strip("()") for number in cited} - defined == set()


def test_every_section_that_the_code_cites_is_in_the_mathematics(mathematics: str, comments: dict[Path, str]) -> None:
    headings = set(re.findall(r"^#+ (.*)$", mathematics, flags=re.MULTILINE))
    text = " ".join(" ".join(text.split()) for text in comments.values())
    cited = set(re.findall(r'docs/mathematics\.md, "([^"]+)"', text))
    assert cited
    assert cited - headings == set()


def test_every_paper_that_the_code_cites_is_among_the_references(mathematics: str, comments: dict[Path, str]) -> None:
    listed = set(re.findall(r"^\| (\d{3}) \|", mathematics, flags=re.MULTILINE))
    cited = {number for text in comments.values() for number in re.findall(r"\b00\d\b", text)}
    assert cited
    assert cited - listed == set()


# --------------------------------------------------------------------------------------------------- what is named


def test_links_of_the_pages_lead_somewhere(pages: dict[Path, str]) -> None:
    broken = []
    for path, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            if not there.exists() or (anchor and anchor not in anchors(there.read_text(encoding="utf-8"))):
                broken.append(f"{path.name}: {target}")
    assert broken == []


def test_files_and_folders_that_the_pages_name_exist(checkout: Path, pages: dict[Path, str]) -> None:
    named = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`")
    missing = [
        f"{path.name}: {name}"
        for path, text in pages.items()
        if "deploy" not in path.parts  # its pages name files of the machines there
        for name in named.findall(text)
        if not (checkout / name).exists()
    ]
    assert missing == []


def test_functions_that_the_pages_name_are_in_the_files_that_they_name(checkout: Path, pages: dict[Path, str]) -> None:
    named = re.compile(r"`(\w+)`(?:\s+\([^)]*\))?\s+(?:in|of)\s+`(dmmc/[\w/]+\.py)`")
    found = [(path.name, *match) for path, text in pages.items() for match in named.findall(text)]
    assert found
    missing = [
        f"{page}: {name} in {module}"
        for page, name, module in found
        if not re.search(
            rf"^\s*(?:def|class) {name}\b|^{name}\b", (checkout / module).read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert missing == []


def test_no_docstring_names_a_file_that_is_not_in_the_repository(checkout: Path, comments: dict[Path, str]) -> None:
    known = {
        path.name
        for folder in FOLDERS
        for path in (checkout / folder).rglob("*.*")
        if "__pycache__" not in path.parts and path.suffix in (".py", ".md")
    } | {path.name for path in checkout.glob("*.*")}
    missing = []
    for path, text in comments.items():
        for name in re.findall(r"(?<![\w./-])((?:[\w-]+/)*[\w-]+\.(?:md|py|toml))\b", text):
            there = (checkout / name).is_file() if "/" in name else name in known
            if not there:
                missing.append(f"{path.relative_to(checkout)}: {name}")
    assert missing == []


def test_modules_that_a_package_lists_are_in_it(checkout: Path) -> None:
    missing = []
    for init in sorted((checkout / "dmmc").rglob("__init__.py")):
        text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        named = re.findall(r"^- `(\w+)`|^ {4}(\w+) {2,}\S", text, flags=re.MULTILINE)
        names = [one or other for one, other in named]
        missing += [f"{init.relative_to(checkout)}: {name}" for name in names if not exists(init.parent / name)]
    assert missing == []


def exists(module: Path) -> bool:
    return module.is_dir() or module.with_suffix(".py").is_file()


# --------------------------------------------------------------------------------------------------- architecture


def test_the_architecture_names_every_folder_of_the_package(checkout: Path, pages: dict[Path, str]) -> None:
    page = pages[checkout / "docs" / "architecture.md"]
    folders = [path.parent.relative_to(checkout) for path in (checkout / "dmmc").rglob("__init__.py")]
    assert [str(folder) for folder in folders if folder != Path("dmmc") and f"`{folder}/" not in page] == []


def test_the_architecture_shows_the_import_contract_as_it_is(checkout: Path, pages: dict[Path, str]) -> None:
    with open(checkout / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["dmmc"])
    assert "```text\n" + "\n".join(layers) + "\n```" in pages[checkout / "docs" / "architecture.md"]
