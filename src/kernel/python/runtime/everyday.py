"""What people write in notebooks and expect to work: line magics, and Parquet files without pyarrow."""

import os
import re

_HARMLESS = {"matplotlib", "config", "load_ext", "reload_ext", "autoreload", "precision", "pylab", "reset", "cd", "pwd", "who", "whos"}
_TIMED = {"time", "timeit", "prun", "capture"}
_HELP = re.compile(r"\??\??([A-Za-z_][\w.]*)\?{0,2}")


def _told(line):
    return f"print({line + ': not run; a sandbox has no shell and no network, and packages cannot be installed in it'!r})"


def _plain_line(line):
    bare = line.lstrip()
    indent = line[:len(line) - len(bare)]
    if bare.startswith("!"):
        return indent + _told(bare)
    if bare.startswith("%"):
        name, _, rest = bare.lstrip("%").partition(" ")
        if name in ("pip", "conda", "sh", "bash", "system"):
            return indent + _told(bare)
        if name in _TIMED:
            return indent + (rest.strip() if rest.strip() and not bare.startswith("%%") else "pass")
        return indent + "pass" if name in _HARMLESS else line
    found = _HELP.fullmatch(bare.rstrip())
    return f"{indent}help({found[1]})" if found and "?" in bare else line


def plain(text):
    """A notebook's cell as Python, for text that is none; the same text when there is nothing to put right."""
    return "\n".join(map(_plain_line, text.split("\n")))


class _Parquet:
    """An engine of pandas: DuckDB reads and writes the files."""

    def __init__(self, sql):
        self._sql = sql

    def write(self, df, path, compression="snappy", index=None, **more):
        named = [name for name in df.index.names if name is not None]
        riddle_frame = df.reset_index() if index or (index is None and named) else df
        riddle_frame = riddle_frame.rename(columns=str)
        target = path if isinstance(path, (str, os.PathLike)) else f"/tmp/.parquet-{os.getpid()}"
        packed = str(compression or "uncompressed")
        self._sql(f"COPY (SELECT * FROM riddle_frame) TO {_quoted(os.path.abspath(target))} (FORMAT parquet, COMPRESSION {_quoted(packed)})")
        if target is not path:
            with open(target, "rb") as written:
                path.write(written.read())
            os.unlink(target)

    def read(self, path, columns=None, **more):
        source = path
        if not isinstance(path, (str, os.PathLike)):
            source = f"/tmp/.parquet-{os.getpid()}"
            with open(source, "wb") as copy:
                copy.write(path.read())
        names = ", ".join('"' + c.replace('"', '""') + '"' for c in columns) if columns else "*"
        frame = self._sql(f"SELECT {names} FROM read_parquet({_quoted(os.path.abspath(source))})")
        if source is not path:
            os.unlink(source)
        return frame


def _quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def parquet(sql):
    """Lets pandas use DuckDB where it finds neither pyarrow nor fastparquet."""
    import importlib.util
    if importlib.util.find_spec("pyarrow") or importlib.util.find_spec("fastparquet"):
        return
    from pandas.io import parquet as module
    if not isinstance(getattr(module.get_engine, "engine", None), _Parquet):
        engine = _Parquet(sql)
        module.get_engine = lambda name: engine
        module.get_engine.engine = engine
