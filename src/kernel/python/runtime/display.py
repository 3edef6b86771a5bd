"""What a cell shows besides text: display(), and matplotlib's figures.

Each goes to riddle as an event while the cell runs. Figures are taken at plt.show() and at the end of the cell, and closed.
"""

import base64
import importlib.abc
import importlib.util
import io
import sys

import _riddle

from _riddle import DISPLAY_MAX, DISPLAY_PART_MAX, DISPLAYS_MAX, FIGURES_MAX

from .results import frame_html
from .values import Converter, bounded_repr, cut, dumps, to_utf8


NODES_MAX = 100_000  # values of the JSON of one display

class Display:
    def __init__(self):
        self.begin(False)

    def begin(self, svg):
        self.svg = svg
        self.figures = self.displays = 0

    def emit(self, data):
        for stream in (sys.stdout, sys.stderr):  # what was printed before comes before
            try:
                stream.flush()
            except Exception:
                pass
        text = to_utf8(dumps(data))
        if len(text) > DISPLAY_MAX:
            note(f"display: it has more than {DISPLAY_MAX >> 20} MB in all and is not shown")
        else:
            _riddle.display(text)

    # ---- display() ----

    def display(self, *objects):
        """Shows objects as tables, pictures or text, in the order of the calls."""
        for obj in objects:
            self.displays += 1
            if self.displays > DISPLAYS_MAX:
                if self.displays == DISPLAYS_MAX + 1:
                    note(f"display: only the first {DISPLAYS_MAX} of a cell are shown")
                return
            if is_figure(obj):
                self.figure(obj)
            else:
                self.emit(self.parts(obj))

    def last(self, obj):
        """The value of the last line, if it is a picture: a figure of an earlier cell, an image."""
        if is_figure(obj) and not self.figures:
            self.figure(obj)
        elif any(callable(getattr(type(obj), method, None)) for method in ("_repr_png_", "_repr_svg_")):
            parts = self.parts(obj)
            if "png" in parts or "svg" in parts:
                self.emit(parts)

    def parts(self, obj):
        data = {"text": bounded_repr(obj)}
        if isinstance(obj, type):
            return data
        html = frame_html(obj) or call(obj, "_repr_html_")
        svg, png, json = call(obj, "_repr_svg_"), call(obj, "_repr_png_"), call(obj, "_repr_json_")
        if isinstance(png, (bytes, bytearray)):
            png = base64.b64encode(png).decode()
        if json is not None:
            json = Converter(NODES_MAX).plain(json[0] if isinstance(json, tuple) and json else json)
        for key, part, limit in (
            ("html", html, DISPLAY_PART_MAX),
            ("svg", svg, DISPLAY_PART_MAX),
            ("png", png, -(-DISPLAY_PART_MAX // 3) * 4),  # base64
            ("json", json, DISPLAY_PART_MAX),
        ):
            if part is None or (key != "json" and not isinstance(part, str)):
                continue
            if len(to_utf8(dumps(part))) > limit + 2:  # as it is sent, without its quotes
                note(f"display: the {key} of a {type(obj).__name__} is larger than {DISPLAY_PART_MAX >> 20} MB")
            else:
                data[key] = part if key == "json" else str(part)
        return data

    # ---- figures ----

    def show(self):
        """Every open figure; then it is closed."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if pyplot is None or helpers is None or not helpers.Gcf.figs:
            return
        try:
            for manager in sorted(helpers.Gcf.get_all_fig_managers(), key=lambda m: m.num):
                self.figure(manager.canvas.figure)
        finally:
            pyplot.close("all")

    def figure(self, figure):
        self.figures += 1
        if self.figures > FIGURES_MAX:
            if self.figures == FIGURES_MAX + 1:
                note(f"only the first {FIGURES_MAX} figures of a cell are shown")
            return
        try:
            width, height = figure.canvas.get_width_height()
            data = {"text": f"<Figure {width}x{height}>"}
            png = drawn(figure, "png")
            if len(png) > DISPLAY_PART_MAX:
                note(f"figure {self.figures} is not shown: its PNG has more than {DISPLAY_PART_MAX >> 20} MB")
                return
            data["png"] = base64.b64encode(png).decode()
            if self.svg:
                svg = drawn(figure, "svg")
                if len(svg) > DISPLAY_PART_MAX:
                    note(f"figure {self.figures} has no SVG: it would have more than {DISPLAY_PART_MAX >> 20} MB")
                else:
                    data["svg"] = svg.decode("utf-8", "replace")
        except Exception as error:
            note(f"figure {self.figures} could not be drawn: {type(error).__name__}: {cut(str(error), 500)}")
            return
        self.emit(data)


def drawn(figure, form):
    out = io.BytesIO()
    figure.savefig(out, format=form, bbox_inches="tight")
    return out.getvalue()


def is_figure(obj):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(obj, module.Figure)


def call(obj, method):
    try:
        function = getattr(obj, method, None)
        return function() if callable(function) else None
    except Exception:
        return None


def note(text):
    try:
        print(text, file=sys.stderr)
    except Exception:
        pass


# ---- matplotlib, whenever it is imported ----


class _LoadHook(importlib.abc.MetaPathFinder):
    """Lets the real finders find some modules and changes each as it is loaded: {name: load(module, execute)}."""

    def __init__(self, hooks):
        self._hooks = hooks
        self._busy = False

    def find_spec(self, fullname, path=None, target=None):
        hook = self._hooks.get(fullname)
        if hook is None or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: hook(module, execute)
        return spec


def _load_quietly(module, execute):
    """psutil prints a traceback when it finds no /proc/stat, and then goes on."""
    told, sys.stderr = sys.stderr, io.StringIO()
    try:
        execute(module)
    finally:
        sys.stderr = told


def _load_plotly(module, execute):
    """plotly draws in a browser: show() writes a page that can be opened there."""
    execute(module)
    shown = []

    def show(figure, *args, **kwargs):
        shown.append(path := f"plotly-{len(shown) + 1}.html")
        figure.write_html(path)
        print(f"plotly draws in a browser: the figure is in {path}")

    module.BaseFigure.show = show


def install(display):
    """Makes plt.show() and Figure.show() events of this display."""

    def show(*args, **kwargs):
        display.show()

    def change(pyplot):
        pyplot.show = show  # a plain function: pyplot sets attributes of it
        sys.modules["matplotlib.figure"].Figure.show = lambda figure, warn=True: display.figure(figure)

    def load(pyplot, execute):
        execute(pyplot)
        change(pyplot)

    hooks = {"matplotlib.pyplot": load, "psutil._pslinux": _load_quietly, "plotly.basedatatypes": _load_plotly}
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _LoadHook)]
    if "matplotlib.pyplot" in sys.modules:
        change(sys.modules["matplotlib.pyplot"])
        del hooks["matplotlib.pyplot"]
    sys.meta_path.insert(0, _LoadHook(hooks))
