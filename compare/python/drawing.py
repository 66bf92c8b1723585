"""The rows of a run as tables and as a picture."""

import math

ALONE = ["set", "get", "miss", "set, batch", "get, batch"]
THREADS = ["set again, 1 thread", "set again, 4 threads", "get, 1 thread", "get, 4 threads"]


def number(value):
    """Three digits of a rate, in thousands."""
    if value is None:
        return ""
    thousands = value / 1000
    return f"{thousands:,.0f}" if thousands >= 100 else f"{thousands:.3g}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def tables(result):
    def rates(columns):
        rows = [row for row in result["stores"] if columns[0] in row]
        names = [[row["store"], row["mode"]] for row in rows]
        cells = [[number(row.get(column)) for column in columns] for row in rows]
        return table(["store", "mode", *columns], [a + b for a, b in zip(names, cells)])

    rest = [
        [
            row["store"],
            row["mode"],
            f"{row['keys']:,}",
            f"{row['bytes']:,.0f}",
            f"{1000 * row['open after kill, s']:,.1f}" if row.get("open after kill, s") is not None else "fails",
            "yes" if row["whole after kill"] else "no",
        ]
        for row in result["stores"]
        if row.get("bytes") is not None
    ]
    arrays = [
        [f"`{row['key']}`", f"`{row['value']}`", row["mode"], f"{row['batch']:,}", number(row["put_many"]), number(row["get_many"])]
        for row in result["arrays"]
    ]
    parts = [
        "Thousands a second:",
        rates(ALONE),
        rates(THREADS),
        table(["store", "mode", "keys", "bytes an entry", "open after kill, ms", "last key there"], rest),
    ]
    if arrays:
        parts += ["Thousands of keys a second, from arrays:", table(["key", "value", "mode", "batch", "put_many", "get_many"], arrays)]
    return "\n\n".join(parts)


STYLE = """<style>text{font:13px sans-serif;fill:#333}.s{fill:#c2571a}.g{fill:#2a6db0}
@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>"""


def picture(result):
    """Bars of sets and gets, on a logarithmic axis."""
    rows = result["stores"]
    left, width, step = 230, 420, 44
    low, high = 1e3, 1e7
    height = step * len(rows) + 50

    def x(value):
        return width * (math.log10(max(value, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{height}" role="img">']
    parts += ["<title>Single sets and gets a second from Python</title>", STYLE]
    parts.append('<rect class="s" x="230" y="8" width="12" height="12"/><text x="247" y="19">sets a second</text>')
    parts.append('<rect class="g" x="360" y="8" width="12" height="12"/><text x="377" y="19">gets a second (logarithmic)</text>')
    for n, row in enumerate(rows):
        y = 34 + n * step
        name = row["store"] + ("" if row["mode"] == "default" else f" ({row['mode'].split(',')[0]})")
        if "live" in row["mode"]:
            name = row["store"] + " (live image)"
        parts.append(f'<text x="{left - 10}" y="{y + 21}" text-anchor="end">{name}</text>')
        for at, (kind, value) in enumerate([("s", row["set"]), ("g", row["get"])]):
            top = y + 16 * at
            parts.append(f'<rect class="{kind}" x="{left}" y="{top}" width="{x(value):.1f}" height="14"/>')
            parts.append(f'<text x="{left + x(value) + 5:.1f}" y="{top + 12}">{value:,.0f}</text>')
    return "\n".join([*parts, "</svg>", ""])
