"""What the zygote does once, so that kernels forked from it need not: first uses of lazy imports, caches and code paths."""

import asyncio
import contextlib
import io
import linecache
import os
import sys

from . import session

_CELLS = (
    "1 + 1",
    "import math, json, re, datetime, collections, itertools, functools\nmath.pi",
    "result = [1, 2, 3]",
    "async def later():\n    return 1\nresult = {'a': await later()}",
    "def fails():\n    return 1 / 0\nfails()",
    "this is no Python",
    "display('text')",
)

_PANDAS = (
    "df = pd.DataFrame({'k': list('abab'), 'n': [1, 2, 3, 4], 'x': [0.5, None, 1.5, 2.5],"
    " 'd': pd.to_datetime(['2024-01-01', '2024-02-01', None, '2024-03-05'])})\ndf",
    "df.groupby('k').agg({'n': 'sum', 'x': 'mean'})",
    "df.groupby('k')['n'].sum().sort_values(ascending=False)",
    "result_df = df.merge(df, on='k').sort_values('n_x').reset_index(drop=True)",
    "df.describe()",
    "df['k'].value_counts()",
    "df[df['n'] > 1].assign(y=lambda f: f['n'] * 2).pivot_table(index='k', values='y', aggfunc='sum')",
    "pd.read_csv(__import__('io').StringIO('a,b,d\\n1,x,2024-01-01\\n2,y,2024-01-02\\n'), parse_dates=['d'])",
    "df['d'].dt.strftime('%Y-%m'), df['d'].dt.month, df['k'].str.upper(), str(df), df.dtypes",
    "df['k'].astype('category'), df['n'].astype('Int64'), pd.concat([df, df]), df.isna().sum(), df.head(2).to_dict()",
    "display(df)",
    "sql('SELECT k, sum(n) AS n FROM df GROUP BY k')",
    "np.random.seed(1)\nnp.corrcoef(np.arange(9.0), np.random.rand(9))",
)

_FIGURES = (
    "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2, 3], label='a')\nax.bar([1, 2], [3, 4])\n"
    "ax.set_title('Title')\nax.set_xlabel('x')\nax.legend()\nax.grid(True)",
    "plt.hist([1, 2, 2, 3])\nplt.xticks(rotation=45)\nplt.tight_layout()\nplt.show()",
)

ENVIRONMENT = {
    "HOME": "/workspace",
    "JOBLIB_MULTIPROCESSING": "0",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_MAX_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TMPDIR": "/tmp",
}


class WarmError(Exception):
    pass


def _enter_environment():
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    if "matplotlib" in sys.modules:
        # It remembers which directory of the host it has its fonts from; kernels shall look into their own environment.
        for remembers in (sys.modules["matplotlib"].get_configdir, sys.modules["matplotlib"].get_cachedir):
            cells = dict(zip(remembers.__code__.co_freevars, remembers.__closure__ or ()))
            if {"called", "ret"} <= set(cells):
                cells["called"].cell_contents, cells["ret"].cell_contents = False, None
        style = sys.modules.get("matplotlib.style.core")
        if style:
            style.USER_LIBRARY_PATHS[:] = [ENVIRONMENT["MPLCONFIGDIR"] + "/stylelib"]


def warm():
    """Runs the cells in a session that is then forgotten."""
    cells = list(_CELLS)
    if "pandas" in sys.modules:
        cells += _PANDAS
        # Frames are read by people and models, not on a terminal of 80 columns.
        sys.modules["pandas"].set_option("display.width", 200, "display.max_columns", 50)
    if "matplotlib" in sys.modules:
        cells += _FIGURES
    scratch = session.Session()
    scratch.stdout, scratch.stderr = io.StringIO(), io.StringIO()
    for code in cells:
        verdict, *answer = scratch.execute(code.encode(), False, True, 200, 65536)
        if verdict != ("error" if code in _CELLS[4:6] else "ok"):
            raise WarmError(f"{code!r} gave {str(answer)[:600]}")
    session.make()
    # What CPython remembers of the classes that only the cells above used would be replaced by kernels, name by name, and each of
    # these names is a page.
    sys._clear_type_cache()
    # CPython rewrites the code of a function while it runs for the first few times; kernels shall find that done.
    for code in ("1 + 1", *(_PANDAS[:4] if "pandas" in sys.modules else ())) * 10:
        scratch.execute(code.encode(), False, False, 200, 65536)
    scratch.execute(b"import math\nmath.pi", True, False, 200, 65536)
    with contextlib.suppress(ImportError):  # each image is followed by what it pickles
        import cloudpickle  # noqa: F401
    if scratch.loop is not None:  # its descriptors must not be shared by kernels
        scratch.loop.close()
        asyncio.set_event_loop(None)
    if "matplotlib" in sys.modules:  # cached fonts hold open files, and a kernel starts with none
        sys.modules["matplotlib.font_manager"]._get_font.cache_clear()
    for name in [n for n in linecache.cache if n.startswith("<cell ")]:
        del linecache.cache[name]
    _enter_environment()
    del scratch
    session.freeze()


def settle():
    """Leaves the environment that kernels shall have, and every object as garbage collection need never look at it again."""
    _enter_environment()
    session.make()
    session.freeze()
