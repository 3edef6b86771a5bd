"""The documentation is true where a program can tell: docs/env.md is what the settings say, and links lead somewhere."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RIDDLE = ROOT / os.environ.get("RIDDLE_BUILD", "build") / "riddle"
PAGES = sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_env_docs_are_current():
    printed = subprocess.run([RIDDLE, "--print-env-docs"], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert printed.returncode == 0, printed.stderr
    assert (ROOT / "docs/env.md").read_text() == printed.stdout, "docs/env.md is stale: run 'make docs'"


def test_example_is_current_and_accepted(tmp_path):
    example = (ROOT / ".env.example").read_text()
    printed = subprocess.run([RIDDLE, "--print-env-example"], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert example == printed.stdout, ".env.example is stale: run 'make docs'"
    # Every default may be written out: the settings are read, and only the directory of datasets is missing.
    (tmp_path / ".env").write_text(re.sub(r"^#([A-Z_0-9]+=)", r"\1", example, flags=re.M))
    read = subprocess.run([RIDDLE, "datasets", "list"], cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
                          timeout=30)
    assert ".env" not in read.stderr, read.stderr


def test_every_setting_is_documented_once():
    table = (ROOT / "src/base/config_table.h").read_text()
    names = re.findall(r'CONFIG_[A-Z]+\(\w+, "([A-Z_]+)"', table)
    page = (ROOT / "docs/env.md").read_text()
    assert names
    counts = {name: len(re.findall(rf"^\|\s*`{name}`", page, re.M)) for name in names}
    assert counts == {name: 1 for name in names}


def test_limits_page_has_the_values_of_the_header():
    header = (ROOT / "src/base/limits.h").read_text()
    defined = dict(re.findall(r"^#define ([A-Z_]+) \(?([0-9][0-9u< ]*)\)?", header, re.M))
    values = {name: eval(text.replace("u", "")) for name, text in defined.items()}
    rows = re.findall(r"^\| `([A-Z_]+)` \| (\d+)( KiB| MiB|) \|", (ROOT / "docs/limits.md").read_text(), re.M)
    assert len(rows) > 20
    unit = {"": 1, " KiB": 1 << 10, " MiB": 1 << 20}
    assert {name: int(n) * unit[u] for name, n, u in rows} == {name: values.get(name) for name, _, _ in rows}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    local = [t for t in targets if "://" not in t]
    missing = [t for t in local if not ((ROOT / page).parent / t).exists()]
    assert missing == []


def test_tests_that_are_named_exist():
    """SECURITY.md names the test that asserts a paragraph, a point or a row: by its function, its file or its directory."""
    named = set(re.findall(r"`((?:tests/)?[\w/]*test_\w+(?:\.(?:py|c))?|tests/\w+)`", (ROOT / "SECURITY.md").read_text()))
    assert len(named) > 30
    files = [p for p in ROOT.glob("tests/**/test_*") if p.suffix in (".py", ".c")]
    functions = set(re.findall(r"\b(test_\w+)\(", "\n".join(p.read_text() for p in files)))
    there = functions | {p.name for p in files} | {p.relative_to(ROOT).as_posix() for p in [*files, *ROOT.glob("tests/*")]}
    assert sorted(named - there) == []


TEST_NAME = re.compile(r"test_\w+|tests/\w+|make (fuzz|check-\w+)")
# What is nobody's to assert: a rule of Docker's own.
UNASSERTED = ("`tcp://` is not encrypted",)


def test_security_says_what_is_asserted():
    """Each paragraph, point and row of SECURITY.md names a test, but for what it leaves out of scope."""
    blocks, section = [], None
    for part in re.split(r"\n\n+", (ROOT / "SECURITY.md").read_text().partition("## Out of scope")[0]):
        if part.startswith("#"):
            section, _, part = part.partition("\n")
        if not section or not section.startswith("##"):
            continue  # the introduction
        if part.startswith("|"):
            blocks += part.splitlines()[2:]
        elif part.startswith("- "):
            blocks += re.split(r"\n(?=- )", part)
        elif part.strip() and not part.rstrip().endswith(":"):
            blocks.append(part)
    assert len(blocks) > 40
    silent = [b[:120] for b in blocks if not TEST_NAME.search(b) and not any(u in b for u in UNASSERTED)]
    assert silent == []
