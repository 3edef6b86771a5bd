"""What code of a sandbox says about itself: debug(), inspect_var(), get_debug_info().

Everything is kept for one execution and goes out with its result. A log is written as JSON when it is made. Counts are exact;
of the logs the newest are kept, up to LOGS_MAX of them and LOGS_SIZE_MAX characters.
"""

import datetime
import json
import sys
from collections import deque
from types import FunctionType, ModuleType

from .values import bounded_repr, cut, dumps, key_text, safe_text

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
LOGS_MAX = 1000
LOGS_SIZE_MAX = 256 * 1024
RECENT = 10
MESSAGE_MAX = 4000
REPR_MAX = 1000
VALUES_MAX = 100  # of one variable; the newest
VARIABLES_MAX = 500
LOCALS_MAX = 20
SHORT = 100
STATE_MAX = 500


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


def short(value, limit=SHORT):
    """repr() of a value, cut; of what is large its type and size, because writing it would take long."""
    kind = type(value)
    if kind in (int, float, bool, type(None), str, bytes):
        if kind in (str, bytes) and len(value) > limit:
            value = value[:limit]
        return cut(safe_text(value, repr), limit)
    shape = getattr(value, "shape", None) if kind.__module__.partition(".")[0] in ("pandas", "numpy") else None
    if isinstance(shape, tuple):
        return f"<{kind.__name__} {'x'.join(map(str, shape))}>" if shape else cut(safe_text(value, repr), limit)
    try:
        if len(value) > 1000:
            return f"<{kind.__name__} of {len(value)}>"
    except Exception:
        pass
    return cut(bounded_repr(value), limit)


def size_of(value):
    try:
        return sys.getsizeof(value)
    except Exception:
        return 0


def state(namespace, given):
    """({name: short repr} of the variables, [name] of all names) of a namespace."""
    variables = {}
    for name, value in list(namespace.items()):
        if len(variables) == STATE_MAX:
            break
        if name.startswith("_") or given.get(name) is value or isinstance(value, ModuleType):
            continue
        variables[cut(name, SHORT)] = short(value)
    names = [cut(name, SHORT) for name in namespace if not name.startswith("__")]
    return variables, names[: 2 * STATE_MAX]


class Log:
    def __init__(self):
        self.enabled = False
        self.begin()

    def begin(self):
        self.logs, self.size = deque(), 0
        self.counts = dict.fromkeys(LEVELS, 0)
        self.variables = {}

    def add(self, level, message, data=None, frame=None):
        self.counts[level] += 1
        more = '"data":null,"frame_info":null}' if data is frame is None else dumps({"data": data, "frame_info": frame})[1:]
        entry = f'{{"timestamp":"{now()}","level":"{level}","message":{dumps(message)},{more}'
        self.logs.append(entry)
        self.size += len(entry)
        while len(self.logs) > LOGS_MAX or (self.size > LOGS_SIZE_MAX and len(self.logs) > 1):
            self.size -= len(self.logs.popleft())

    # ---- what cells call ----

    def debug(self, message="", level="INFO", data=None):
        if not self.enabled:
            return
        level = safe_text(level).upper()
        level = {"WARN": "WARNING", "CRITICAL": "ERROR", "FATAL": "ERROR"}.get(level, level)
        if level not in self.counts:
            raise ValueError(f"debug() has the levels {', '.join(LEVELS)}, not {cut(level, 40)!r}")
        text = cut(message if type(message) is str else safe_text(message), MESSAGE_MAX)
        self.add(level, text, None if data is None else cut(safe_text(data, repr), REPR_MAX), frame_info(sys._getframe(1)))

    def inspect_var(self, name, value):
        if not self.enabled:
            return
        name = cut(key_text(name), SHORT)
        if name not in self.variables and len(self.variables) >= VARIABLES_MAX:
            return
        seen = self.variables.setdefault(name, deque(maxlen=VALUES_MAX))
        shown = short(value, REPR_MAX)
        kind = cut(type(value).__name__, SHORT)
        seen.append({"timestamp": now(), "value": cut(shown, SHORT), "type": kind, "size": size_of(value), "repr": shown})
        self.add("DEBUG", f"{name} = {cut(shown, SHORT)}", None, frame_info(sys._getframe(1)))

    def get_debug_info(self):
        return {**json.loads(self.counted()), "recent_logs": [json.loads(entry) for entry in list(self.logs)[-RECENT:]]}

    # ---- what the session calls ----

    def counted(self):
        names = list(self.variables)
        return dumps({"total_logs": sum(self.counts.values()), "log_levels": self.counts, "tracked_variables": len(names),
                      "variable_names": names})

    def report(self):
        """JSON of all that is kept of this execution. riddle adds `recent_logs`, which are the last of them."""
        variables = {name: list(seen)[-RECENT:] for name, seen in list(self.variables.items())[:VALUES_MAX]}
        return f'{self.counted()[:-1]},"logs":[{",".join(self.logs)}],"variables":{dumps(variables)}}}'


def frame_info(frame):
    """Where a line was logged. At the top of a cell the local variables are all that it has: they are left out."""
    code = frame.f_code
    inner = code.co_name != "<module>"
    shown = {}
    for name, value in frame.f_locals.items() if inner else ():
        if len(shown) == LOCALS_MAX:
            break
        if not isinstance(value, (FunctionType, ModuleType)):
            shown[cut(key_text(name), SHORT)] = short(value)
    where = {"filename": cut(code.co_filename, REPR_MAX), "function": cut(code.co_name, REPR_MAX)}
    return {**where, "line_number": frame.f_lineno, "locals": shown}
