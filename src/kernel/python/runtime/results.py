"""Which value a cell has as its result, and that value as a table.

A table is (columns, types, source): source(i, j) gives the plain rows i to j. Only what is asked for is converted.
"""

import itertools
import sys

from .values import Converter, bounded_repr, cut, dumps, safe_text, to_utf8

NAMES = ("result_df", "result_rows", "result_columns", "result", "__result__")
COLUMNS_MAX = 16_384
COLUMN_NAME_MAX = 1024
COLUMN_NAMES_MAX = 1 << 20  # characters of all
NARROW = 32  # columns: each of so few is taken as a Series at once
CHUNK = 256  # rows converted at a time; what lies beyond the output limit is never converted
HTML_ROWS_MAX = 50
HTML_BYTES_MAX = 512 * 1024


class ResultError(Exception):
    """A result variable holds something that its name does not allow."""


class Table:
    def __init__(self, columns, types, total, source):
        self.columns, self.types, self.total, self.source = columns, types, total, source


# ---- choosing ----


def choose(namespace, assigned, trailing):
    """The table of the cell's result, or None."""
    if assigned:
        if "result_df" in assigned:
            pd = sys.modules.get("pandas")
            value = namespace["result_df"]
            if pd is None or not isinstance(value, pd.DataFrame):
                raise ResultError(f"result_df must be a pandas DataFrame, not {type(value).__name__}")
            return of_frame(pd, value)
        if "result_rows" in assigned:
            value = namespace["result_rows"]
            if not isinstance(value, (list, tuple)):
                raise ResultError(f"result_rows must be a list of rows, not {type(value).__name__}")
            return of_rows(value, _column_names(namespace) if "result_columns" in assigned else ())
        for name in ("result", "__result__"):
            if name in assigned and namespace[name] is not None:
                return of_value(namespace[name])
    return None if trailing is None else of_value(trailing)


def _column_names(namespace):
    names = namespace["result_columns"]
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise ResultError(f"result_columns must be a list of names, not {type(names).__name__}")
    return [label(n) for n in itertools.islice(names, COLUMNS_MAX)]


def is_drawing(value):
    """Whether this is what plotting calls return: the figure itself is shown, its parts are nobody's result."""
    if isinstance(value, (list, tuple)):
        return any(_is_artist(item) for item in value[:3])
    return _is_artist(value)


def _is_artist(value):
    return type(value).__module__.startswith(("matplotlib.", "seaborn."))


# ---- tables ----


def of_value(value):
    kind = type(value)
    if kind in (int, float, str, bool):
        return of_items((value,))
    np, pd = sys.modules.get("numpy"), sys.modules.get("pandas")
    if pd is not None:
        if isinstance(value, pd.DataFrame):
            return of_frame(pd, value)
        if isinstance(value, pd.Series):
            return of_series(pd, value)
        if isinstance(value, (pd.Index, pd.api.extensions.ExtensionArray)) and not isinstance(value, pd.MultiIndex):
            return of_series(pd, pd.Series(value, name=getattr(value, "name", None)))
    if np is not None and isinstance(value, np.ndarray):
        return of_array(np, pd, value)
    if isinstance(value, dict):
        return of_rows(list(value.items()), ("key", "value"))
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        if value and all(isinstance(row, (list, tuple)) for row in value):
            return of_rows(value, ())
        if value and all(isinstance(row, dict) for row in value):
            return of_dicts(value)
        return of_items(value)
    if isinstance(value, (set, frozenset)):
        return of_items(list(value))
    return of_items((value,))


def of_items(values):
    def source(convert, i, j):
        return [[convert.plain(value)] for value in values[i:j]]

    return Table(["value"], [type_of(values[:CHUNK])], len(values), source)


def of_rows(rows, columns):
    """Rows of unequal length are filled with null; columns without a name are col_1, col_2, …"""
    width = max((len(row) if isinstance(row, (list, tuple)) else 1 for row in rows), default=0)
    width = min(max(width, len(columns)), COLUMNS_MAX)
    names = list(columns) + [f"col_{i + 1}" for i in range(len(columns), width)]

    def cells(row):
        return row if isinstance(row, (list, tuple)) else (row,)

    def source(convert, i, j):
        out = []
        for row in rows[i:j]:
            plain = [convert.plain(value) for value in cells(row)[:width]]
            out.append(plain + [None] * (width - len(plain)))
        return out

    head = [cells(row) for row in rows[:CHUNK]]
    types = [type_of([row[k] for row in head if k < len(row)]) for k in range(width)]
    return Table(names, types, len(rows), source)


def of_dicts(rows):
    keys = list(itertools.islice(dict.fromkeys(key for row in rows for key in row), COLUMNS_MAX))

    def source(convert, i, j):
        return [[convert.plain(row.get(key)) for key in keys] for row in rows[i:j]]

    head = rows[:CHUNK]
    return Table([label(k) for k in keys], [type_of([r[k] for r in head if k in r]) for k in keys], len(rows), source)


def of_array(np, pd, value):
    if value.ndim == 0:
        return of_items((value[()],))
    if pd is not None and (value.ndim == 1 or value.dtype.names):
        if value.dtype.names and value.ndim == 1:
            return of_frame(pd, pd.DataFrame(value))
        if value.ndim == 1:
            return of_series(pd, pd.Series(value))
    if value.ndim != 2:
        return of_items(list(value))
    width = min(value.shape[1], COLUMNS_MAX)

    def source(convert, i, j):
        return [[convert.plain(cell) for cell in row[:width]] for row in value[i:j]]

    return Table([f"col_{i + 1}" for i in range(width)], [str(value.dtype)] * width, len(value), source)


def of_series(pd, series):
    # Without a frame around it: making one takes longer than all the rest.
    name = "value" if series.name is None else series.name
    return _table(_index_levels(pd, series.index, True), [label(name)], [series], len(series))


def of_frame(pd, frame):
    leading = _index_levels(pd, frame.index, False)
    width = max(COLUMNS_MAX - len(leading), 0)
    names = [label(c) for c in (frame.columns if len(frame.columns) <= width else frame.columns[:width])]
    if len(names) <= NARROW:
        return _table(leading, names, [series for _, series in frame.items()], len(frame))
    types = [text for _, text, _ in leading] + [type_text(t) for t in frame.dtypes.iloc[:width]]

    def source(convert, i, j):
        part = frame.iloc[i:j, :width]
        columns = [column(convert, level(i, j)) for _, _, level in leading]
        columns += [column(convert, series) for _, series in part.items()]
        return list(map(list, zip(*columns)))

    return Table([name for name, _, _ in leading] + names, types, len(frame), source)


def _table(leading, names, columns, total):
    """The table of some index levels and a few Series."""

    def source(convert, i, j):
        out = [column(convert, level(i, j)) for _, _, level in leading]
        out += [column(convert, series if j - i == total else series.iloc[i:j]) for series in columns]
        return list(map(list, zip(*out))) if out else [[] for _ in range(i, j)]

    types = [text for _, text, _ in leading] + [type_text(series.dtype) for series in columns]
    return Table([name for name, _, _ in leading] + names, types, total, source)


def type_text(dtype):
    return cut(str(dtype), COLUMN_NAME_MAX)


def _index_levels(pd, index, keep_labels):
    """(name, type, values(i, j)) of the index levels that carry data.

    Integer labels without a name are what filtering and sorting leave of row numbers: they say nothing about a frame, but
    in a series (value_counts() of integers) they are the data.
    """
    if isinstance(index, pd.MultiIndex):
        return [
            (
                label(f"level_{k}" if name is None else name),
                type_text(index[:0].get_level_values(k).dtype),
                lambda i, j, k=k: index[i:j].get_level_values(k),
            )
            for k, name in enumerate(index.names)
        ]
    if index.name is None:
        if isinstance(index, pd.RangeIndex) or len(index) == 0:
            return []
        if not keep_labels and getattr(index.dtype, "kind", "O") in "iu":
            return []
    name = label("index" if index.name is None else index.name)
    return [(name, type_text(index.dtype), lambda i, j: index if j - i == len(index) else index[i:j])]


def label(name):
    """A column's name as text; the levels of a MultiIndex are joined by "_"."""
    if isinstance(name, tuple):
        name = "_".join(text for text in map(safe_text, name) if text)
    return cut(name if type(name) is str else safe_text(name), COLUMN_NAME_MAX)


def column(convert, series):
    """A Series or Index as a list of plain values."""
    dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    if hasattr(dtype, "itemsize") and type(dtype).__module__.startswith("numpy"):
        if kind in "ib":
            return series.tolist()
        if kind == "f" and dtype.itemsize <= 8:
            # x - x is 0 for what is finite and NaN for what is not.
            return [x if x - x == 0 else None for x in series.tolist()]
    return [convert.plain(value) for value in series]


_TYPES = {bool: "bool", int: "int64", float: "float64", str: "str"}


def type_of(values):
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int, float}:
        return "float64"
    if len(kinds) != 1:
        return "object"
    kind = kinds.pop()
    return _TYPES.get(kind) or cut(kind.__name__, 64)


# ---- JSON ----


def write(table, max_rows, max_bytes):
    """A table as (columns, types, rows, row_count, truncated), the first three as JSON: rows until the next one would not fit."""
    convert = Converter()
    wanted = min(table.total, max_rows) if max_rows >= 0 else table.total
    rows, size, full = [], 2, False
    for i in range(0, wanted, CHUNK):
        for row in table.source(convert, i, min(i + CHUNK, wanted)):
            text = dumps(row)
            size += (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) + (1 if rows else 0)
            if size > max_bytes >= 0:
                full = True
                break
            rows.append(text)
            convert.nodes = max(convert.nodes, 100_000)
        if full:
            break
    columns = table.columns
    if sum(map(len, columns)) > COLUMN_NAMES_MAX:
        columns = [cut(name, 60) for name in columns]
    truncated = full or convert.was_cut or len(rows) < table.total
    return to_utf8(dumps(columns)), to_utf8(dumps(table.types)), to_utf8(f"[{','.join(rows)}]"), len(rows), truncated


EMPTY = b"[]", b"[]", b"[]", 0, False


def shown(value):
    """What a person sees of a trailing value: {"text", "html"?}."""
    out = {"text": bounded_repr(value)}
    html = frame_html(value)
    if html is not None:
        out["html"] = html
    return out


def frame_html(value):
    pd = sys.modules.get("pandas")
    if pd is None or not isinstance(value, pd.DataFrame) or len(value) > HTML_ROWS_MAX:
        return None
    try:
        html = value.to_html(max_rows=HTML_ROWS_MAX, max_cols=50, border=0)
    except Exception:
        return None
    return html if len(html) <= HTML_BYTES_MAX else None
