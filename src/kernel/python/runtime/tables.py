"""The dataset's tables as DataFrames, loaded on first use, and sql() over tables and DataFrames alike."""

import sys
from collections.abc import Mapping

from _riddle_frames import SqlError, query_frame

__all__ = ["Sql", "SqlError", "Tables"]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class Tables(Mapping):
    """`dfs`: name → DataFrame, each read when first asked for."""

    def __init__(self, names):
        self._names = dict.fromkeys(names)

    def __getitem__(self, name):
        frame = self._names[name]
        if frame is None:
            frame = self._names[name] = query_frame(f"SELECT * FROM {quoted(name)}")
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
