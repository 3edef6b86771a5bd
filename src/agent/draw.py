"""Draws a chart: trusted code that runs in a kernel, fed by a file with the result and the specification that chart.c made of it.

{"format": "png" | "svg", "spec": {"title", "encoding", "usermeta"}, "result": {"columns", "rows"}}. Everything in it is data: nothing
of it is evaluated, and text is drawn as text ("$" begins no formula).
"""


def _riddle_draw(source, target):
    import datetime
    import json
    import math
    import textwrap
    import warnings

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import dates, figure, ticker

    with open(source, encoding="utf-8") as f:
        given = json.load(f)
    spec, columns, rows = given["spec"], given["result"]["columns"], given["result"]["rows"]
    meta = spec["usermeta"]
    kind = meta["kind"]
    at = {name: columns.index(meta[name]) for name in ("x", "y", "series") if name in meta}
    channels = {name: c.get("title", "") for name, c in spec["encoding"].items()}
    colours = ["#3b6fb6", "#e08e45", "#4f9d69", "#b5545c", "#8067a8", "#8a6d57", "#d180b0", "#7f7f7f", "#b3a93c", "#44a3b0", "#20406e", "#8f5416"]
    ink, faint = "#333333", "#d9d9d9"

    def number(v):
        try:
            v = float(v)
        except (TypeError, ValueError):
            return math.nan
        return v if math.isfinite(v) else math.nan

    def moment(v):
        try:
            return datetime.datetime.fromisoformat(str(v)).replace(tzinfo=None)
        except ValueError:
            return None

    def label(v, most=28):
        text = "(none)" if v is None else {True: "yes", False: "no"}[v] if isinstance(v, bool) else str(v)
        text = "".join(c if c.isprintable() else " " for c in text)
        return text if len(text) <= most else text[: most - 1] + "…"

    def figures(v, _position=None):
        for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
            if abs(v) >= size:
                return plain(v / size, 2) + letter
        if v == 0 or 1e-4 <= abs(v):
            return plain(v, 0 if abs(v) >= 1000 else 1 if abs(v) >= 100 else 2 if abs(v) >= 1 else 4)
        return f"{v:.2g}"

    def plain(v, places):
        text = f"{v:,.{places}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    def ordered(values):
        return list(dict.fromkeys(values))

    def rotate(axis, labels):
        room = max((len(s) for s in labels), default=0) * len(labels)
        if room > 90:
            for tick in axis.get_xticklabels():
                tick.set(rotation=35, ha="right", rotation_mode="anchor")

    style = {"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "riddle", "font.size": 10, "text.color": ink,
             "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink, "font.family": "DejaVu Sans"}
    with matplotlib.rc_context(style):
        fig = figure.Figure(figsize=(9, 5), dpi=150, layout="constrained", facecolor="white")
        fig.get_layout_engine().set(w_pad=0.2, h_pad=0.15)
        axis = fig.add_subplot()
        ys = [number(r[at["y"]]) for r in rows]
        series = [label(r[at["series"]]) for r in rows] if "series" in at else None
        groups = ordered(series) if series else [None]

        def rows_of(group):
            return [i for i in range(len(rows)) if series is None or series[i] == group]

        across = False
        if kind == "arc":
            sizes = [0 if math.isnan(v) else v for v in ys]
            names = [label(r[at["x"]]) for r in rows]
            _, _, texts = axis.pie(sizes, labels=names, colors=colours, startangle=90, counterclock=False, autopct="%1.1f%%", pctdistance=0.78,
                                        wedgeprops={"width": 0.45, "edgecolor": "white", "linewidth": 1.5})
            for t in texts:
                t.set(color="white", fontsize=9)
        elif kind == "bar":
            raw = [label(r[at["x"]], 1000) for r in rows]
            places = ordered(raw)
            names = [label(p) for p in places]
            across = len(places) > 12 or (len(places) > 3 and max(len(n) for n in names) > 18)
            width = 0.8 / len(groups)
            for g, group in enumerate(groups):
                own = rows_of(group)
                where = [places.index(raw[i]) - 0.4 + width * (g + 0.5) for i in own]
                draw = axis.barh if across else axis.bar
                bars = draw(where, [ys[i] for i in own], width * 0.94, color=colours[g % len(colours)], label=group)
                if len(groups) == 1 and len(places) <= 30:
                    axis.bar_label(bars, labels=["" if math.isnan(ys[i]) else figures(ys[i]) for i in own], padding=3, fontsize=8, color=ink)
            (axis.set_yticks if across else axis.set_xticks)(range(len(places)), names)
            if across:
                axis.invert_yaxis()
                fig.set_figheight(max(5, min(14, 1.2 + 0.27 * len(places) * max(1, len(groups) * 0.5))))
                axis.margins(x=0.1)
            else:
                rotate(axis, names)
                axis.margins(y=0.1)
        else:
            is_time = spec["encoding"]["x"]["type"] == "temporal"
            is_named = spec["encoding"]["x"]["type"] in ("ordinal", "nominal")
            raw = [label(r[at["x"]]) for r in rows]
            places = ordered(raw)
            xs = [moment(r[at["x"]]) if is_time else places.index(raw[i]) if is_named else number(r[at["x"]]) for i, r in enumerate(rows)]
            for g, group in enumerate(groups):
                own = [i for i in rows_of(group) if xs[i] is not None and xs[i] == xs[i]]  # nor NaN
                colour = colours[g % len(colours)]
                if kind == "line":
                    own.sort(key=lambda i: xs[i])
                    axis.plot([xs[i] for i in own], [ys[i] for i in own], color=colour, linewidth=2, label=group,
                              marker="o" if len(own) <= 40 else None, markersize=4)
                else:
                    axis.scatter([xs[i] for i in own], [ys[i] for i in own], color=colour, s=22, alpha=0.7, linewidths=0, label=group)
            if is_time:
                locator = dates.AutoDateLocator(minticks=3, maxticks=10)
                axis.xaxis.set_major_locator(locator)
                axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
            elif is_named:
                step = max(1, len(places) // 16)
                axis.set_xticks(range(0, len(places), step), places[::step])
                rotate(axis, places[::step])
            else:
                axis.xaxis.set_major_formatter(ticker.FuncFormatter(figures))
            axis.margins(x=0.03, y=0.1)
            known = [v for v in ys if not math.isnan(v)]
            if known and 0 <= min(known) < 0.4 * max(known):
                axis.set_ylim(bottom=0)

        axis.set_title("\n".join(textwrap.wrap(label(spec.get("title", ""), 160), 80)), loc="left", fontsize=13, fontweight="bold", pad=12)
        if kind != "arc":
            value_axis = axis.xaxis if across else axis.yaxis
            value_axis.set_major_formatter(ticker.FuncFormatter(figures))
            axis.set_xlabel(label(channels["y" if across else "x"], 60))
            axis.set_ylabel(label(channels["x" if across else "y"], 60))
            axis.set_axisbelow(True)
            axis.grid(axis="x" if across else "both" if kind == "point" else "y", color=faint, linewidth=0.8)
            for side in ("top", "right", "left"):
                axis.spines[side].set_visible(False)
            axis.spines["bottom"].set_color(faint)
            axis.tick_params(length=0)
        if series:
            axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), title=label(channels.get("color", ""), 30), frameon=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a glyph that the font lacks is a box
            fig.savefig(target, format=given["format"], metadata={"Date": None} if given["format"] == "svg" else None)


_riddle_draw("/workspace/.riddle-chart.json", "/workspace/.riddle-chart.out")
del _riddle_draw
