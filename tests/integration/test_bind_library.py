"""scripts/bind-library: the library behaves as before, and looks up only what others define."""

import ctypes
import subprocess

import pytest
from conftest import KERNEL, ROOT

pytestmark = pytest.mark.plain

BIND = ROOT / "scripts/bind-library"

SOURCE = """
#include <stdlib.h>
#include <string.h>
int twice(int x) { return 2 * x; }
__attribute__((weak)) int thrice(int x) { return 3 * x; }
int numbers[3] = { 10, 20, 30 };
int (*table[])(int) = { twice, thrice };              /* R_X86_64_64 */
int *second = &numbers[1];                            /* with an addend */
size_t (*length)(const char *) = strlen;              /* of another library */
static int hidden(int x) { return x - 1; }
int (*last)(int) = hidden;                            /* relative already */
int by_call(int x) { return thrice(twice(x)) + abs(-x); }  /* JUMP_SLOT, own and of another */
int by_table(int x) { return table[0](x) * 100 + table[1](x) + *second + last(x); }
int by_got(void) { return numbers[2] + (int)length("four"); }  /* GLOB_DAT */
"""


def relocations(path):
    """The dynamic ones, as {(type, symbol)}, and the library's RELACOUNT."""
    text = subprocess.run(["readelf", "-rdW", path], capture_output=True, text=True, check=True).stdout
    found = {(w[2], w[4].split("@")[0] if len(w) > 4 else "") for w in map(str.split, text.splitlines()) if "R_X86_64_" in " ".join(w)}
    count = next(int(line.split()[-1]) for line in text.splitlines() if "(RELACOUNT)" in line)
    return found, count


@pytest.fixture
def library(tmp_path):
    (tmp_path / "lib.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O0", "-shared", "-fPIC", "-fno-builtin", "-Wl,-z,lazy", "-o", tmp_path / "plain.so", tmp_path / "lib.c"], check=True)
    return tmp_path / "plain.so"


def test_it_behaves_as_before(library, tmp_path):
    bound = tmp_path / "bound.so"
    done = subprocess.run([BIND, library, bound], capture_output=True, text=True, check=True)
    assert "references bound" in done.stderr
    for path in (library, bound):
        lib = ctypes.CDLL(str(path))
        assert (lib.by_call(7), lib.by_table(7), lib.by_got()) == (49, 1400 + 21 + 20 + 6, 34)
    # The functions that call are the library's own, though a program that links it still finds them by name.
    assert ctypes.CDLL(str(bound)).twice(4) == 8


def test_only_what_others_define_is_looked_up(library, tmp_path):
    bound = tmp_path / "bound.so"
    subprocess.run([BIND, library, bound], capture_output=True, check=True)
    before, count_before = relocations(library)
    after, count_after = relocations(bound)
    own = {"twice", "thrice", "numbers", "table", "second", "length", "last"}
    assert {("R_X86_64_64", "twice"), ("R_X86_64_GLOB_DAT", "numbers"), ("R_X86_64_64", "strlen")} <= before
    assert not {r for r in after if r[1] in own and r[0] != "R_X86_64_JUMP_SLOT"}
    assert {("R_X86_64_64", "strlen"), ("R_X86_64_JUMP_SLOT", "abs")} <= after
    assert count_after > count_before


def test_a_first_call_looks_up_nothing_of_its_own(library, tmp_path):
    bound = tmp_path / "bound.so"
    subprocess.run([BIND, library, bound], capture_output=True, check=True)
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint by_call(int);\nint main(void) { printf("%d", by_call(7)); }')
    seen = {}
    for path in (library, bound):
        # Through dlopen with Python's ctypes everything would be bound at once: a program, as riddle-kernel is.
        subprocess.run(["gcc", "-o", tmp_path / "main", tmp_path / "main.c", path, "-Wl,-z,lazy"], check=True)
        seen[path] = subprocess.run([tmp_path / "main"], env={"LD_DEBUG": "bindings"}, capture_output=True, text=True, check=True)
        assert seen[path].stdout == "49"
        assert "symbol `abs'" in seen[path].stderr
    assert "symbol `thrice'" in seen[library].stderr and "symbol `twice'" in seen[library].stderr
    assert "symbol `thrice'" not in seen[bound].stderr and "symbol `twice'" not in seen[bound].stderr


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01" + bytes(100), b"not a library"])
def test_what_is_no_library_is_refused(content, tmp_path):
    (tmp_path / "in").write_bytes(content)
    done = subprocess.run([BIND, tmp_path / "in", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("bind-library: not a shared library")
    assert not (tmp_path / "out").exists()


def test_the_kernel_runs_on_the_bound_one():
    text = subprocess.run(["ldd", KERNEL], capture_output=True, text=True, check=True).stdout
    assert "third_party/duckdb/bound/libduckdb.so" in text
