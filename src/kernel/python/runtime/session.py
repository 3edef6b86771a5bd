"""Cells: one persistent namespace, one event loop, one result per cell.

execute() never raises for what user code does. Whatever escapes it (an interrupt while a result is being written) is turned
into a result by the C side.
"""

import _signal  # `signal` wraps every answer in an enum
import ast
import builtins
import gc
import inspect
import io
import json
import linecache
import os
import selectors
import sys
from types import ModuleType

import _riddle
import _riddle_frames

from . import databases, debug, display, errors, everyday, pipeline, portable, results, stepper, tables
from .policy import Policy, PolicyViolation
from .values import Converter, bounded_repr, cut, dumps, safe_text, to_utf8

SOURCES_MAX = 16 << 20  # characters of past cells kept for tracebacks
TRAILING = "__riddle_value__"
_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_STORE = ast.Store()
_MODULES = {"pd": "pandas", "np": "numpy"}
_MODULES_OF_AGENTS = {name: name for name in ("datetime", "json", "math", "random", "re", "asyncio")}
RETURNED_NODES_MAX = 100_000


def ask_input(prompt=""):
    """input(): a line from whoever runs the cell, if riddle has somebody to ask."""
    sys.stdout.flush()
    reply = ask("input", {"prompt": cut(safe_text(prompt), 4096)})
    if reply["error"] is not None:
        raise EOFError(f"input() is not available: {reply['error']['message']}")
    return reply["value"]


def ask(what, args):
    """Asks riddle and waits for the reply: {"value", "error"}."""
    return _riddle.ask(to_utf8(dumps({"what": what, "args": args})))


_plain_open = io.open


def open_own(file, mode="r", *args, **more):
    """open(): a file of /data that is linked into the working directory is replaced when it is written, as a copy would be."""
    if mode != "r" and mode != "rb" and isinstance(file, (str, os.PathLike)) and os.path.islink(file):
        _unlink_data(file, mode)
    return _plain_open(file, mode, *args, **more)


def _unlink_data(path, mode):
    if not isinstance(mode, str) or not os.readlink(path).startswith("/data/"):
        return
    if "w" in mode:
        os.unlink(path)
    elif "a" in mode or "+" in mode:
        with _plain_open(path, "rb") as linked:
            content = linked.read()
        os.unlink(path)
        with _plain_open(path, "wb") as own:
            own.write(content)


def open_stream(fd):
    """Text on a descriptor, a line at a time. It survives being closed by user code: the descriptor stays."""
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)


class Session:
    def __init__(self):
        self.count = 0
        self.loop = None
        self.sources, self.source_size = [], 0
        self.policy = Policy(None, None)
        self.stepped = None  # {lines, steps} of a cell that was debugged
        self.agent = False  # code of a sandbox of /sandbox
        self.modules = _MODULES
        self.log = debug.Log()
        self.given = {}
        self.born = {}  # what the namespace has before the first cell
        self.display = display.Display()
        self.dfs = tables.Tables({})
        # A real module, so that dataclasses, pickle and typing find what cells define.
        self.module = ModuleType("__main__")
        self.namespace = self.module.__dict__
        self.sql = tables.Sql(self.namespace)
        self.namespace.update(sql=self.sql, display=self.display.display, dfs=self.dfs, __builtins__=builtins)
        self.namespace.update(databases.Databases(ask, self).names())
        for name, target in _MODULES.items():
            if target in sys.modules:
                self.namespace[name] = sys.modules[target]
        self.stdout = self.stderr = None
        self.install()

    def install(self):
        """Makes this the session that libraries meet: __main__, plt.show(), frames by name in SQL."""
        sys.modules["__main__"] = self.module
        _riddle_frames.set_lookup(self.sql.lookup)
        display.install(self.display)
        builtins.input = ask_input
        builtins.open = io.open = open_own
        sys.stdin = io.StringIO()

    def open(self):
        """Takes descriptors 1 and 2 as its output. In the zygote they are something else, but not their numbers."""
        self.stdout, self.stderr = open_stream(1), open_stream(2)
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr

    def configure(self, places, allowed, blocked, agent, debugging):
        if allowed or blocked:  # else the one that the zygote has made
            self.policy = Policy(allowed, blocked)
        self.dfs = self.namespace["dfs"] = tables.Tables(places)
        if agent:
            self._serve_agent(debugging)
        self.born = dict(self.namespace)

    def _serve_agent(self, debugging):
        """A sandbox of /sandbox: debug() and its kin are there, and results are JSON values."""
        log, namespace = self.log, self.namespace
        self.agent, log.enabled = True, bool(debugging)
        self.modules = {**_MODULES, **_MODULES_OF_AGENTS}
        pipeline.install()
        for name, target in _MODULES.items():
            if self.policy.is_exact and self.policy.refusal(target):
                namespace.pop(name, None)
        namespace.update(debug=log.debug, inspect_var=log.inspect_var, get_debug_info=log.get_debug_info)
        self.given = dict(namespace)

    def state(self):
        """(variables, names) as JSON."""
        variables, names = debug.state(self.namespace, self.given)
        return to_utf8(dumps(variables)), to_utf8(dumps(names))

    # ---- one cell ----

    def execute(self, code, restricted, svg, max_rows, max_bytes, context=None, stepping=None):
        """Runs a cell (UTF-8 bytes). Returns (verdict, columns, types, rows, row_count, truncated, error, value, has_result,
        returned, debug, stepped): JSON as bytes where it is no number or bool, None for null. python.c writes the result from it."""
        self.stepped = None
        if self.agent:
            self._begin_log()
        verdict, error, table, trailing = self._run(code, restricted, svg, context, stepping)
        shown = returned = None
        body = results.EMPTY
        if error is None:
            try:
                if table is not None:
                    body = results.write(table, max_rows, max_bytes)
                if self.agent:
                    returned = self._returned(trailing, max_bytes)
                elif trailing is not None:
                    shown = results.shown(trailing)
            except Exception as failed:  # methods of the user's own classes run here
                verdict, error = errors.of_exception(failed, f"<cell {self.count}>")
                body, table, shown, returned = results.EMPTY, None, None, None
        self._flush()
        report = self._end_log(error) if self.agent else None
        return verdict, *body, _json(error), _json(shown), table is not None, returned, report, _json(self.stepped)

    def _begin_log(self):
        self.log.begin()
        if self.log.enabled:
            self.log.add("INFO", "Starting code execution")

    def _end_log(self, error):
        if not self.log.enabled:
            return None
        if error is None:
            self.log.add("INFO", "Code execution completed")
        else:
            self.log.add("ERROR", f"Execution failed: {error['message']}")
        return to_utf8(self.log.report())

    def _returned(self, value, max_bytes):
        """What an agent gets of an execution, as JSON: __result__, or the last expression. None: nothing."""
        if value is None:
            return None
        convert = Converter(RETURNED_NODES_MAX)
        text = to_utf8(dumps(convert.plain(value)))
        if convert.was_cut or len(text) > max_bytes >= 0:
            cut_text = {"truncated": True, "type": type(value).__name__, "text": cut(bounded_repr(value), max(max_bytes // 4, 100))}
            text = to_utf8(dumps(cut_text))
        return text

    def _run(self, code, restricted, svg, context, stepping):
        """(verdict, error, table, trailing value)"""
        if len(code) > _riddle.CODE_MAX:
            message = f"python_code has {len(code)} bytes; at most {_riddle.CODE_MAX} are allowed"
            return *errors.failure("error", errors.VALIDATION, message), None, None
        try:
            text = code.decode()
        except UnicodeDecodeError as error:
            message = f"python_code is not valid UTF-8 (byte {error.start})"
            return *errors.failure("error", errors.VALIDATION, message), None, None
        if not text or text.isspace():
            return *errors.failure("error", errors.VALIDATION, "python_code is required"), None, None

        self.count += 1
        cell = f"<cell {self.count}>"
        self._settle(svg)
        try:
            try:
                tree = compile(text, cell, "exec", ast.PyCF_ONLY_AST | _FLAGS, dont_inherit=True)
            except SyntaxError:
                if (text := everyday.plain(text)) == code.decode():
                    raise
                tree = compile(text, cell, "exec", ast.PyCF_ONLY_AST | _FLAGS, dont_inherit=True)
            if restricted:
                self.policy.check(tree, self.namespace)
            wanted = self._trailing(tree, text)
            compiled = compile(tree, cell, "exec", _FLAGS, dont_inherit=True)
        except PolicyViolation as violation:
            return *errors.failure("policy", errors.POLICY, str(violation), _line_in(violation)), None, None
        except Exception as error:
            return *errors.of_syntax(error, restricted), None, None
        self._remember(cell, text)

        namespace = self.namespace
        namespace["__builtins__"] = self.policy.builtins if restricted else builtins
        before = {name: namespace[name] for name in results.NAMES if name in namespace}
        try:
            try:
                if context is not None:
                    self._set_context(context)
                self._load_names(tree, text, restricted)
                if "parquet" in text:
                    everyday.parquet(self.sql)
                if stepping is not None:
                    self._step_through(compiled, cell, stepping, restricted)
                else:
                    self._run_compiled(compiled)
            except SystemExit as stop:
                if stop.code not in (None, 0):
                    raise
            finally:
                trailing = namespace.pop(TRAILING, None) if wanted else None
                self.display.show()
            self.display.last(trailing)
            if self.display.figures and results.is_drawing(trailing):
                trailing = None
            assigned = self._assigned(tree, before)
            if self.agent:
                value = namespace["__result__"] if "__result__" in assigned else trailing
                return "ok", None, None if value is None else results.of_value(value), value
            return "ok", None, results.choose(namespace, assigned, trailing), trailing
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                _riddle.clear_interrupt()
            outcome = errors.of_exception(error, cell)
            # The frames of the failed cell would otherwise live until the next collection.
            error.__traceback__ = None
            return *outcome, None, None

    def _settle(self, svg):
        """Puts right what an earlier cell may have left behind."""
        self.display.begin(svg)
        if self.stdout.closed:
            self.stdout = open_stream(1)
        if self.stderr.closed:
            self.stderr = open_stream(2)
        sys.stdout, sys.stderr = self.stdout, self.stderr
        if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            _riddle.restore_sigint()

    def _flush(self):
        for stream in {sys.stdout, sys.stderr, self.stdout, self.stderr}:
            try:
                stream.flush()
            except Exception:
                pass

    @staticmethod
    def _trailing(tree, text):
        """Makes the last expression an assignment, unless a semicolon follows it. Whether there is one."""
        if not tree.body or not isinstance(tree.body[-1], ast.Expr) or text.rstrip().endswith(";"):
            return False
        last = tree.body[-1]
        place = {k: getattr(last, k) for k in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
        tree.body[-1] = ast.Assign([ast.Name(TRAILING, _STORE, **place)], last.value, **place)
        return True

    def _remember(self, cell, text):
        """Gives tracebacks and inspect.getsource() the lines of the cell."""
        # Lines as the tokenizer sees them; str.splitlines() knows many more ends of a line.
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        linecache.cache[cell] = (len(text), None, [line + "\n" for line in lines], cell)
        self.sources.append((cell, len(text)))
        self.source_size += len(text)
        while self.source_size > SOURCES_MAX and len(self.sources) > 1:
            name, size = self.sources.pop(0)
            linecache.cache.pop(name, None)
            self.source_size -= size

    def _set_context(self, context):
        for name, value in json.loads(context).items():
            if not name.isidentifier() or name.startswith("__"):
                raise ValueError(f"the context names {name!r}, which cannot be a variable")
            self.namespace[name] = value

    def _load_names(self, tree, text, restricted):
        """Tables and modules that the cell names and the namespace does not have yet."""
        namespace = self.namespace
        # A table called `sum` must not take the function away: it is in `dfs`.
        missing = {
            n for n in (*self.modules, *self.dfs) if n not in namespace and n in text and not hasattr(builtins, n)
        }
        if "df" in text and "df" not in namespace and "df" not in self.dfs and self.dfs and reads_first(tree, "df"):
            namespace["df"] = self.dfs[next(iter(self.dfs))]
        if not missing:
            return
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        for name in missing & used:
            if name in self.dfs:
                namespace[name] = self.dfs[name]
            elif name in _MODULES or reads_first(tree, name):
                self._load_module(name, tree, restricted)

    def _load_module(self, name, tree, restricted):
        target = self.modules[name]
        if restricted and self.policy.refusal(target):
            return
        try:
            module = __import__(target)
        except ImportError:
            return
        # People write datetime.now() as well as datetime.datetime.now().
        if name == "datetime" and not _reads_attribute(tree, name, ("datetime", "date", "time", "timedelta", "timezone", "UTC")):
            module = module.datetime
        self.namespace[name] = module

    def _run_compiled(self, compiled):
        if compiled.co_flags & inspect.CO_COROUTINE:
            self._run_async(eval(compiled, self.namespace))
        else:
            exec(compiled, self.namespace)

    def _step_through(self, compiled, cell, options, restricted):
        steps = stepper.Stepper(options, self, restricted)
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = stepper.recording(1), stepper.recording(2)
        try:
            steps.begin(cell, compiled)
            _riddle.trace_arm()
            self._run_compiled(compiled)
        finally:
            counts = _riddle.trace_end()
            if counts is not None:
                self.stepped = dict(zip(("lines", "steps"), counts))
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            sys.stdout, sys.stderr = streams

    def _run_async(self, coroutine):
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            self.loop.run_until_complete(task)
        except BaseException as error:
            if not task.done():  # interrupted while it waited: the traceback does not know where
                if coroutine.cr_frame is not None:
                    error.waiting_line = coroutine.cr_frame.f_lineno
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except BaseException:
                    pass
            elif not task.cancelled():
                task.exception()
            raise

    def _assigned(self, tree, before):
        """The result variables that this cell has bound."""
        namespace = self.namespace
        bound = {n for n in results.NAMES if n in namespace and (n not in before or namespace[n] is not before[n])}
        if len(bound) == len(before) == 0:
            return bound
        for node in tree.body:  # bound again to the object that it had
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and target.id in results.NAMES and target.id in namespace:
                    bound.add(target.id)
        return bound


def _reads_attribute(tree, name, attributes):
    return any(
        isinstance(node, ast.Attribute) and node.attr in attributes and isinstance(node.value, ast.Name) and node.value.id == name
        for node in ast.walk(tree)
    )


def reads_first(tree, name):
    """Whether a cell reads a variable that it has not bound before. Functions with a variable of that name are their own affair."""
    for statement in tree.body:
        read, bound = _uses(statement, name)
        if read:
            return True
        if bound:
            return False
    return False


def _uses(node, name):
    """(whether it is read, whether it is bound) in a part of a cell."""
    if isinstance(node, ast.Name):
        return (node.id == name and isinstance(node.ctx, ast.Load)), (node.id == name and not isinstance(node.ctx, ast.Load))
    if isinstance(node, ast.alias):
        return False, (node.asname or node.name) == name
    if isinstance(node, ast.arg):
        return False, node.arg == name
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
        return True, True
    parts = [_uses(child, name) for child in ast.iter_child_nodes(node)]
    read, bound = any(r for r, _ in parts), any(b for _, b in parts)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return read and not bound, False
    return read, bound


def _json(value):
    return None if value is None else to_utf8(dumps(value))


def _line_in(violation):
    digits = str(violation).rpartition("(line ")[2].rstrip(")")
    return int(digits) if digits.isdigit() else None


# ---- what the C side calls ----

_session = None


def make():
    """In the zygote: the session of every kernel that is forked from it. Nothing in it belongs to a process yet."""
    global _session
    _session = Session()
    # A stream looks at its descriptor when it is made: a pipe, as in kernels.
    ends, own = os.pipe(), (os.dup(1), os.dup(2))
    for fd in (1, 2):
        os.dup2(ends[1], fd)
    _session.open()
    for fd in (1, 2):
        os.dup2(own[fd - 1], fd)
    for fd in (*ends, *own):
        os.close(fd)


def start(places, allowed, blocked, agent, debugging):
    _session.configure(places, allowed, blocked, agent, debugging)


def execute(code, restricted, svg, max_rows, max_bytes, context, stepping):
    return _session.execute(code, restricted, svg, max_rows, max_bytes, context, stepping)


def state():
    return _session.state()


def suspend():
    """Before an image: the descriptors of the event loop, which no image can have. A loop that waits for others, too, keeps them."""
    loop = _session.loop
    if loop is None or loop.is_closed() or len(loop._selector.get_map()) > 1:
        return False
    loop._close_self_pipe()
    loop._selector.close()
    return True


def resume():
    """After it, here and in the kernel that is made from the image. Tasks and timers are objects, and go on."""
    loop = _session.loop
    loop._selector = selectors.DefaultSelector()
    loop._make_self_pipe()


def save(fd, go_fd, tables):
    return portable.save(fd, go_fd, _session.namespace, _session.born, tables or [])


def load(fd):
    return portable.load(fd, _session.namespace)


def generators():
    """The random generators that kernels inherit, each with the words of its state. Neither keeps a deviate for the next call."""
    random, numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
    found = []
    if random is not None:
        random.seed()
        words = random.getstate()[1][:-1]
        found.append((random._inst, b"".join(word.to_bytes(4, sys.byteorder) for word in words)))
    if numpy is not None:
        numpy.seed()
        generator = numpy.get_bit_generator()
        found.append((generator, generator.state["state"]["key"].tobytes()))
    return found


def freeze():
    gc.collect()
    gc.freeze()
