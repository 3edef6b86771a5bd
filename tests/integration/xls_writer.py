"""Writes workbooks as Excel 97 did (.xls): BIFF8 records in a compound file, as far as tests need it."""

import struct

END, FREE, FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD


def record(kind, body=b""):
    return struct.pack("<HH", kind, len(body)) + body


def text(s, wide=2):
    """A string with a length of 8 (wide=1) or 16 bits, as UTF-16."""
    return struct.pack("<B" if wide == 1 else "<H", len(s)) + b"\1" + s.encode("utf-16-le")


def cell(row, column, value, strings):
    """A number, a text, or (number, 'date') as the second style shows it."""
    style = 0
    if isinstance(value, tuple):
        value, style = value[0], 1
    if isinstance(value, str):
        if value not in strings:
            strings.append(value)
        return record(0xFD, struct.pack("<HHHI", row, column, style, strings.index(value)))
    return record(0x203, struct.pack("<HHHd", row, column, style, value))


def sheet(rows, strings):
    width = max((len(row) for row in rows), default=0)
    body = record(0x809, struct.pack("<HHHHII", 0x600, 0x10, 0xDBB, 0x7CC, 0, 6))
    body += record(0x200, struct.pack("<IIHHH", 0, len(rows), 0, width, 0))
    for y, row in enumerate(rows):
        for x, value in enumerate(row):
            if value is not None:
                body += cell(y, x, value, strings)
    return body + record(0xA)


def workbook(sheets):
    """The stream: {name: [[value, …], …]}."""
    strings = []
    bodies = [sheet(rows, strings) for rows in sheets.values()]
    head = record(0x809, struct.pack("<HHHHII", 0x600, 5, 0xDBB, 0x7CC, 0, 6)) + record(0x42, struct.pack("<H", 1200))
    head += record(0x22, struct.pack("<H", 0))
    for number_format in (0, 14):  # General, and a date
        head += record(0xE0, struct.pack("<HHHBBBBIIH", 0, number_format, 0, 0x20, 0, 0, 0, 0, 0, 0))
    table = record(0xFC, struct.pack("<II", len(strings), len(strings)) + b"".join(text(s) for s in strings))
    names = [text(name, 1) for name in sheets]
    at = len(head) + sum(4 + 6 + len(name) for name in names) + len(table) + 4
    bounds = b""
    for name, body in zip(names, bodies):
        bounds += record(0x85, struct.pack("<IBB", at, 0, 0) + name)
        at += len(body)
    return head + bounds + table + record(0xA) + b"".join(bodies)


def directory(name, kind, start, size, child=FREE):
    raw = (name + "\0").encode("utf-16-le") if name else b""
    return raw.ljust(64, b"\0") + struct.pack("<HBBIII16sIQQII", len(raw), kind, 1, FREE, FREE, child, bytes(16), 0, 0, 0, start,
                                              size) + bytes(4)


def container(stream, name="Workbook"):
    """The stream as the only one of a compound file; it is made longer than those that are kept in another one."""
    stream = stream.ljust(max(4096, -(-len(stream) // 512) * 512), b"\0")
    n = len(stream) // 512
    n_fat = 1
    while n_fat * 128 < n + 1 + n_fat:
        n_fat += 1
    fat = [i + 1 for i in range(n - 1)] + [END, END] + [FAT] * n_fat
    fat += [FREE] * (n_fat * 128 - len(fat))
    entries = directory("Root Entry", 5, END, 0, 1) + directory(name, 2, 0, len(stream)) + directory("", 0, 0, 0) * 2
    header = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<HHHHH6sIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, bytes(6), 0, n_fat, n,
                                                                       0, 4096, END, 0, END, 0)
    header += struct.pack("<109I", *([n + 1 + i for i in range(n_fat)] + [FREE] * (109 - n_fat)))
    return header + stream + entries + struct.pack(f"<{len(fat)}I", *fat)


def xls(sheets):
    return container(workbook(sheets))
