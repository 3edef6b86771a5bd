"""The dataset's tables as DataFrames, loaded on first use, and sql() over tables and DataFrames alike."""

import sys
from collections.abc import Mapping

from _riddle_frames import SqlError, query_frame, stored_frame

__all__ = ["LargeTable", "Sql", "SqlError", "Tables"]

ROWS_LOOKED_AT = 200_000  # fewer fit into any kernel
SAMPLE_ROWS = 2000
SHARE = 0.75  # of the kernel's memory, for one frame
ENGINE_SHARE = 0.6  # that DuckDB may have of it (kernel.c)
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def _room():
    """Bytes that a frame may take, by DuckDB's own limit: "293.0 MiB"."""
    number, unit = query_frame("SELECT current_setting('memory_limit') AS m").iat[0, 0].split()
    return float(number) * _UNITS[unit] / ENGINE_SHARE * SHARE


def _load(name, place):
    """The table as a DataFrame, or as a LargeTable if that would not fit. `place` is where its file is: path and part."""
    frame = stored_frame(*place)
    if frame is not None:
        return frame
    n_rows = int(query_frame(f"SELECT count(*) AS n FROM {quoted(name)}").iat[0, 0])
    if n_rows > ROWS_LOOKED_AT:
        table = LargeTable(name, n_rows)
        if table._bytes(None) > _room():
            return table
    return query_frame(f"SELECT * FROM {quoted(name)}")


class LargeTable:
    """A table that does not fit into memory as a DataFrame: parts of it do, and sql() sees all of it."""

    def __init__(self, name, n_rows):
        self._name, self._n_rows = name, n_rows
        self._sample = query_frame(f"SELECT * FROM {quoted(name)} LIMIT {SAMPLE_ROWS}")

    def _bytes(self, columns):
        sample = self._sample if columns is None else self._sample[columns]
        return int(sample.memory_usage(deep=True, index=False).sum()) / max(len(sample), 1) * self._n_rows

    def _select(self, columns, what):
        if self._bytes(columns) > _room():
            raise MemoryError(f"{what} has {self._n_rows:,} rows, more than fit into memory as a DataFrame: use "
                              f"sql('SELECT … FROM {self._name} …') for what you need of it, or {self._name}.head()")
        names = "*" if columns is None else ", ".join(map(quoted, columns))
        return query_frame(f"SELECT {names} FROM {quoted(self._name)}")

    @property
    def columns(self):
        return self._sample.columns

    @property
    def dtypes(self):
        return self._sample.dtypes

    @property
    def shape(self):
        return self._n_rows, len(self._sample.columns)

    def __len__(self):
        return self._n_rows

    def __iter__(self):
        return iter(self._sample.columns)

    def __contains__(self, name):
        return name in self._sample.columns

    def head(self, n=5):
        return query_frame(f"SELECT * FROM {quoted(self._name)} LIMIT {int(n)}")

    def sample(self, n=5):
        return query_frame(f"SELECT * FROM {quoted(self._name)} USING SAMPLE {int(n)} ROWS")

    def describe(self):
        return query_frame(f"SELECT * FROM (SUMMARIZE {quoted(self._name)})")

    def to_frame(self):
        """All of it, if it fits after all."""
        return self._select(None, self._name)

    def __getitem__(self, key):
        if isinstance(key, str) and key in self._sample.columns:
            return self._select([key], f"{self._name}[{key!r}]")[key]
        if isinstance(key, list) and key and all(name in self._sample.columns for name in key):
            return self._select(key, f"{self._name}[{key!r}]")
        if isinstance(key, slice) and key.start in (None, 0) and key.step in (None, 1) and (key.stop or -1) >= 0:
            return self.head(key.stop)
        raise KeyError(f"{self._told()} It can be asked for columns by their names, not for {key!r}")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._sample.columns:
            return self[name]
        raise AttributeError(f"{self._told()} It has no {name!r}")

    def _told(self):
        return (f"{self._name} has {self._n_rows:,} rows, more than fit into memory as a DataFrame: use sql('SELECT … FROM "
                f"{self._name} …'), {self._name}.head(), or some of its columns ({self._name}[['a', 'b']]).")

    def __repr__(self):
        return f"{self.head()!r}\n\n[{self._told()}]"


class Tables(Mapping):
    """`dfs`: name → DataFrame, each read when first asked for."""

    def __init__(self, places):
        self._places = places
        self._names = dict.fromkeys(places)

    def __getitem__(self, name):
        frame = self._names[name]
        if frame is None:
            frame = self._names[name] = _load(name, self._places[name])
        return frame

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def __contains__(self, name):
        return name in self._names

    def __repr__(self):
        return f"<tables: {', '.join(self._names) or 'none'}>"


class Sql:
    """The namespace's sql(). Frames are found in the caller's variables, then in the namespace."""

    def __init__(self, namespace):
        self._namespace = namespace
        self._frame = None
        self.__name__ = "sql"

    def __call__(self, query_text):
        """Runs one query and returns a DataFrame. Tables and DataFrame variables can be used by name."""
        if not isinstance(query_text, str):
            raise TypeError(f"sql() takes a query as text, not {type(query_text).__name__}")
        outer, self._frame = self._frame, sys._getframe(1)
        try:
            return query_frame(query_text)
        finally:
            self._frame = outer

    def __repr__(self):
        return "<function sql(query) -> DataFrame>"

    def lookup(self, name):
        """The DataFrame that a query means by a name that no table has."""
        pd = sys.modules.get("pandas")
        if pd is None:
            return None
        frame = self._frame
        value = None
        if frame is not None:
            value = frame.f_locals.get(name)
        if value is None:
            value = self._namespace.get(name)
        if isinstance(value, pd.Series):
            value = value.to_frame()
        return value if isinstance(value, pd.DataFrame) else None
