"""
Odd files with the truth beside them. Each is a table of a business, written the way some program or person writes it: with another
separator, encoding, notation of numbers and dates, with lines above and below the table, blank lines, repeated headers, stray quotes.
A number decides which of it all, so that a file can be made again. polluted() makes the kinds of pollution that the Pollock benchmark
describes (one table; one thing wrong with it in each file).
"""
import csv
import datetime
import io
import random

import openpyxl

MONTHS = {
    "en": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(),
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
}
PLACES = ["Köln", "Paris", "San José", "Łódź", "Malmö", "New York", "Zürich", "Oslo"]
WESTERN = [p for p in PLACES if p != "Łódź"]
ITEMS = ["Bolt M8, zinc", "Pipe 5\" long", "Paper; A4", "Tea 'green'", "Box", "Lamp | desk", "Cable 3m", "Ink, \"black\""]


class File:
    """`columns`: names; `rows`: text for text, float for numbers, date and datetime, None. `lines`: its fields as text."""

    def __init__(self, name, data, columns, rows, refused=0, lines=()):
        self.name, self.data, self.columns, self.rows, self.refused, self.lines = name, data, columns, rows, refused, lines

    def workbook(self):
        """The same as a sheet of an XLSX file."""
        book, out = openpyxl.Workbook(), io.BytesIO()
        for line in self.lines:
            book.active.append([text or None for text in line])
        book.save(out)
        return out.getvalue()


def group(digits, sign):
    parts = []
    while len(digits) > 3:
        parts.insert(0, digits[-3:])
        digits = digits[:-3]
    return sign.join([digits] + parts)


def number(value, thousands, decimal, places):
    text = f"{abs(value):.{places}f}"
    whole, _, fraction = text.partition(".")
    return ("-" if value < 0 else "") + group(whole, thousands) + (decimal + fraction if fraction else "")


NUMBERS = {
    "plain": lambda v, p: f"{v:.{p}f}",
    "comma": lambda v, p: number(v, "", ",", p),
    "points": lambda v, p: number(v, ".", ",", p),
    "commas": lambda v, p: number(v, ",", ".", p),
    "spaces": lambda v, p: number(v, "\u00a0", ",", p),
    "quotes": lambda v, p: number(v, "'", ".", p),
    "euro": lambda v, p: number(v, ".", ",", p) + " €",
    "dollar": lambda v, p: ("-" if v < 0 else "") + "$" + number(abs(v), ",", ".", p),
    "brackets": lambda v, p: f"({number(-v, ',', '.', p)})" if v < 0 else number(v, ",", ".", p),
    "accounting": lambda v, p: f" $({number(-v, ',', '.', p)})" if v < 0 else f" ${number(v, ',', '.', p)} ",
    "unit": lambda v, p: number(v, ".", ",", p) + " bales",
    "behind": lambda v, p: number(-v, ".", ",", p) + "-" if v < 0 else number(v, ".", ",", p),
}
DATES = {
    "iso": lambda d: d.isoformat(),
    "dots": lambda d: d.strftime("%d.%m.%Y"),
    "us": lambda d: d.strftime("%m/%d/%Y"),
    "uk": lambda d: d.strftime("%d/%m/%Y"),
    "short": lambda d: d.strftime("%d-%m-%y"),
    "names": lambda d: f"{d.day:02d}-{MONTHS['en'][d.month - 1]}-{d.year}",
    "german": lambda d: f"{d.day}. {MONTHS['de'][d.month - 1]} {d.year}",
    "french": lambda d: f"{d.day} {MONTHS['fr'][d.month - 1]} {d.year}",
    "american": lambda d: f"{MONTHS['en'][d.month - 1]} {d.day}, {d.year}",
    "slashes": lambda d: d.strftime("%Y/%m/%d"),
}
CLOCKS = {
    "iso": lambda t: t.strftime("%Y-%m-%d %H:%M:%S"),
    "t": lambda t: t.strftime("%Y-%m-%dT%H:%M:%S"),
    "us": lambda t: t.strftime("%m/%d/%Y %I:%M:%S %p"),
    "dots": lambda t: t.strftime("%d.%m.%Y %H:%M"),
}


def field(text, separator, always, quote='"'):
    if always or any(c in text for c in (separator, quote, "\n", "\r")):
        return quote + text.replace(quote, quote + quote) + quote
    return text


def odd(seed):
    """File number `seed` of the corpus."""
    r = random.Random(seed)
    encoding = r.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"])
    separator = r.choice([",", ",", ";", ";", "\t", "|"])
    end = r.choice(["\n", "\n", "\r\n", "\r\n", "mixed"])
    notation = r.choice(list(NUMBERS))
    date = r.choice(list(DATES))
    clock = r.choice(list(CLOCKS))
    always = r.random() < 0.25
    null = r.choice(["", "", "n/a", "-", "NULL", "#N/A"])
    places = WESTERN if encoding == "cp1252" else PLACES
    n = r.randint(4, 60)
    columns = ["Order No", "Date", "Customer", "Item", "Amount", "Qty", "Updated", "Code"]
    rows = []
    for i in range(n):
        day = datetime.date(2023, 1, 1) + datetime.timedelta(days=r.randint(0, 700))
        at = datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=r.randint(0, 500000))
        rows.append([float(1000 + i), day, r.choice(places), r.choice(ITEMS), r.randint(-500000, 9000000) / 100,
                     float(r.randint(0, 99)), at, f"{r.randint(0, 9999):05d}"])
    rows[0][1] = datetime.date(2024, 1, 31)  # a day that leaves no doubt
    rows[0][4] = 1234567.5
    rows[1][6] = datetime.datetime(2024, 10, 30, 8, 15)
    for row in rows[2:]:
        if r.random() < 0.15:
            row[r.choice([1, 4, 5])] = None

    def write(row):
        texts = [f"{row[0]:.0f}", DATES[date](row[1]) if row[1] else null, row[2], row[3],
                 NUMBERS[notation](row[4], 2) if row[4] is not None else null,
                 f"{row[5]:.0f}" if row[5] is not None else null, CLOCKS[clock](row[6]), row[7]]
        return separator.join(field(t, separator, always and t != "") for t in texts)

    header = separator.join(field(c, separator, always) for c in columns)
    lines = [header] + [write(row) for row in rows]
    kinds = r.sample(["title", "padded title", "notes above", "blank", "total", "note below", "repeated", "short", "long",
                      "blank column", "twice", "no name", "nothing"], r.randint(0, 3))
    names, values, refused = list(columns), [list(row) for row in rows], 0
    if "blank column" in kinds:
        lines = [line + separator for line in lines]
    if "twice" in kinds:
        lines[0] = lines[0].replace("Customer", "Item", 1)
        names[2], names[3] = "Item", "Item_1"
    if "no name" in kinds:
        lines[0] = lines[0].replace(field("Code", separator, always), "", 1)
        names[7] = "column7"
    if "repeated" in kinds and len(lines) > 4:
        lines.insert(len(lines) // 2, lines[0])
    if "short" in kinds:
        lines.insert(3, separator.join(["5000", DATES[date](rows[0][1]), "Box"]))
        values.insert(2, [5000.0, rows[0][1], "Box", None, None, None, None, None])
    if "long" in kinds:
        lines.insert(len(lines) - 1, lines[2] + separator + "x" + separator + "y")
        refused = 1
    if "blank" in kinds:
        lines.insert(2, "")
        lines.insert(len(lines) - 1, "")
    if "total" in kinds:
        lines.append(separator.join(["Total", "", "", "", NUMBERS[notation](12345.5, 2), "", "", ""]))
    if "note below" in kinds:
        lines += ["", "Source: the warehouse"]
    if "notes above" in kinds:
        lines = [f"Made by{separator}the warehouse", f"On{separator}2024-11-01", ""] + lines
    if "padded title" in kinds:
        lines.insert(0, "Sales of the year" + separator * 7)
    if "title" in kinds:
        lines.insert(0, "Sales of the year")
    text = "".join(line + (r.choice(["\n", "\r\n"]) if end == "mixed" else end) for line in lines)
    if r.random() < 0.3:
        text = text.rstrip("\r\n")
    return File(f"odd{seed}", text.encode(encoding, "strict" if encoding != "cp1252" else "replace"), names, values, refused,
                [next(csv.reader([line], delimiter=separator), []) for line in lines])


SOURCE = [["DATE", "TIME", "Qty", "PRODUCTID", "Price", "ProductType", "ProductDescription", "URL", "Comments"]] + [
    [f"{1 + i % 28:02d}/{1 + i % 12:02d}/2018", f"{i % 24:02d}:{i % 60:02d}:00", str(1 + i % 7), f"P-{i:03d}", f"{5 + i}.{i % 100:02d}",
     ["Toy", "Book", "Food"][i % 3], f"Thing number {i}, of some kind", f"http://example.org/p?id={i}",
     ["", "good", "as \"expected\"", "late; sorry"][i % 4]] for i in range(60)]


def csv_text(rows, separator=",", quote='"', end="\r\n", escape=None):
    def one(text):
        if any(c in text for c in (separator[0], quote, "\n", "\r")):
            return quote + text.replace(quote, (escape if escape is not None else quote) + quote) + quote
        return text
    return "".join(separator.join(one(t) for t in row) + end for row in rows)


def polluted():
    """(name, bytes, header, records): all text, as written."""
    head, body = SOURCE[0], SOURCE[1:]
    plain = csv_text(SOURCE)
    lines = plain.split("\r\n")[:-1]
    files = [("source", plain, head, body), ("no_trailing_newline", plain[:-2], head, body),
             ("double_trailing_newline", plain + "\r\n", head, body), ("no_header", csv_text(body), None, body),
             ("header_only", csv_text([head]), head, []), ("one_data_row", csv_text(SOURCE[:2]), head, body[:1]),
             ("preamble", "Export of the shop,,,,,,,,\r\nfrom 2018,,,,,,,,\r\n" + plain, head, body),
             ("preamble_short", "Export of the shop\r\n\r\n" + plain, head, body),
             ("quote_single", csv_text(SOURCE, quote="'"), head, body),
             ("escape_backslash", csv_text(SOURCE, escape="\\"), head, body), ("escape_none", csv_text(SOURCE, escape=""), head, body),
             ("end_lf", csv_text(SOURCE, end="\n"), head, body), ("end_cr", csv_text(SOURCE, end="\r"), head, body)]
    for name, separator in [("semicolon", ";"), ("comma_space", ", "), ("tab", "\t"), ("space", " "), ("bar", "|"), ("tilde", "~")]:
        files.append((f"delimiter_{name}", csv_text(SOURCE, separator=separator), head, body))
    for row in (1, 2, 30, 60):
        for column in (0, 3, 6, 8):
            cells = lines[row].split(",")
            more = list(body[row - 1])
            changed = csv_text([more[:column + 1] + [""] + more[column + 1:]])[:-2]
            files.append((f"more_separators_{row}_{column}", "\r\n".join(lines[:row] + [changed] + lines[row + 1:]) + "\r\n", head,
                          body[:row - 1] + body[row:]))
            if column < 8:
                less = more[:column] + [more[column] + more[column + 1]] + more[column + 2:]
                files.append((f"less_separators_{row}_{column}",
                              "\r\n".join(lines[:row] + [csv_text([less])[:-2]] + lines[row + 1:]) + "\r\n", head,
                              body[:row - 1] + [less + [""]] + body[row:]))
            raw = [field(t, ",", False) for t in more]
            stray = list(more)
            if raw[column].startswith('"'):
                raw[column] = raw[column][:-1] + '""'
                stray[column] = stray[column] + '"'
            else:
                raw[column] = '"' + raw[column]
                stray[column] = '"' + stray[column]
            files.append((f"stray_quote_{row}_{column}", "\r\n".join(lines[:row] + [",".join(raw)] + lines[row + 1:]) + "\r\n", head,
                          body[:row - 1] + [stray] + body[row:]))
            assert len(cells) >= 9
    return [(name, text.encode(), header, records) for name, text, header, records in files]
