"""The debugger's other half: how values are told, breakpoints, and what happens in a pause.

trace.c calls the methods of a Stepper from within its trace function, where nothing is traced. Values are described without
running a method that a user's class defines: a __repr__ could take for ever or change what is debugged.
"""

import ast
import datetime
import decimal
import io
import json
import linecache
import os
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType

import _riddle

from . import errors
from .policy import PolicyViolation
from .values import Converter, cut, dumps, safe_text, to_utf8

REPR_MAX = 200
NAME_MAX = 100
ITEMS_MAX = 10  # of a container, in its short text
DEPTH_MAX = 3
CHANGED_MAX = 50  # variables of one step
SHOWN_MAX = 100  # of one list in a pause
COLUMNS_MAX = 50
FRAMES_MAX = 100
VALUE_MAX = 64 * 1024  # bytes of a value that is sent as JSON
_PLAIN = (int, float, complex, bool, type(None), str, bytes, bytearray, type(Ellipsis), type(NotImplemented))
_KNOWN = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone, decimal.Decimal, range, slice)
_NUMPY_SCALARS = (
    *("bool_", "str_", "float16", "float32", "float64", "datetime64", "timedelta64"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_HIT_RULES = {
    "==": lambda n, m: n == m,
    ">=": lambda n, m: n >= m,
    ">": lambda n, m: n > m,
    "<=": lambda n, m: n <= m,
    "<": lambda n, m: n < m,
    "%": lambda n, m: m > 0 and n % m == 0,
}


# ---- values ----


_mro, _names, _name = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__", "__name__"))


def look_up(kind, name):
    """An attribute of a class, as it is in the class: metaclasses are the user's, too."""
    for base in _mro(kind):
        if name in _names(base):
            return _names(base)[name]
    return None


def type_name(value):
    kind = type(value)
    name, module = _name(kind), look_up(kind, "__module__")
    if type(module) is not str or module in ("builtins", "__main__"):
        return cut(name, NAME_MAX)
    return cut(f"{module.partition('.')[0]}.{name}", NAME_MAX)


def _plain_text(value, limit):
    kind = type(value)
    if kind is int and value.bit_length() > 4 * limit:
        return f"<int of {value.bit_length()} bits>"
    if kind in (str, bytes, bytearray) and len(value) > limit:
        value = value[:limit]
        return cut(repr(value)[:-1], limit - 1) + "…"
    return repr(value)


def short(value, limit=REPR_MAX, depth=DEPTH_MAX):
    """A text of a value, without code of the user's."""
    kind = type(value)
    if kind in _PLAIN:
        return _plain_text(value, limit)
    if kind in _KNOWN:
        return cut(repr(value), limit)
    if kind in (list, tuple, set, frozenset, dict):
        return _container_text(value, kind, limit, depth)
    if shape_of(value) is not None:
        return f"<{type_name(value)} {' x '.join(map(str, shape_of(value)))}>"
    if kind is FunctionType or kind is MethodType or kind is BuiltinFunctionType:
        return f"<function {cut(safe_name(value), NAME_MAX)}>"
    if kind is ModuleType:
        return f"<module {cut(str(value.__dict__.get('__name__', '?')), NAME_MAX)}>"
    if issubclass(kind, type):
        return f"<class {cut(_name(value), NAME_MAX)}>"
    if kind is GeneratorType:
        return f"<generator {cut(value.__name__, NAME_MAX)}>"
    if is_scalar(value):
        return cut(repr(value), limit)
    if issubclass(kind, BaseException):
        return exception_text(value, limit)
    attributes = attributes_of(value)
    if attributes and depth > 0:
        return _object_text(value, attributes, limit, depth)
    return f"<{type_name(value)} object>"


def _object_text(value, attributes, limit, depth):
    text = f"{type_name(value)}("
    for i, (name, item) in enumerate(attributes.items()):
        if i == ITEMS_MAX or len(text) >= limit:
            text += ", …"
            break
        text += (", " if i else "") + f"{cut(str(name), NAME_MAX)}=" + short(item, limit // 2, depth - 1)
    return cut(text + ")", limit)


def _container_text(value, kind, limit, depth):
    left, right = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: ("frozenset({", "})")}[kind]
    n = len(value)
    if n == 0:
        return repr(value)
    if depth == 0:
        return f"{left}…{right}"
    parts, size = [], 0
    try:
        for i, item in enumerate(value.items() if kind is dict else value):
            if i == ITEMS_MAX or size > limit:
                parts.append("…")
                break
            if kind is dict:
                part = short(item[0], limit // 2, depth - 1) + ": " + short(item[1], limit // 2, depth - 1)
            else:
                part = short(item, limit // 2, depth - 1)
            size += len(part)
            parts.append(part)
    except RuntimeError:  # another thread changes it
        parts.append("…")
    tail = "," if kind is tuple and n == 1 else ""
    text = left + ", ".join(parts) + tail + right
    return text if len(text) <= limit else text[: limit - len(right) - 1] + "…" + right


def safe_name(value):
    name = getattr(value, "__qualname__", None) if type(value) is not MethodType else value.__func__.__qualname__
    return name if type(name) is str else "?"


def attributes_of(value):
    """The attributes of an object whose class reads them as every class does."""
    try:
        kind = type(value)
        if look_up(kind, "__getattribute__") is not object.__getattribute__ or issubclass(kind, type):
            return None
        found = object.__getattribute__(value, "__dict__")
        return found if type(found) is dict else None
    except Exception:
        return None


def _is_of(value, module, *names):
    loaded = sys.modules.get(module)
    return loaded is not None and any(type(value) is getattr(loaded, name, None) for name in names)


def shape_of(value):
    if _is_of(value, "numpy", "ndarray") or _is_of(value, "pandas", "DataFrame", "Series"):
        return value.shape
    return None


def is_scalar(value):
    """A number or a time of numpy or pandas: its repr() is theirs and short."""
    return _is_of(value, "pandas", "Timestamp", "Timedelta", "Period") or _is_of(value, "numpy", *_NUMPY_SCALARS)


def exception_text(error, limit=REPR_MAX):
    """Type and message; the message of a class of the user's only where it is plain text."""
    args = BaseException.args.__get__(error)
    plain = [a for a in args if type(a) in _PLAIN]
    if look_up(type(error), "__str__") in (BaseException.__str__, KeyError.__str__) and len(plain) == len(args):
        text = str(error)
    else:
        text = ", ".join(map(str, plain))
    name = type_name(error)
    return cut(f"{name}: {text}" if text else name, limit)


def tell(value, limit=REPR_MAX):
    """What a step says of a value."""
    told = {"type": type_name(value), "repr": short(value, limit)}
    kind = type(value)
    if kind in (str, bytes, bytearray, list, tuple, dict, set, frozenset, range):
        told["size"] = len(value)
    shape = shape_of(value)
    if shape is not None:
        told["size"] = shape[0] if shape else 1
        told["shape"] = list(shape)
        if _is_of(value, "pandas", "DataFrame"):
            names = [cut(name if type(name) is str else short(name), NAME_MAX) for name in list(value.columns)[:COLUMNS_MAX]]
            told["dtypes"] = dict(zip(names, (cut(str(kind), NAME_MAX) for kind in list(value.dtypes)[:COLUMNS_MAX])))
        else:
            told["dtype"] = cut(str(value.dtype), NAME_MAX)
    return told


def children(value):
    """[(name, value)] of what a value holds, as many as are shown, and how many there are."""
    kind = type(value)
    if kind is dict:
        return [(short(k, NAME_MAX, 1), v) for k, v in list(value.items())[:SHOWN_MAX]], len(value)
    if kind in (list, tuple):
        return [(f"[{i}]", v) for i, v in enumerate(value[:SHOWN_MAX])], len(value)
    if kind in (set, frozenset):
        return [(f"{{{i}}}", v) for i, v in enumerate(list(value)[:SHOWN_MAX])], len(value)
    if _is_of(value, "pandas", "DataFrame"):
        return [(cut(str(name), NAME_MAX), value[name]) for name in list(value.columns)[:COLUMNS_MAX]], len(value.columns)
    if _is_of(value, "numpy", "ndarray") or _is_of(value, "pandas", "Series"):
        items = list(value[:SHOWN_MAX]) if value.ndim else []
        return [(f"[{i}]", v) for i, v in enumerate(items)], len(value) if value.ndim else 0
    attributes = attributes_of(value)
    if attributes and kind not in (ModuleType, FunctionType):
        return [(cut(str(k), NAME_MAX), v) for k, v in list(attributes.items())[:SHOWN_MAX]], len(attributes)
    return [], 0


def variables_of(scope):
    """A scope as it is told in a pause: what cells have, without what every kernel has."""
    shown = {}
    for name, value in list(scope.items()):
        if len(shown) == SHOWN_MAX:
            break
        if type(name) is str and not name.startswith((".", "__")) and type(value) is not ModuleType:
            shown[cut(name, NAME_MAX)] = {**tell(value), "children": children(value)[1]}
    return shown


# ---- breakpoints ----


class Breakpoint:
    def __init__(self, number, spec, stepper):
        self.id = number
        self.line = spec["line"]
        self.hits = 0
        self.condition = self.message = self.rule = None
        if spec.get("condition"):
            self.condition = stepper.compiled(spec["condition"], "eval")
        if spec.get("log_message"):
            self.message = _template(spec["log_message"], stepper)
        if spec.get("hit_count") is not None:
            self.rule = _hit_rule(spec["hit_count"])


def _hit_rule(text):
    text = str(text).strip()
    for sign in sorted(_HIT_RULES, key=len, reverse=True):
        if text.startswith(sign):
            break
    else:
        sign, text = "==", "==" + text
    number = text[len(sign) :].strip()
    if not number.isdecimal() or len(number) > 15:
        raise ValueError(f"hit_count is a number, or one behind {', '.join(_HIT_RULES)}")
    rule, limit = _HIT_RULES[sign], int(number)
    return lambda hits: rule(hits, limit)


def _template(text, stepper):
    """'x is {x}' as a list of texts and expressions. {{ and }} are braces."""
    parts, plain, i = [], "", 0
    while i < len(text):
        if text.startswith(("{{", "}}"), i):
            plain, i = plain + text[i], i + 2
        elif text[i] == "{" and "}" in text[i:]:
            end = text.index("}", i)
            parts += [plain, stepper.compiled(text[i + 1 : end], "eval")]
            plain, i = "", end + 1
        else:
            plain, i = plain + text[i], i + 1
    return parts + [plain]


# ---- the debugger ----


class Stepper:
    def __init__(self, options, session, restricted):
        self.options = json.loads(options)
        self.session = session
        self.given = session.given
        self.restricted = restricted
        self.exceptions = self.options.get("exceptions") or "none"
        self.breakpoints = {}
        self.told_raised = None
        self.frames = []
        self.cell = None

    def begin(self, cell, compiled):
        options = self.options
        self.cell = cell
        self.lines = sorted(_lines_of(compiled))
        enters = bool(options.get("stop_on_entry"))
        _riddle.trace_begin(cell, self, options.get("max_steps", 1000), options.get("max_bytes", 1 << 20), enters, bool(options.get("rewind")))
        self.set_breakpoints(options.get("breakpoints") or [])

    def set_breakpoints(self, specs):
        """[{id, line, verified, message?}] in the order of the request."""
        told, self.breakpoints, self.specs = [], {}, specs
        for number, spec in enumerate(specs, 1):
            answer = {"id": number, "line": spec["line"], "verified": False}
            try:
                line = next((line for line in self.lines if line >= spec["line"]), None)
                if line is None:
                    raise ValueError("no code is at this line or behind it")
                self.breakpoints.setdefault(line, []).append(Breakpoint(number, spec, self))
                answer.update(line=line, verified=True)
            except Exception as error:
                answer["message"] = cut(f"{type(error).__name__}: {safe_text(error)}", 500)
            told.append(answer)
        _riddle.trace_breakpoints(list(self.breakpoints))
        return told

    def compiled(self, text, mode):
        tree = compile(text.strip(), "<debugger>", mode, ast.PyCF_ONLY_AST, dont_inherit=True)
        if self.restricted:
            self.session.policy.check(tree, self.session.namespace)
        return compile(tree, "<debugger>", mode, dont_inherit=True)

    # ---- what trace.c calls ----

    def source(self, name):
        return [line[:-1] for line in linecache.cache.get(name, (0, None, [], name))[2]]

    def describe(self, how, what):
        if how == "variables":
            told = {cut(name, NAME_MAX): tell(value) for name, value in what[:CHANGED_MAX]}
        elif how == "removed":
            told = [cut(name, NAME_MAX) for name in what[:CHANGED_MAX]]
        elif how == "exception":
            told = exception_text(what)
        else:
            told = tell(what)
        return to_utf8(dumps(told))

    def mark(self, value):
        """A number that changes with a frame or an array: its shape and some of its values."""
        if shape_of(value) is None:
            return id(value)
        if _is_of(value, "numpy", "ndarray"):
            return _mark_array(value)
        number = hash(value.shape)
        for block in getattr(value._mgr, "blocks", ())[:16]:
            number = hash((number, id(block), _mark_array(block.values)))
        return number

    def hit(self, line, frame):
        """(whether it stops, what logpoints say or None)"""
        stops, log = False, None
        for point in self.breakpoints.get(line, ()):
            note = None
            try:
                if point.condition is not None and not eval(point.condition, *_scopes(frame)):
                    continue
            except Exception as error:
                note = f"its condition failed: {exception_text(error)}"
            point.hits += 1
            if note is None and point.rule is not None and not point.rule(point.hits):
                continue
            if point.message is not None:
                text = note or self._message(point, frame)
                log = text if log is None else log + "\n" + text
            elif not stops:
                stops, self.note, self.at_breakpoint = True, note, point.id
        return stops, log

    def _message(self, point, frame):
        text = ""
        for part in point.message:
            if type(part) is str:
                text += part
                continue
            try:
                value = eval(part, *_scopes(frame))
                text += value if type(value) is str else short(value)
            except Exception as error:
                text += f"<{exception_text(error)}>"
        return cut(text, 4000)

    def stops_at_raised(self, error):
        wanted = self.exceptions == "raised" and isinstance(error, Exception)
        if wanted:
            self.told_raised = id(error)
        return wanted

    def stops_at_uncaught(self, error):
        wanted = self.exceptions != "none" and isinstance(error, Exception)
        return wanted and self.told_raised != id(error)

    # ---- back in time ----

    def flush(self):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass

    def went_back(self, orders):
        """This process goes on from an earlier step: breakpoints are those of the one that has left."""
        orders = json.loads(orders)
        self.exceptions = orders["exceptions"]
        self.set_breakpoints(orders["breakpoints"])

    # ---- a pause ----

    def paused(self, reason, frame, step, error):
        self.frames = _stack(frame, error if reason == "exception" else None)
        try:
            told = self._tell_pause(reason, step, error)
            while True:
                reply = self._ask(told)
                command = reply.get("command")
                if command in ("continue", "next", "step", "out"):
                    return command
                told = {"event": "answer", **self._do(command, reply)}
        finally:
            self.frames = []

    def _ask(self, told):
        sys.stdout.flush()
        text = to_utf8(dumps({"what": "debug", "args": told}))
        if len(text) > 900_000:
            text = to_utf8(dumps({"what": "debug", "args": {"event": told["event"], "error": "the answer is too large"}}))
        reply = _riddle.ask(text)
        value = reply["value"]
        return value if isinstance(value, dict) else {"command": "continue"}

    def _tell_pause(self, reason, step, error):
        told = {"event": "paused", "reason": reason, "step": step, "frames": self._frames(), **self._frames()[0]}
        told["variables"] = variables_of(self._own(self.frames[0].f_locals))
        if reason == "exception":
            told["exception"] = {"type": type_name(error), "message": exception_text(error)}
        if reason == "breakpoint":
            told["breakpoint"] = self.at_breakpoint
            if self.note:
                told["note"] = self.note
        return told

    def _frames(self):
        shown = []
        for i, frame in enumerate(self.frames[:FRAMES_MAX]):
            code = frame.f_code
            lines = self.source(code.co_filename)
            line = frame.f_lineno or 0
            one = {"frame": i, "function": code.co_name, "line": line, "depth": len(self.frames) - 1 - i}
            one["source"] = cut(lines[line - 1], REPR_MAX) if 0 < line <= len(lines) else ""
            if code.co_filename != self.cell:
                one["cell"] = code.co_filename
            shown.append(one)
        return shown

    def _do(self, command, args):
        """{"value": …} or {"error": text}."""
        try:
            if command == "breakpoints":
                if args.get("exceptions"):
                    self.exceptions = args["exceptions"]
                return {"value": {"breakpoints": self.set_breakpoints(args.get("breakpoints") or [])}}
            if command == "back":
                orders = {"exceptions": self.exceptions, "breakpoints": self.specs}
                return _riddle.trace_back(args["step"], dumps(orders))
            frame = self._frame(args)
            if command == "evaluate":
                return {"value": self._evaluate(frame, args["expression"])}
            if command == "set":
                return {"value": self._set(frame, args)}
            if command == "variables":
                return {"value": self._variables(frame, args)}
            if command == "stack":
                return {"value": {"frames": self._frames()}}
            return {"error": f"the debugger has no command {command!r}"}
        except KeyboardInterrupt:
            raise
        except PolicyViolation as violation:
            return {"error": cut(safe_text(violation), 2000)}
        except BaseException as error:
            return {"error": exception_text(error, 2000) if not isinstance(error, SyntaxError) else f"SyntaxError: {error.msg}"}

    def _frame(self, args):
        number = args.get("frame") or 0
        if not 0 <= number < len(self.frames):
            raise LookupError(f"there are {len(self.frames)} frames")
        return self.frames[number]

    def _evaluate(self, frame, text):
        try:
            code, is_value = self.compiled(text, "eval"), True
        except SyntaxError:
            code, is_value = self.compiled(text, "exec"), False
        if is_value:
            value = eval(code, *_scopes(frame))
            return {**tell(value, 2000), "children": children(value)[1], "json": _json_of(value)}
        exec(code, frame.f_globals, scope := frame.f_locals)
        self._store(frame, scope)
        return {"type": "NoneType", "repr": "", "children": 0}

    def _store(self, frame, scope):
        if scope is not frame.f_globals:
            _riddle.trace_store(frame)

    def _set(self, frame, args):
        name = args["name"]
        if not name.isidentifier() or name.startswith("__"):
            raise ValueError(f"{cut(name, NAME_MAX)!r} is no variable")
        if "expression" in args and args["expression"] is not None:
            value = eval(self.compiled(args["expression"], "eval"), *_scopes(frame))
        else:
            value = args.get("value")
        scope = frame.f_locals
        if scope is not frame.f_globals and name not in frame.f_code.co_varnames + frame.f_code.co_cellvars + frame.f_code.co_freevars:
            raise LookupError(f"{cut(name, NAME_MAX)!r} is no variable of {frame.f_code.co_name}")
        scope[name] = value
        self._store(frame, scope)
        return {**tell(value), "children": children(value)[1]}

    def _own(self, scope):
        return {k: v for k, v in list(scope.items()) if self.given.get(k, self) is not v}

    def _variables(self, frame, args):
        scope = frame.f_globals if args.get("scope") == "globals" else frame.f_locals
        path = args.get("path") or []
        if not path:
            return {"variables": variables_of(self._own(scope))}
        value = scope[path[0]] if path[0] in scope else eval(self.compiled(path[0], "eval"), *_scopes(frame))
        for name in path[1:]:
            value = dict(children(value)[0])[name]
        return {"variables": {name: {**tell(item), "children": children(item)[1]} for name, item in children(value)[0]}}


def _lines_of(code):
    """Lines of a cell that have code."""
    found = {line for _, _, line in code.co_lines() if line}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found |= _lines_of(const)
    return found


def _scopes(frame):
    """Globals and locals for eval(). Comprehensions see only the former, so that a function's variables are in both."""
    scope = frame.f_locals
    if scope is frame.f_globals:
        return frame.f_globals, scope
    return {**frame.f_globals, **scope}, scope


def _stack(frame, error):
    """Frames of cells, the innermost first. Of an exception that has left them, those that it came through."""
    frames = []
    if error is not None:
        tb = error.__traceback__
        while tb is not None:
            if errors.is_user(tb.tb_frame.f_code.co_filename):
                frames.append(tb.tb_frame)
            tb = tb.tb_next
        frames.reverse()
        if frames and frames[-1] is frame:
            return frames
    frames = []
    while frame is not None:
        if errors.is_user(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    return frames


def _json_of(value):
    convert = Converter(2000)
    plain = convert.plain(value) if type(value) in (*_PLAIN, list, tuple, dict, set, frozenset) or shape_of(value) is not None else None
    return plain if not convert.was_cut and len(dumps(plain)) < VALUE_MAX else None


def _mark_array(array):
    size = getattr(array, "size", 0)
    flat = getattr(array, "flat", None)
    if flat is None or size == 0:
        return id(array)
    return hash((size, flat[:: max(1, size // 16)].tobytes(), flat[-1:].tobytes()))


# ---- output ----


class Recorder(io.RawIOBase):
    """Descriptor 1 or 2, and what goes there as the output of the line that runs."""

    def __init__(self, fd):
        self.fd = fd
        self.kept = b""

    def writable(self):
        return True

    def fileno(self):
        return self.fd

    def write(self, data):
        data = bytes(data)
        if not _riddle.trace_output(self.fd == 2, data):
            return len(data)  # it was written the first time
        self.kept += data
        if b"\n" in data or len(self.kept) > 8192:
            self.flush()
        return len(data)

    def flush(self):
        view, self.kept = memoryview(self.kept), b""
        while view:
            view = view[os.write(self.fd, view) :]


def recording(fd):
    return io.TextIOWrapper(Recorder(fd), encoding="utf-8", errors="backslashreplace", write_through=True)
