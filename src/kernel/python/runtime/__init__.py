"""The Python half of a kernel.

These files are compiled into riddle-kernel and imported from memory: a jail has no directory of ours. The C side
(python.c) puts the texts into `_sources` before this file runs, then calls `session` and `warm`.

    session    runs cells in the persistent namespace
    policy     what the restricted policy lets a cell do
    tables     the dataset's tables, sql()
    databases  db_query(), db_tables(), db_schema()
    results    which value is a cell's result, and it as a table
    values     anything as JSON
    errors     exceptions as results
    display    display(), matplotlib figures
    everyday   what notebooks have and Python has not
    debug      debug(), inspect_var(): what code of a sandbox says about itself
    stepper    the debugger: how values are told, breakpoints, pauses
    portable   variables as pickles, where no image can be written
    pipeline   processor_pipeline, which templates of processors import
    warm       what the zygote does once, so that kernels need not
"""

import importlib.abc
import importlib.util
import sys

_sources = globals().get("_sources", {})


class _Embedded(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.rpartition(".")
        if package != __name__ or name not in _sources:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=f"<riddle>/{name}.py")

    def get_source(self, fullname):
        return _sources[fullname.rpartition(".")[2]]

    def get_code(self, fullname):
        return self.source_to_code(self.get_source(fullname), f"<riddle>/{fullname.rpartition('.')[2]}.py")


sys.meta_path.insert(0, _Embedded())
