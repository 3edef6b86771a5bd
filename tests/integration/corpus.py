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


# Exports as banks, shops and offices write them: name, text, encoding, names of columns with types, rows as DuckDB shows them.
# t: text, n: number, d: date, ts: timestamp, tz: with a zone, tm: time, b: truth value.
EXPORTS = [
    ('dkb.csv', '"Girokonto";"DE02120300000000202051"\n"Zeitraum:";"01.01.2024 - 31.03.2024"\n'
     '"Kontostand vom 31.03.2024:";"1.234,56\xa0€"\n""\n'
     '"Buchungsdatum";"Wertstellung";"Status";"Zahlungspflichtige*r";"Zahlungsempfänger*in";"Verwendungszw'
     'eck";"Betrag (€)"\n"28.03.24";"28.03.24";"Gebucht";"Max Muster";"REWE SAGT DANKE";"Einkauf 12,50";"-12,5"\n'
     '"27.03.24";"27.03.24";"Gebucht";"Firma GmbH";"Max Muster";"Lohn; März";"3.250,17"\n'
     '"02.03.24";"02.03.24";"Vorgemerkt";"Max";"Vermieter";"Miete";"-1.100"\n',
     'utf-8', 'Buchungsdatum:d|Wertstellung:d|Status:t|Zahlungspflichtige*r:t|Zahlungsempfänger*in:t|Verwendungszwe'
     'ck:t|Betrag (€):n',
     [['2024-03-28', '2024-03-28', 'Gebucht', 'Max Muster', 'REWE SAGT DANKE', 'Einkauf 12,50', '-12.5'],
      ['2024-03-27', '2024-03-27', 'Gebucht', 'Firma GmbH', 'Max Muster', 'Lohn; März', '3250.17'],
      ['2024-03-02', '2024-03-02', 'Vorgemerkt', 'Max', 'Vermieter', 'Miete', '-1100']]),
    ('camt.csv', '"Auftragskonto";"Buchungstag";"Valutadatum";"Buchungstext";"Betrag";"Waehrung";"Info"\n'
     '"DE99";"05.01.";"05.01.24";"GEHALT";"2500,00";"EUR";"Umsatz gebucht"\n'
     '"DE99";"06.02.";"06.02.24";"KARTE";"-17,95";"EUR";"Umsatz gebucht"\n'
     '"DE99";"31.03.";"31.03.24";"KARTE";"-0,99";"EUR";"Umsatz gebucht"\n',
     'utf-8', 'Auftragskonto:t|Buchungstag:t|Valutadatum:d|Buchungstext:t|Betrag:n|Waehrung:t|Info:t',
     [['DE99', '05.01.', '2024-01-05', 'GEHALT', '2500.0', 'EUR', 'Umsatz gebucht'],
      ['DE99', '06.02.', '2024-02-06', 'KARTE', '-17.95', 'EUR', 'Umsatz gebucht'],
      ['DE99', '31.03.', '2024-03-31', 'KARTE', '-0.99', 'EUR', 'Umsatz gebucht']]),
    ('ubs.csv', 'Kontonummer:;0230 00123456.01;\nVon:;2024-01-01;\nBis:;2024-01-31;\nAnzahl Transaktionen:;3;\n\n'
     'Abschlussdatum;Buchungsdatum;Währung;Belastung;Gutschrift;Saldo;Beschreibung1\n'
     "2024-01-31;2024-01-31;CHF;-1'250.00;;8'750.50;Miete\n2024-01-25;2024-01-25;CHF;;5'000.00;10'000.50;Lohn\n"
     "2024-01-03;2024-01-03;CHF;-12.35;;5'000.50;Migros\n",
     'utf-8', 'Abschlussdatum:d|Buchungsdatum:d|Währung:t|Belastung:n|Gutschrift:n|Saldo:n|Beschreibung1:t',
     [['2024-01-31', '2024-01-31', 'CHF', '-1250.0', None, '8750.5', 'Miete'],
      ['2024-01-25', '2024-01-25', 'CHF', None, '5000.0', '10000.5', 'Lohn'],
      ['2024-01-03', '2024-01-03', 'CHF', '-12.35', None, '5000.5', 'Migros']]),
    ('paypal.csv', '"Date","Time","TimeZone","Name","Type","Status","Currency","Gross","Fee","Net","Transaction ID"\n'
     '"1/2/2024","08:15:02","PST","Ann","Payment","Completed","USD","1,250.00","-36.55","1,213.45","0AB12"\n'
     '"1/14/2024","23:59:59","PST","Bob","Refund","Completed","EUR","-20.00","0.88","-19.12","1CD34"\n',
     'utf-8', 'Date:d|Time:tm|TimeZone:t|Name:t|Type:t|Status:t|Currency:t|Gross:n|Fee:n|Net:n|Transaction ID:t',
     [['2024-01-02', '08:15:02', 'PST', 'Ann', 'Payment', 'Completed', 'USD', '1250.0', '-36.55', '1213.45', '0AB12'],
      ['2024-01-14', '23:59:59', 'PST', 'Bob', 'Refund', 'Completed', 'EUR', '-20.0', '0.88', '-19.12', '1CD34']]),
    ('stripe.csv', 'id,Description,Created (UTC),Amount,Amount Refunded,Currency,Captured,Card Last4,Customer ID,Fee\n'
     'ch_3OaB,"Order, 1",2024-01-05 10:12,"1,250.00","0,00",usd,true,0042,cus_1,36.55\n'
     'ch_3OaC,,2024-01-06 23:01,20.00,"20,00",eur,false,4242,cus_2,0.88\n',
     'utf-8', 'id:t|Description:t|Created (UTC):ts|Amount:n|Amount Refunded:n|Currency:t|Captured:b|Card Last4:t|Cu'
     'stomer ID:t|Fee:n',
     [['ch_3OaB', 'Order, 1', '2024-01-05 10:12:00', '1250.0', '0.0', 'usd', 'true', '0042', 'cus_1', '36.55'],
      ['ch_3OaC', None, '2024-01-06 23:01:00', '20.0', '20.0', 'eur', 'false', '4242', 'cus_2', '0.88']]),
    ('ga4.csv', '# ----------------------------------------\n# Traffic acquisition\n# Account: Shop\n# Property: shop.example\n'
     '# ----------------------------------------\n#\n# All Users\n# Start date: 20240101\n# End date: 20240131\n'
     'Session default channel group,Sessions,Engagement rate,Average engagement time per session,Event count\n'
     'Organic Search,12345,0.6123,00:01:12,100234\nDirect,987,0.5,00:00:59,5012\n(not set),3,0,00:00:00,9\n',
     'utf-8', 'Session default channel group:t|Sessions:n|Engagement rate:n|Average engagement time per session:tm|Event count:n',
     [['Organic Search', '12345', '0.6123', '00:01:12', '100234'],
      ['Direct', '987', '0.5', '00:00:59', '5012'],
      ['(not set)', '3', '0.0', '00:00:00', '9']]),
    ('jira.csv', 'Issue key,Issue id,Summary,Sprint,Sprint,Labels,Labels,Created,Story Points,Comment,Comment\n'
     'PRJ-1,10001,"Fix ""login""",S1,S2,bug,ui,05/Jan/24 3:04 PM,3.0,"05/Jan/24;ann;First line\nSecond, line",\n'
     'PRJ-2,10002,Add,S2,,,,12/Feb/24 9:30 AM,,,\n',
     'utf-8', 'Issue key:t|Issue id:n|Summary:t|Sprint:t|Sprint_1:t|Labels:t|Labels_1:t|Created:ts|Story Points:n|C'
     'omment:t|Comment_1:t',
     [['PRJ-1', '10001', 'Fix "login"', 'S1', 'S2', 'bug', 'ui', '2024-01-05 15:04:00', '3.0',
      '05/Jan/24;ann;First line\nSecond, line', None],
      ['PRJ-2', '10002', 'Add', 'S2', None, None, None, '2024-02-12 09:30:00', None, None, None]]),
    ('french.csv', 'Date;Libellé;Débit;Crédit\n31/01/2024;Loyer;1\u202f250,00;\n15/02/2024;Salaire;;2\u202f345,67\n'
     '03/03/2024;Café;3,20;\n',
     'utf-8', 'Date:d|Libellé:t|Débit:n|Crédit:n',
     [['2024-01-31', 'Loyer', '1250.0', None],
      ['2024-02-15', 'Salaire', None, '2345.67'],
      ['2024-03-03', 'Café', '3.2', None]]),
    ('swedish.csv', 'Datum;Text;Belopp;Saldo\n2024-01-31;Hyra;−12 345,67;100 000,00\n2024-02-01;Lön;35 000,00;135 000,00\n'
     '2024-02-02;Fika;−45,00;134 955,00\n',
     'utf-8', 'Datum:d|Text:t|Belopp:n|Saldo:n',
     [['2024-01-31', 'Hyra', '-12345.67', '100000.0'],
      ['2024-02-01', 'Lön', '35000.0', '135000.0'],
      ['2024-02-02', 'Fika', '-45.0', '134955.0']]),
    ('indian.csv', 'Date,Narration,Chq./Ref.No.,Withdrawal Amt.,Deposit Amt.,Closing Balance\n'
     '31/03/24,UPI-ZOMATO,0000409112345678,"1,250.00",,"12,34,567.89"\n'
     '01/04/24,NEFT CR,0000409112345679,,"1,00,00,000.00","1,12,34,567.89"\n'
     '02/04/24,ATM,0000000000000000,"10,000.00",,"1,12,24,567.89"\n',
     'utf-8', 'Date:d|Narration:t|Chq./Ref.No.:t|Withdrawal Amt.:n|Deposit Amt.:n|Closing Balance:n',
     [['2024-03-31', 'UPI-ZOMATO', '0000409112345678', '1250.0', None, '1234567.89'],
      ['2024-04-01', 'NEFT CR', '0000409112345679', None, '10000000.0', '11234567.89'],
      ['2024-04-02', 'ATM', '0000000000000000', '10000.0', None, '11224567.89']]),
    ('swiss.csv', 'Artikel;Preis CHF;Menge\nSchraube;1’234.50;5\nMutter;0.05;12’000\nBlech;12.00;3\n',
     'utf-8', 'Artikel:t|Preis CHF:n|Menge:n',
     [['Schraube', '1234.5', '5'],
      ['Mutter', '0.05', '12000'],
      ['Blech', '12.0', '3']]),
    ('surveymonkey.csv', 'Respondent ID,Start Date,What do you use?,,,Overall rating\n,,Python,R,Excel,Response\n'
     '118001,01/31/2024 10:00:00 AM,Python,,Excel,5\n118002,02/01/2024 11:30:00 AM,,R,,4\n'
     '118003,02/01/2024 11:45:00 PM,Python,,,\n',
     'utf-8', 'Respondent ID:n|Start Date:ts|What do you use? Python:t|What do you use? R:t|What do you use? Excel:'
     't|Overall rating Response:n',
     [['118001', '2024-01-31 10:00:00', 'Python', None, 'Excel', '5'],
      ['118002', '2024-02-01 11:30:00', None, 'R', None, '4'],
      ['118003', '2024-02-01 23:45:00', 'Python', None, None, None]]),
    ('fixed.txt', 'ACCT      NAME                 BAL        OPENED\n000123    Smith, John          1250.50    2020-01-31\n'
     '000124    Müller Ann             -3.00    2021-02-01\n000125    Lee                 99999.99    2022-03-15\n',
     'utf-8', 'ACCT:t|NAME:t|BAL:n|OPENED:d',
     [['000123', 'Smith, John', '1250.5', '2020-01-31'],
      ['000124', 'Müller Ann', '-3.0', '2021-02-01'],
      ['000125', 'Lee', '99999.99', '2022-03-15']]),
    ('psql2.txt', ' id |  name   | amount  |     created_at      \n----+---------+---------+---------------------\n'
     "  1 | Ann     | 1250.50 | 2024-01-31 10:00:00\n  2 | O'Neil  |         | 2024-02-01 11:00:00\n(2 rows)\n\n",
     'utf-8', 'id:n|name:t|amount:n|created_at:ts',
     [['1', 'Ann', '1250.5', '2024-01-31 10:00:00'],
      ['2', "O'Neil", None, '2024-02-01 11:00:00']]),
    ('mysql.txt', '+----+-------+---------+\n| id | name  | amount  |\n+----+-------+---------+\n|  1 | Ann   | 1250.50 |\n'
     '|  2 | NULL  |    3.00 |\n+----+-------+---------+\n2 rows in set (0.00 sec)\n',
     'utf-8', 'id:n|name:t|amount:n',
     [['1', 'Ann', '1250.5'],
      ['2', 'NULL', '3.0']]),
    ('footer.csv', 'Product,Units (pcs),Weight [kg],Revenue in €\nA,10,1.5,100.00\nB,20,2.5,200.50\nC,5,0.5,50.25\nTotal,35,4.5,350.75\n'
     '\nGenerated on 2024-01-31 by ERP, page 1 of 1\n',
     'utf-8', 'Product:t|Units (pcs):n|Weight [kg]:n|Revenue in €:n',
     [['A', '10', '1.5', '100.0'],
      ['B', '20', '2.5', '200.5'],
      ['C', '5', '0.5', '50.25']]),
    ('unitsrow.csv', 'time,temp,pressure\n(s),(°C),(hPa)\n0.0,20.5,1013\n0.1,20.6,1012\n0.2,20.7,1012\n',
     'utf-8', 'time (s):n|temp (°C):n|pressure (hPa):n',
     [['0.0', '20.5', '1013'],
      ['0.1', '20.6', '1012'],
      ['0.2', '20.7', '1012']]),
    ('mixedorder.csv', 'id,d\n1,31/01/2024\n2,01/31/2024\n3,05/06/2024\n',
     'utf-8', 'id:n|d:t',
     [['1', '31/01/2024'],
      ['2', '01/31/2024'],
      ['3', '05/06/2024']]),
    ('zones.csv', 'id,at\n1,2024-01-31T10:00:00+01:00\n2,2024-01-31T10:00:00Z\n3,2024-01-31T10:00:00-05:30\n',
     'utf-8', 'id:n|at:tz',
     [['1', '2024-01-31 09:00:00+00'],
      ['2', '2024-01-31 10:00:00+00'],
      ['3', '2024-01-31 15:30:00+00']]),
    ('zonesmix.csv', 'id,at\n1,2024-01-31T10:00:00+01:00\n2,2024-01-31 10:00:00\n',
     'utf-8', 'id:n|at:t',
     [['1', '2024-01-31T10:00:00+01:00'],
      ['2', '2024-01-31 10:00:00']]),
    ('datesmix.csv', 'id,d\n1,2024-01-31\n2,2024-02-01 10:30\n3,2024-02-02\n',
     'utf-8', 'id:n|d:ts',
     [['1', '2024-01-31 00:00:00'],
      ['2', '2024-02-01 10:30:00'],
      ['3', '2024-02-02 00:00:00']]),
    ('excel_serial.csv', 'id,Invoice Date,Amount\n1,45322,5\n2,45323,45000\n',
     'utf-8', 'id:n|Invoice Date:d|Amount:n',
     [['1', '2024-01-31', '5'],
      ['2', '2024-02-01', '45000']]),
    ('pctmix.csv', 'id,share\n1,5%\n2,0.05\n3,12.5%\n',
     'utf-8', 'id:n|share:t',
     [['1', '5%'],
      ['2', '0.05'],
      ['3', '12.5%']]),
    ('curmix.csv', 'id,price\n1,$5.00\n2,€6.50\n3,£7\n',
     'utf-8', 'id:n|price:t',
     [['1', '$5.00'],
      ['2', '€6.50'],
      ['3', '£7']]),
    ('ids.csv', 'plz;kunde;iban;isbn;ean;tel;steuer\n'
     '01067;000123;DE02120300000000202051;9783161484100;4006381333931;030 1234567;12/345/67890\n'
     '80331;123456;DE02120300000000202052;9783161484101;4006381333932;+49 89 12;12/345/67891\n',
     'utf-8', 'plz:t|kunde:t|iban:t|isbn:n|ean:n|tel:t|steuer:t',
     [['01067', '000123', 'DE02120300000000202051', '9783161484100', '4006381333931', '030 1234567', '12/345/67890'],
      ['80331', '123456', 'DE02120300000000202052', '9783161484101', '4006381333932', '+49 89 12', '12/345/67891']]),
    ('versions.csv', 'pkg,version,ip\na,1.10,10.0.0.1\nb,1.9,10.0.0.2\nc,2.0.1,10.0.0.3\n',
     'utf-8', 'pkg:t|version:t|ip:t',
     [['a', '1.10', '10.0.0.1'],
      ['b', '1.9', '10.0.0.2'],
      ['c', '2.0.1', '10.0.0.3']]),
    ('ratios.csv', 'name,score\na,3/4\nb,1/2\nc,10/12\n',
     'utf-8', 'name:t|score:t',
     [['a', '3/4'],
      ['b', '1/2'],
      ['c', '10/12']]),
    ('newlines.csv', 'id,address,n\n1,"Street 1\r\n12345 City\r\n",5\n2,"Line\n\nwith blank",6\n3,"said ""x, y""\n",7\n',
     'utf-8', 'id:n|address:t|n:n',
     [['1', 'Street 1\r\n12345 City\r\n', '5'],
      ['2', 'Line\n\nwith blank', '6'],
      ['3', 'said "x, y"\n', '7']]),
    ('semi.csv', 'id;text;w\n1;one, two, three;1,5\n2;four, five, six;2,25\n3;seven, eight;3\n',
     'utf-8', 'id:n|text:t|w:n',
     [['1', 'one, two, three', '1.5'],
      ['2', 'four, five, six', '2.25'],
      ['3', 'seven, eight', '3.0']]),
    ('u16.csv', 'id;Name;Betrag\r\n1;Zoë;1.234,50\r\n2;Łukasz;-7,00\r\n',
     'utf-16', 'id:n|Name:t|Betrag:n',
     [['1', 'Zoë', '1234.5'],
      ['2', 'Łukasz', '-7.0']]),
    ('mac.csv', 'Name,Stadt,n\rMüller,Köln,1\rÄrzte für Größe,Düsseldorf,2\rWeiß,Würzburg,3\r',
     'mac_roman', 'Name:t|Stadt:t|n:n',
     [['Müller', 'Köln', '1'],
      ['Ärzte für Größe', 'Düsseldorf', '2'],
      ['Weiß', 'Würzburg', '3']]),
    ('cz.csv', 'Jméno;Město;Částka\nJiří Dvořák;Plzeň;1 234,50\nŽaneta Šťastná;České Budějovice;99,90\nTomáš Růžička;Třebíč;5,00\n',
     'cp1250', 'Jméno:t|Město:t|Částka:n',
     [['Jiří Dvořák', 'Plzeň', '1234.5'],
      ['Žaneta Šťastná', 'České Budějovice', '99.9'],
      ['Tomáš Růžička', 'Třebíč', '5.0']]),
    ('jp.csv', '日付,商品名,金額\n2024/01/31,りんごジュース,1200\n2024/02/01,牛乳,250\n',
     'cp932', '日付:d|商品名:t|金額:n',
     [['2024-01-31', 'りんごジュース', '1200'],
      ['2024-02-01', '牛乳', '250']]),
    ('cn.csv', '日期,城市,销售额\n2024-01-31,北京市朝阳区,1200.5\n2024-02-01,上海市的商店,250\n',
     'gb18030', '日期:d|城市:t|销售额:n',
     [['2024-01-31', '北京市朝阳区', '1200.5'],
      ['2024-02-01', '上海市的商店', '250.0']]),
    ('ru.csv', 'Дата;Город;Сумма\n31.01.2024;Москва;1 234,50\n01.02.2024;Санкт-Петербург;7,00\n',
     'cp1251', 'Дата:d|Город:t|Сумма:n',
     [['2024-01-31', 'Москва', '1234.5'],
      ['2024-02-01', 'Санкт-Петербург', '7.0']]),
    ('gr.csv', 'Ημερομηνία;Πόλη;Ποσό\n31/01/2024;Αθήνα;1.234,50\n01/02/2024;Θεσσαλονίκη;7,00\n',
     'cp1253', 'Ημερομηνία:d|Πόλη:t|Ποσό:n',
     [['2024-01-31', 'Αθήνα', '1234.5'],
      ['2024-02-01', 'Θεσσαλονίκη', '7.0']]),
    ('tr.csv', 'Ad;Şehir;Tutar\nŞükrü Öztürk;İstanbul;1.234,50\nÇağrı Yılmaz;Eskişehir;7,00\n',
     'cp1254', 'Ad:t|Şehir:t|Tutar:n',
     [['Şükrü Öztürk', 'İstanbul', '1234.5'],
      ['Çağrı Yılmaz', 'Eskişehir', '7.0']]),
    ('il.csv', 'שם,עיר,סכום\nדוד,תל אביב,12.5\nרחל,ירושלים,7\n',
     'cp1255', 'שם:t|עיר:t|סכום:n',
     [['דוד', 'תל אביב', '12.5'],
      ['רחל', 'ירושלים', '7.0']]),
    ('th.csv', 'ชื่อ,เมือง,จำนวน\nสมชาย,กรุงเทพ,12.5\nสมหญิง,เชียงใหม่,7\n',
     'cp874', 'ชื่อ:t|เมือง:t|จำนวน:n',
     [['สมชาย', 'กรุงเทพ', '12.5'],
      ['สมหญิง', 'เชียงใหม่', '7.0']]),
    ('kr.csv', '날짜,도시,금액\n2024-01-31,서울특별시,1200\n2024-02-01,부산광역시,250\n',
     'cp949', '날짜:d|도시:t|금액:n',
     [['2024-01-31', '서울특별시', '1200'],
      ['2024-02-01', '부산광역시', '250']]),
    ('ar.csv', 'الاسم,المدينة,المبلغ\nمحمد,القاهرة,12.5\nفاطمة,الرياض,7\n',
     'cp1256', 'الاسم:t|المدينة:t|المبلغ:n',
     [['محمد', 'القاهرة', '12.5'],
      ['فاطمة', 'الرياض', '7.0']]),
    ('reserved.csv', 'select,from,order,group,table,index,class,def,None,date\n1,2,3,4,5,6,7,8,9,2024-01-31\n'
     '1,2,3,4,5,6,7,8,9,2024-02-01\n',
     'utf-8', 'select:n|from:n|order:n|group:n|table:n|index:n|class:n|def:n|None:n|date:d',
     [['1', '2', '3', '4', '5', '6', '7', '8', '9', '2024-01-31'],
      ['1', '2', '3', '4', '5', '6', '7', '8', '9', '2024-02-01']]),
    ('nullmix.csv', 'id;v;d;s\n1;k.A.;31.01.2024;x\n2;5,5;k.A.;k.A.\n3;–;01.02.2024;–\n4;7;;y\n',
     'utf-8', 'id:n|v:n|d:d|s:t',
     [['1', None, '2024-01-31', 'x'],
      ['2', '5.5', None, 'k.A.'],
      ['3', None, '2024-02-01', '–'],
      ['4', '7.0', None, 'y']]),
    ('prefix_minus.csv', 'k;v\na;- 5,00 €\nb;+ 7,50 €\nc;1.000,00 €\n',
     'utf-8', 'k:t|v:n',
     [['a', '-5.0'],
      ['b', '7.5'],
      ['c', '1000.0']]),
    ('ampm.csv', 'd,t\n1/31/24,9:05 AM\n2/1/24,11:59 PM\n',
     'utf-8', 'd:d|t:tm',
     [['2024-01-31', '09:05:00'],
      ['2024-02-01', '23:59:00']]),
    ('millis.csv', 'event,timestamp\na,1706659200123\nb,1706659201456\n',
     'utf-8', 'event:t|timestamp:ts',
     [['a', '2024-01-31 00:00:00.123'],
      ['b', '2024-01-31 00:00:01.456']]),
    ('durations.csv', 'a,took\nx,1h 30m\ny,45m\nz,2h 5m\n',
     'utf-8', 'a:t|took:t',
     [['x', '1h 30m'],
      ['y', '45m'],
      ['z', '2h 5m']]),
    ('coords.csv', 'name,lat,lon\nKöln,"50,9375","6,9603"\nBonn,"50,7374","7,0982"\n',
     'utf-8', 'name:t|lat:n|lon:n',
     [['Köln', '50.9375', '6.9603'],
      ['Bonn', '50.7374', '7.0982']]),
    ('grouped3.csv', 'name,pop\nA,"1,234"\nB,"12,345"\nC,"1,234,567"\n',
     'utf-8', 'name:t|pop:n',
     [['A', '1234'],
      ['B', '12345'],
      ['C', '1234567']]),
    ('datehdr.csv', 'Item;31.01.2024;29.02.2024;31.03.2024\nA;1,5;2,5;3,5\nB;4;5;6\n',
     'utf-8', 'Item:t|31.01.2024:n|29.02.2024:n|31.03.2024:n',
     [['A', '1.5', '2.5', '3.5'],
      ['B', '4.0', '5.0', '6.0']]),
    ('lists.csv', 'id,tags,j\n1,"[""a"",""b""]","{""x"": 1}"\n2,[],"{""x"": 2}"\n',
     'utf-8', 'id:n|tags:t|j:t',
     [['1', '["a","b"]', '{"x": 1}'],
      ['2', '[]', '{"x": 2}']]),
    ('hu.csv', 'Név;Város;Összeg\nKovács Győző;Győr;1234,50\nTóth Fűzfa;Szőreg;7,00\n',
     'cp1250', 'Név:t|Város:t|Összeg:n',
     [['Kovács Győző', 'Győr', '1234.5'],
      ['Tóth Fűzfa', 'Szőreg', '7.0']]),
    ('is.csv', 'Nafn;Borg\nÞórður Guðmundsson;Reykjavík\nÁsdís Þorgeirsdóttir;Húsavík\nÖrn;Ísafjörður\n',
     'cp1252', 'Nafn:t|Borg:t',
     [['Þórður Guðmundsson', 'Reykjavík'],
      ['Ásdís Þorgeirsdóttir', 'Húsavík'],
      ['Örn', 'Ísafjörður']]),
    ('ro.csv', 'Nume;Oraş\nŞtefan Ţăran;Bucureşti\nIoniţă;Timişoara\n',
     'cp1250', 'Nume:t|Oraş:t',
     [['Ştefan Ţăran', 'Bucureşti'],
      ['Ioniţă', 'Timişoara']]),
    ('sk.csv', 'Meno;Mesto\nĽuboš Žiak;Košice\nŠtefan Kováč;Žilina\n',
     'cp1250', 'Meno:t|Mesto:t',
     [['Ľuboš Žiak', 'Košice'],
      ['Štefan Kováč', 'Žilina']]),
    ('dosru.csv', 'Имя;Город\nИван;Москва\nОльга Петрова;Новосибирск\n',
     'cp866', 'Имя:t|Город:t',
     [['Иван', 'Москва'],
      ['Ольга Петрова', 'Новосибирск']]),
    ('koi.csv', 'Имя;Город\nИван;Москва\nОльга Петрова;Новосибирск\n',
     'koi8_r', 'Имя:t|Город:t',
     [['Иван', 'Москва'],
      ['Ольга Петрова', 'Новосибирск']]),
]
