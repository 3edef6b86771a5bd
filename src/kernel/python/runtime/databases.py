"""db_query(), db_tables() and db_schema(): databases that riddle asks for the cell.

The statement goes to riddle, which has the credentials, and the rows come back as one text for each column. All three answer
at once, and what they answer can also be awaited.
"""

import json
import sys

__all__ = ["DatabaseError", "Databases", "QueryRefused"]


class DatabaseError(Exception):
    """A database could not answer: an error in the statement, a time-out, no connection."""


class QueryRefused(DatabaseError):
    """The statement is not allowed: it writes, or calls what has side effects."""


class _Answer:
    def __await__(self):
        return self
        yield  # a generator: nothing is left to wait for


class Rows(list, _Answer):
    """Rows as dicts. `columns`, `types`, `truncated` and `affected_rows` tell the rest; df() makes a DataFrame."""

    __hash__ = object.__hash__  # asyncio.gather() keeps what it is given in a dict
    columns, types, truncated, affected_rows = (), (), False, None

    def df(self):
        import pandas

        return pandas.DataFrame(list(self), columns=list(self.columns))


class Names(list, _Answer):
    __hash__ = object.__hash__


class Schema(dict, _Answer):
    __hash__ = object.__hash__


# ---- values ----


def _or_text(convert):
    """Text stays what Python has no value for: infinity, 4713 BC, NaN."""

    def one(text):
        try:
            return convert(text)
        except (ValueError, ArithmeticError):
            return text

    return one


def _interval(text):
    """1 day 02:03:04.5 as a timedelta; months and years are no fixed time and stay text."""
    import datetime
    import re

    found = re.fullmatch(r"(?:(-?\d+) days? ?)?(?:(-)?(\d+):(\d\d):(\d\d(?:\.\d+)?))?", text)
    if not found or not text:
        return text
    days, sign, hours, minutes, seconds = found.groups()
    rest = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0))
    return datetime.timedelta(days=int(days or 0)) + (-rest if sign else rest)


def _converter(kind):
    import datetime
    from decimal import Decimal
    from uuid import UUID

    if kind.endswith("[]"):
        inner = _converter(kind[:-2])
        return lambda text: _each(json.loads(text), inner)
    return {
        "BIGINT": int,
        "DOUBLE": float,
        "BOOLEAN": frozenset(("true", "1")).__contains__,
        "DECIMAL": _or_text(Decimal),
        "DATE": _or_text(datetime.date.fromisoformat),
        "TIME": _or_text(datetime.time.fromisoformat),
        "TIMESTAMP": _or_text(datetime.datetime.fromisoformat),
        "TIMESTAMP WITH TIME ZONE": _or_text(datetime.datetime.fromisoformat),
        "INTERVAL": _interval,
        "BLOB": bytes.fromhex,
        "UUID": UUID,
        "JSON": json.loads,
    }.get(kind)


def _each(items, convert):
    if isinstance(items, list):
        return [_each(item, convert) for item in items]
    return convert(items) if convert and isinstance(items, str) else items


def _column(text, kind, separator, null, count):
    if count == 0:
        return []
    cells = text.split(separator)
    convert = _converter(kind)
    if null in text:
        return [None if cell == null else convert(cell) if convert else cell for cell in cells]
    return list(map(convert, cells)) if convert else cells


def unpack(answer):
    columns, types, count = answer["columns"], answer["types"], answer["row_count"]
    cells = [_column(text, kind, answer["separator"], answer["null"], count) for text, kind in zip(answer["data"], types)]
    if columns:
        rows = Rows([dict(zip(columns, row)) for row in zip(*cells)])
    else:
        rows = Rows()
    rows.columns, rows.types = tuple(columns), tuple(types)
    rows.truncated, rows.affected_rows = answer["truncated"], answer["affected_rows"]
    if not columns and rows.affected_rows is not None:
        rows.append({"affected_rows": rows.affected_rows})
    return rows


def packed(value):
    """A parameter as JSON, with a type where JSON has none."""
    import base64
    import datetime
    from decimal import Decimal
    from uuid import UUID

    if hasattr(value, "item") and not isinstance(value, (list, tuple, dict)) and getattr(value, "ndim", 0) == 0:
        value = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value.item()  # of numpy, of pandas
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else {"type": "integer", "value": str(int(value))}
    if isinstance(value, float):
        return float(value) if value - value == 0 else {"type": "real", "value": str(value)}
    if isinstance(value, Decimal):
        return {"type": "decimal", "value": str(value)}
    if isinstance(value, datetime.datetime):
        return {"type": "timestamptz" if value.tzinfo else "timestamp", "value": value.isoformat(" ")}
    if isinstance(value, datetime.date):
        return {"type": "date", "value": value.isoformat()}
    if isinstance(value, datetime.time):
        return {"type": "time", "value": value.isoformat()}
    if isinstance(value, datetime.timedelta):
        return {"type": "interval", "value": f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"}
    if isinstance(value, UUID):
        return {"type": "uuid", "value": str(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"type": "bytes", "value": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [packed(item) for item in value]
    if isinstance(value, dict):
        return {"type": "json", "value": json.dumps(value)}
    if hasattr(value, "tolist"):
        return packed(value.tolist())
    raise TypeError(f"a parameter cannot be a {type(value).__name__}")


# ---- what cells call ----


class Databases:
    def __init__(self, ask, session):
        self._ask, self._session = ask, session

    def _answer(self, what, args):
        sys.stdout.flush()
        reply = self._ask(what, args)
        error = reply["error"]
        if error is None:
            return reply["value"]
        kind = QueryRefused if error["type"] == "FORBIDDEN" else DatabaseError
        raise kind(error["message"])

    def query(self, query, parameters=None, db=None, *, redact=()):
        """Asks a database: rows as dicts. Parameters are written :name. db: its name, the first of GET /databases if missing;
        "data" is the data of this sandbox. redact: parameters that the log of queries does not keep."""
        if not isinstance(query, str):
            raise TypeError(f"db_query() takes a query as text, not {type(query).__name__}")
        if db == "data":
            return self._own(query, parameters)
        params = {str(name): packed(value) for name, value in dict(parameters or {}).items()}
        redact = [redact] if isinstance(redact, str) else list(redact)
        rows = unpack(self._answer("db_query", {"sql": query, "params": params, "db": db or "", "redact": redact}))
        if rows.truncated:
            print(f"db_query: only the first {len(rows)} rows came; ask for fewer, or group them", file=sys.stderr)
        return rows

    def _own(self, query, parameters):
        if parameters:
            raise DatabaseError("queries of db='data' take no parameters")
        frame = self._session.sql(query)
        rows = Rows(frame.to_dict("records"))
        rows.columns = tuple(frame.columns)
        return rows

    def tables(self, db=None):
        """Names of a database's tables."""
        if db == "data":
            return Names(self._session.dfs)
        return Names(self._answer("db_schema", {"db": db or "", "table": ""})["tables"])

    def schema(self, table=None, db=None):
        """Columns of a table: [{column_name, data_type, is_nullable, column_default}]. Without a table: of all, by name."""
        if db == "data":
            names = [table] if table else list(self._session.dfs)
            found = {name: self._columns(name) for name in names}
        else:
            found = self._answer("db_schema", {"db": db or "", "table": table or ""})["schema"]
        if table is None:
            return Schema(found)
        if table not in found:
            raise DatabaseError(f"there is no table '{table}'")
        return Names(found[table])

    def _columns(self, name):
        described = self._session.sql(f'DESCRIBE "{name}"').to_dict("records")
        return [
            {
                "column_name": c["column_name"],
                "data_type": c["column_type"],
                "is_nullable": c["null"],
                "column_default": c["default"],
            }
            for c in described
        ]

    def names(self):
        """What the namespace of cells gets."""

        def db_query(query, parameters=None, db=None, *, redact=()):
            return self.query(query, parameters, db, redact=redact)

        def db_tables(db=None):
            return self.tables(db)

        def db_schema(table_name=None, db=None):
            return self.schema(table_name, db)

        db_query.__doc__, db_tables.__doc__ = Databases.query.__doc__, Databases.tables.__doc__
        db_schema.__doc__ = Databases.schema.__doc__
        return {"db_query": db_query, "db_tables": db_tables, "db_schema": db_schema}
