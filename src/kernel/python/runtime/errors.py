"""Exceptions of user code as results: what happened, in which line, with the user's own lines of the traceback."""

import errno
import traceback

from .policy import PolicyViolation
from .results import ResultError
from .values import cut, safe_text

MESSAGE_MAX = 8 * 1024
TRACEBACK_MAX = 64 * 1024
FRAMES_MAX = 400  # of a chain; a deep recursion has the same line over and over

ERROR, POLICY, VALIDATION = "PYTHON_EXECUTION_ERROR", "PYTHON_POLICY_VIOLATION", "VALIDATION_ERROR"
_FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)


def failure(verdict, kind, message, line=None, text=None):
    return verdict, {"type": kind, "message": message, "line": line, "traceback": text}


def of_syntax(error, restricted):
    """What the parser or the compiler refuses. Deep nesting makes them run out of stack or of memory."""
    line = getattr(error, "lineno", None)
    if isinstance(error, SyntaxError):
        reason = safe_text(error.msg)
    elif isinstance(error, (RecursionError, MemoryError)):
        reason = "too many nested expressions"
    else:
        reason = safe_text(error)
    message = f"Invalid Python syntax: {cut(reason, MESSAGE_MAX)}" + (f" (line {line})" if line else "")
    text = "".join(traceback.format_exception_only(type(error), error))
    if restricted:
        return failure("policy", POLICY, message, line, cut(text, TRACEBACK_MAX))
    return failure("error", ERROR, message, line, cut(text, TRACEBACK_MAX))


def of_exception(error, cell):
    """(verdict, error object) of what the cell named `cell` ("<cell 3>") raised."""
    line = line_of(error.__traceback__, cell) or getattr(error, "waiting_line", None)
    suffix = f" (line {line})" if line else ""
    if isinstance(error, KeyboardInterrupt):
        return failure("interrupted", ERROR, f"Interrupted{suffix}", line, user_traceback(error))
    if isinstance(error, PolicyViolation):
        message = safe_text(error)
        if suffix and not message.endswith(")"):
            message += suffix
        return failure("policy", POLICY, message, line, user_traceback(error))
    if isinstance(error, ResultError):
        return failure("error", ERROR, safe_text(error))
    if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str) and not hasattr(error, "__notes__"):
        error.add_note(_way_out(error.name))
    elif isinstance(error, OSError) and not hasattr(error, "__notes__") and _is_network(error):
        error.add_note("A sandbox has no network: data comes in as files, or from a database of the server.")
    return failure(verdict_of(error), ERROR, describe(error) + suffix, line, user_traceback(error))


def _is_network(error):
    """Was a name or a host looked for?"""
    for _ in range(20):
        if error is None:
            return False
        if type(error).__name__ == "gaierror" or getattr(error, "errno", None) in (errno.ENETUNREACH, errno.EHOSTUNREACH):
            return True
        error = error.__cause__ or error.__context__
    return False


_INSTEAD = {
    "duckdb": 'sql("SELECT …") is DuckDB: it sees all tables and gives a DataFrame.',
    "polars": "pandas is there, and sql() for what is large.",
    "pyarrow": "read_parquet() and to_parquet() of pandas work without it.",
    "fastparquet": "read_parquet() and to_parquet() of pandas work without it.",
}


def _way_out(module):
    instead = _INSTEAD.get(module.partition(".")[0])
    if instead:
        return instead
    package = "python3-" + module.partition(".")[0].replace("_", "-").lower()
    return ("Packages cannot be installed in a sandbox. Whoever runs Riddle can install Debian's "
            f"{cut(package, 100)}, if there is one, and start Riddle again.")


def describe(error):
    name = type(error).__name__
    text = cut(safe_text(error), MESSAGE_MAX)
    return f"{name}: {text}" if text else name


def verdict_of(error):
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError):
        if error.errno in _FULL:
            return "filesize"
        if error.errno == errno.EAGAIN and _forked(error.__traceback__):
            return "processes"
    if isinstance(error, RuntimeError):
        if safe_text(error) == "can't start new thread":
            return "processes"
    return "error"


def _forked(tb):
    """Whether the innermost frame was making a process: EAGAIN has other meanings elsewhere."""
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    if tb is None:
        return False
    code = tb.tb_frame.f_code
    if code.co_name in ("_execute_child", "_fork_exec", "_launch", "_spawnvef"):
        return True
    return bool({"fork", "forkpty", "posix_spawn", "posix_spawnp", "fork_exec"} & set(code.co_names))


def is_user(filename):
    return filename.startswith("<cell ")


def line_of(tb, cell):
    """The innermost line of this cell; of an earlier cell's if this one has none."""
    mine = other = None
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if name == cell:
            mine = tb.tb_lineno
        elif is_user(name):
            other = tb.tb_lineno
        tb = tb.tb_next
    return mine or other


def user_traceback(error):
    """The traceback as Python prints it, without the frames that are not the user's."""
    try:
        whole = traceback.TracebackException(type(error), error, error.__traceback__, limit=-FRAMES_MAX, compact=True)
        _keep_user(whole, set())
        text = "".join(whole.format())
    except Exception as failed:
        text = f"{type(error).__name__} (its traceback could not be formatted: {type(failed).__name__})\n"
    return cut(text, TRACEBACK_MAX)


def _keep_user(exc, seen):
    if exc is None or id(exc) in seen:
        return
    seen.add(id(exc))
    exc.stack = traceback.StackSummary.from_list([f for f in exc.stack if is_user(f.filename)])
    exc._str = cut(str(exc._str), MESSAGE_MAX)
    _keep_user(exc.__cause__, seen)
    _keep_user(exc.__context__, seen)
    for part in getattr(exc, "exceptions", None) or ():
        _keep_user(part, seen)
