"""Variables as a pickle, by the name of what they need: the form of a thread that cannot be an image.

Pickles are by cloudpickle, so that functions and classes of cells are in them. Functions find the namespace of the session
that reads them, as in the one that wrote them. What cannot be pickled is left out, and named with the reason.
"""

import contextlib
import io
import os
import pickle
import signal
from types import ModuleType

from .values import cut, safe_text

TEXT_MAX = 1500
REASON_MAX = 120
_GIVEN = "given"
ALL_S = 2.0  # for all variables at once, and for one of them: code of the user's classes runs meanwhile
ONE_S = 0.5


class _TooLong(BaseException):
    def __str__(self):
        return "pickling takes too long"


@contextlib.contextmanager
def _within(seconds):
    def stop(*_):
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)


def _pickler(file, namespace, given):
    import cloudpickle

    mark = {"__name__": "__main__"}

    class Pickler(cloudpickle.CloudPickler):
        def persistent_id(self, value):
            if value is mark or value is namespace:
                return "namespace"
            name = given.get(id(value))
            return (_GIVEN, name) if name is not None else None

    pickler = Pickler(file, protocol=pickle.HIGHEST_PROTOCOL)
    pickler.globals_ref[id(namespace)] = mark  # else functions get a copy of what they refer to
    return pickler


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, namespace):
        super().__init__(file)
        self.namespace = namespace

    def persistent_load(self, name):
        if name == "namespace":
            return self.namespace
        return self.namespace[name[1]]


def _dump(value, namespace, given, seconds=ALL_S):
    file = io.BytesIO()
    with _within(seconds):
        _pickler(file, namespace, given).dump(value)
    return file.getbuffer()


def _why(value, error):
    text = cut(safe_text(error).replace("\n", " "), REASON_MAX)
    return f"{type(value).__name__}: {text}" if text else type(value).__name__


def _listed(left_out):
    return cut("; ".join(f"{name} ({why})" for name, why in left_out.items()), TEXT_MAX)


def _variables(namespace, given):
    """Those of cells: not what a session has from its start."""
    return {name: value for name, value in list(namespace.items())
            if isinstance(name, str) and not (name.startswith("__") and name.endswith("__")) and given.get(name, given) is not value}


def save(fd, go_fd, namespace, given, tables):
    """Writes what can be kept to a pipe, when the other end of go_fd is closed. Returns the names of what cannot be, with the reasons: variables, and SQL's temporary tables."""
    variables, left_out = _variables(namespace, given), {name: "a temporary table of SQL" for name in tables}
    ids = {id(value): name for name, value in given.items() if not isinstance(value, ModuleType)}
    try:
        pickled = _dump(variables, namespace, ids)
    except (Exception, _TooLong):  # some of them; methods of the user's own classes run here
        pickled = None
    while pickled is None:
        for name, value in list(variables.items()):
            try:
                _dump({name: value}, namespace, ids, ONE_S)
            except (Exception, _TooLong) as error:
                left_out[name] = _why(value, error)
                del variables[name]
        try:
            pickled = _dump(variables, namespace, ids)
        except (Exception, _TooLong) as error:  # together, not one by one
            if not variables:
                raise
            left_out.update({name: _why(value, error) for name, value in variables.items()})
            variables.clear()
    try:
        directory = os.getcwd()
    except OSError:
        directory = "/workspace"
    head = {"names": list(variables), "not_kept": left_out, "cwd": directory}
    if go_fd >= 0:
        os.read(go_fd, 1)
    with io.FileIO(fd, "w", closefd=False) as raw:
        for piece in (pickle.dumps(head), pickled):
            view = memoryview(piece)
            while len(view):
                view = view[raw.write(view):]
    return _listed(left_out)


def load(fd, namespace):
    """Reads what save() wrote. Returns the names of what was not kept, with the reasons."""
    with io.BufferedReader(io.FileIO(fd, "r", closefd=False)) as file:
        head = pickle.load(file)
        left_out = dict(head["not_kept"])
        try:
            namespace.update(_Unpickler(file, namespace).load())
        except Exception as error:
            left_out.update({name: _why(error, error) for name in head["names"]})
        try:
            os.chdir(head["cwd"])
        except OSError:
            pass
    return _listed(left_out)
