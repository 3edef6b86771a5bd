"""The restricted policy: what a cell may import, call and reach.

The jail is the wall; this is a fence. It turns code away early and with a line number, as the people who chose the policy
expect, but whoever looks for a hole in it will find one, and on the other side is a process that can read nothing, write
nothing that matters and talk to nobody.

It is decided twice: on the syntax tree before anything runs, and by the builtins that the cell's code is given. Libraries
have builtins of their own and import what they like.
"""

import ast
import builtins
from types import ModuleType

ALLOWED = frozenset(
    "pandas numpy math statistics re datetime json random collections itertools functools operator string uuid hashlib "
    "base64 urllib.parse typing dataclasses enum asyncio decimal fractions time calendar textwrap heapq bisect copy "
    "zoneinfo csv io requests aiohttp matplotlib seaborn scipy sklearn statsmodels __future__ processor_pipeline".split()
)
BLOCKED = frozenset(
    "os sys subprocess socket pathlib shutil ctypes importlib multiprocessing threading builtins gc inspect pickle "
    "marshal signal resource posix".split()
)
ALWAYS = frozenset(("__future__", "processor_pipeline"))
CALLS = frozenset("open exec eval compile __import__ input globals locals vars breakpoint".split())
# Reached through an allowed module. The others of BLOCKED are also names of its own parts (scipy.signal).
SMUGGLED = frozenset("os sys subprocess socket shutil ctypes importlib builtins".split())
METHODS = {
    "pandas": frozenset(
        "read_csv read_excel read_json read_parquet read_table read_fwf read_html read_sql read_sql_query read_sql_table "
        "read_clipboard read_stata read_sas read_spss read_orc read_pickle read_hdf read_feather read_xml read_gbq "
        "HDFStore ExcelFile ExcelWriter".split()
    ),
    "numpy": frozenset(
        "load save savez savez_compressed fromfile tofile loadtxt savetxt genfromtxt memmap DataSource".split()
    ),
    "io": frozenset("open open_code FileIO".split()),
    "asyncio": frozenset("create_subprocess_exec create_subprocess_shell".split()),
}
WRITERS = frozenset("to_csv to_excel to_parquet to_pickle to_sql to_stata to_clipboard to_orc to_hdf to_feather to_gbq".split())
DUNDER_NAMES = frozenset(("__name__", "__result__", "__doc__"))
ALIASES = {"pd": "pandas", "np": "numpy"}  # of names that a cell finds without an import


class PolicyViolation(Exception):
    """Something that the restricted policy does not allow."""


def _words(text):
    return frozenset((text or "").replace(",", " ").split())


def _is_dunder(name):
    return name.startswith("__") and name.endswith("__") and len(name) > 4


def _prefixes(module):
    parts = module.split(".")
    return {".".join(parts[: i + 1]) for i in range(len(parts))}


def _nodes(tree):
    """All nodes of a tree. ast.walk() takes three times as long, most of a short cell's time."""
    nodes = [tree]
    for node in nodes:
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                nodes.extend([item for item in value if isinstance(item, ast.AST)])
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


class Policy:
    def __init__(self, allowed=None, blocked=None):
        """Lists of names. Those allowed are added to ALLOWED, or replace it when the first character is "="."""
        more = _words(blocked)
        self.is_exact = (allowed or "").startswith("=")
        self.blocked = BLOCKED | more  # wins over what is allowed
        self.allowed = (ALWAYS if self.is_exact else ALLOWED) | _words((allowed or "").lstrip("="))
        self.calls = CALLS | {name for name in more if callable(getattr(builtins, name, None))}
        self.builtins = self._make_builtins()

    # ---- modules ----

    def refusal(self, module):
        """Why this module may not be imported, or None."""
        prefixes = _prefixes(module)
        root = module.partition(".")[0]
        for name in sorted(prefixes):
            if name in self.blocked:
                return f"Blocked import: {name}"
        if prefixes & self.allowed:
            return None
        if root.startswith("_"):
            return f"Blocked import: {root}"
        return f"Import not allowed: {module if root == 'urllib' else root or '.'}"

    def refusal_from(self, module, names, level=0):
        if level:
            return f"Import not allowed: {'.' * level}{module or ''}"
        reason = self.refusal(module)
        # `from urllib import parse` names an allowed module by its parent.
        if reason and reason.startswith("Import") and names and all(f"{module}.{n}" in self.allowed for n in names):
            return None
        if reason:
            return reason
        for name in names:
            if name in METHODS.get(module, ()):
                return f"Blocked method: {module}.{name}"
        return None

    # ---- the tree ----

    def check(self, tree, namespace):
        """Raises PolicyViolation for the first thing in the text that is not allowed."""
        found = []
        nodes = _nodes(tree)
        imported, stored = self._names(nodes)

        def alias(name):
            """The module that a name stands for, or None."""
            if name in imported:
                return imported[name]
            value = namespace.get(name)
            return value.__name__ if isinstance(value, ModuleType) else ALIASES.get(name)

        for node in nodes:
            judge = self._judges.get(type(node))
            reason = judge(self, node, namespace, alias, stored) if judge else None
            if reason:
                found.append((node.lineno, node.col_offset, reason))
        if found:
            line, _, reason = min(found)
            raise PolicyViolation(f"{reason} (line {line})")

    @staticmethod
    def _names(nodes):
        """Names that the cell imports (with the module's name), and names that it binds otherwise."""
        imported, stored = {}, set()
        for node in nodes:
            kind = type(node)
            if kind is ast.Name:
                if type(node.ctx) is not ast.Load:
                    stored.add(node.id)
            elif kind is ast.Import:
                for a in node.names:
                    imported[a.asname or a.name.partition(".")[0]] = a.name if a.asname else a.name.partition(".")[0]
            elif kind is ast.ImportFrom:
                for a in node.names:
                    imported[a.asname or a.name] = f"{node.module}.{a.name}"
            elif kind is ast.arg:
                stored.add(node.arg)
            elif kind is ast.FunctionDef or kind is ast.AsyncFunctionDef or kind is ast.ClassDef:
                stored.add(node.name)
            elif kind is ast.ExceptHandler and node.name:
                stored.add(node.name)
        return imported, stored

    def _import_of(self, node, namespace, alias, stored):
        return next(filter(None, (self.refusal(a.name) for a in node.names)), None)

    def _import_from(self, node, namespace, alias, stored):
        return self.refusal_from(node.module, [a.name for a in node.names], node.level)

    def _call(self, node, namespace, alias, stored):
        if type(node.func) is ast.Name and node.func.id in self.calls:
            return f"Blocked call: {node.func.id}"
        return None

    def _name(self, node, namespace, alias, stored):
        if _is_dunder(node.id) and node.id not in DUNDER_NAMES and node.id not in CALLS:
            return f"Blocked dunder access: {node.id}"
        return None

    def _attribute(self, node, namespace, alias, stored):
        name, base = node.attr, node.value
        if _is_dunder(name) and not (name == "__init__" and _is_super(base)):
            return f"Blocked dunder access: {name}"
        if type(base) is ast.Name:
            module = alias(base.id)
            # A variable of the user's may be called `signal` or `resource`; the module would have had to be imported.
            if base.id in self.blocked and base.id not in stored and module is None:
                if base.id not in namespace:
                    return f"Blocked module access: {base.id}"
            if module is None or base.id in stored:
                module = ""
            if module in self.blocked:
                return f"Blocked module access: {module}"
            if name in METHODS.get(module, ()):
                return f"Blocked method: {base.id}.{name}"
        if name in WRITERS or name == "tofile":
            return f"Blocked method: {name}"
        if name in SMUGGLED and name in self.blocked:
            while type(base) is ast.Attribute:
                base = base.value
            if type(base) is ast.Name and base.id not in stored and alias(base.id) is not None:
                return f"Blocked module access: {name}"
        return None

    _judges = {ast.Import: _import_of, ast.ImportFrom: _import_from, ast.Call: _call, ast.Name: _name, ast.Attribute: _attribute}

    # ---- the builtins ----

    def _make_builtins(self):
        table = dict(vars(builtins))
        for name in ("__loader__", "__spec__"):
            table.pop(name, None)
        for name in self.calls:
            table[name] = _refuse(name)
        for name in ("getattr", "setattr", "delattr", "hasattr"):
            table[name] = _guard(table[name])
        table["__import__"] = self._import
        return table

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        if isinstance(fromlist, list):
            # CPython's own, for a function in C that the cell called: time.strptime(), or what warns. A statement passes a tuple or None.
            return builtins.__import__(name, globals, locals, fromlist, level)
        names = tuple(fromlist or ())
        reason = self.refusal_from(name, names, level) if names or level else self.refusal(name)
        if reason:
            raise PolicyViolation(reason)
        module = builtins.__import__(name, globals, locals, fromlist, level)
        for item in names:
            part = getattr(module, item, None)
            if isinstance(part, ModuleType) and _prefixes(part.__name__) & self.blocked:
                raise PolicyViolation(f"Blocked import: {part.__name__}")
        return module


def _is_super(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _refuse(name):
    def blocked(*args, **kwargs):
        raise PolicyViolation(f"Blocked call: {name}")

    blocked.__name__ = name
    return blocked


def _guard(function):
    def guarded(obj, name, *rest):
        if isinstance(name, str) and _is_dunder(name):
            raise PolicyViolation(f"Blocked dunder access: {name}")
        return function(obj, name, *rest)

    guarded.__name__ = function.__name__
    return guarded
