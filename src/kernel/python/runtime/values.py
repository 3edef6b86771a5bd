"""Anything that Python, numpy and pandas hold, as JSON that any parser takes back.

What JSON has no word for becomes null (NaN, NaT, NA, infinities) or text (Decimal, timestamps, integers beyond 64 bits).
The reader refuses escaped NULs, duplicate keys and deep nesting, so none of them is ever written.
"""

import base64
import datetime
import json
import math
import re
import sys
from collections.abc import Mapping

TEXT_MAX = 64 * 1024  # characters of one text; the rest is cut
DEPTH_MAX = 24
NODES_MAX = 200_000  # of one value: [a, a] nested 30 times is small in memory and endless on paper
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_coder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
# JSONEncoder makes one of these for each call; rows are many.
_chunks = json.encoder.c_make_encoder(
    None, _coder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False
)
_surrogates = re.compile("[\ud800-\udfff]")
_nul = re.compile(r"(\\\\)|\\u0000")


def dumps(value):
    """JSON text of a plain value, without what the reader refuses."""
    text = "".join(_chunks(value, 0))
    if "\\u0000" in text:
        text = _nul.sub(lambda m: m.group(1) or "\ufffd", text)
    return text


def to_utf8(text):
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _surrogates.sub("\ufffd", text).encode()


def cut(text, limit=TEXT_MAX):
    return text if len(text) <= limit else text[: limit - 1] + "…"


def safe_text(value, how=str):
    """str() or repr() of something whose methods may do anything."""
    try:
        text = how(value)
        return text if type(text) is str else str.__str__(text)
    except Exception as error:
        return f"<{type(value).__name__} object: {how.__name__}() failed with {type(error).__name__}>"


def key_text(key):
    """A key of a JSON object. Texts that become equal once surrogates and NULs are replaced would be the same key twice."""
    name = key if type(key) is str else safe_text(key)
    if not name.isascii() or "\0" in name:
        name = _surrogates.sub("\ufffd", name).replace("\0", "\ufffd")
    return name


class Converter:
    """Turns values into what JSON can hold. `was_cut` tells whether anything was left out."""

    def __init__(self, nodes=NODES_MAX):
        self.nodes = nodes
        self.was_cut = False

    def text(self, value):
        if len(value) > TEXT_MAX:
            self.was_cut = True
            value = cut(value)
        return value

    def integer(self, value):
        return value if INT_MIN <= value <= INT_MAX else self.text(safe_text(value))

    def plain(self, value, depth=0):
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return self.text(value)
        if kind is int:
            return self.integer(value)
        if kind is float:
            return value if math.isfinite(value) else None
        return self.rare(value, depth)

    def rare(self, value, depth):
        self.nodes -= 1
        if depth > DEPTH_MAX or self.nodes < 0:
            self.was_cut = True
            return "…"
        kind = type(value)
        if kind is dict:
            return self.mapping(value, depth)
        if kind is list or kind is tuple:
            return self.items(value, depth)
        np, pd = sys.modules.get("numpy"), sys.modules.get("pandas")
        if pd is not None and (value is pd.NaT or value is pd.NA):
            return None
        if np is not None:
            if isinstance(value, np.generic):
                return self.scalar(np, pd, value, depth)
            if isinstance(value, np.ndarray):
                return self.items(value.tolist() if value.dtype.kind not in "Mm" else value.ravel(), depth)
        if isinstance(value, datetime.datetime):
            return safe_text(value)
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self.blob(value)
        if isinstance(value, Mapping):
            return self.mapping(value, depth)
        if isinstance(value, (list, tuple)):
            return self.items(value, depth)
        if isinstance(value, (set, frozenset)):
            try:
                return self.items(sorted(value), depth)
            except Exception:
                return self.items(value, depth)
        if pd is not None:
            if isinstance(value, pd.DataFrame):
                return self.items(value.head(1000).to_dict("records"), depth)
            if isinstance(value, (pd.Series, pd.Index, pd.Categorical, pd.api.extensions.ExtensionArray)):
                return self.items(value, depth)
        if isinstance(value, int):
            return self.integer(int.__pos__(value))
        if isinstance(value, float):
            return float.__pos__(value) if math.isfinite(value) else None
        if isinstance(value, (range, type({}.keys()), type({}.values()), type({}.items()))):
            return self.items(value, depth)
        return self.text(safe_text(value))

    def scalar(self, np, pd, value, depth):
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, np.integer):
            return self.integer(int(value)) if not isinstance(value, np.timedelta64) else self.moment(np, pd, value)
        if isinstance(value, np.floating):
            value = float(value)
            return value if math.isfinite(value) else None
        if isinstance(value, np.datetime64):
            return self.moment(np, pd, value)
        if isinstance(value, np.void):
            return self.plain(value.item(), depth + 1)
        if isinstance(value, np.bytes_):
            return self.blob(bytes(value))
        return self.text(safe_text(value))

    def moment(self, np, pd, value):
        if np.isnat(value):
            return None
        if pd is not None:
            try:
                return str(pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value))
            except (ValueError, OverflowError):
                pass
        return safe_text(value)

    def blob(self, value):
        if len(value) > TEXT_MAX * 3 // 4:
            self.was_cut = True
        return base64.b64encode(bytes(value[: TEXT_MAX * 3 // 4])).decode()

    def items(self, values, depth):
        out = []
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            return self.plain(values, depth + 1)  # what an array of no dimension holds
        for value in values:
            self.nodes -= 1
            if self.nodes < 0:
                self.was_cut = True
                break
            out.append(self.plain(value, depth + 1))
        return out

    def mapping(self, value, depth):
        out = {}
        for key, item in value.items():
            self.nodes -= 1
            if self.nodes < 0:
                self.was_cut = True
                break
            out[self.text(key_text(key))] = self.plain(item, depth + 1)
        return out


# ---- repr() with an end ----


def _weight(value, left):
    """How much repr() would have to visit, giving up at `left`."""
    if left <= 0:
        return 0
    if isinstance(value, (str, bytes, bytearray)):
        return left - len(value) // 16 - 1
    left -= 1
    if isinstance(value, dict):
        for key, item in value.items():
            left = _weight(item, _weight(key, left))
            if left <= 0:
                break
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            left = _weight(item, left)
            if left <= 0:
                break
    return left


def bounded_repr(value):
    """repr() of at most TEXT_MAX characters, without writing gigabytes first."""
    kind = type(value)
    if kind in (str, bytes) and len(value) > TEXT_MAX:
        value = value[:TEXT_MAX]
    elif kind in (list, tuple, dict, set, frozenset):
        try:
            light = _weight(value, 20_000) > 0
        except RecursionError:
            light = False
        if not light:
            return cut(_short_repr(value))
    return cut(safe_text(value, repr))


def _short_repr(value):
    import reprlib

    short = reprlib.Repr()
    short.maxlevel = 4
    short.maxlist = short.maxtuple = short.maxset = short.maxfrozenset = short.maxdict = 100
    short.maxstring = short.maxother = 200
    return f"{safe_text(value, short.repr)} ({len(value)} items)"
