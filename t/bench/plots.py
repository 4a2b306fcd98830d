# SPDX-License-Identifier: LGPL-3.0-only
"""Makes a Markdown table (stdout) and plots in one SVG from the figures of scale.sh.

usage: plots.py FIGURES.jsonl OUT.svg ONE      (ONE: the fixed number of jobs or associations while the other grows)
"""
import json
import math
import sys
from xml.sax.saxutils import escape

# The measures to plot, in order, each with its axis: the number of jobs or of associations. While the number on the axis grows, the other
# number stays at ONE, an argument of this script.
SHOWN = [
    ("submit", "jobs", "submission, processor time"),
    ("submit: a second", "jobs", "rate of submissions"),
    ("submit: memory", "jobs", "memory of a pending job"),
    ("reprioritize: nothing new", "jobs", "reprioritize, priorities unchanged"),
    ("reprioritize: all new", "jobs", "reprioritize, priorities changed"),
    ("a live refresh", "jobs", "live refresh"),
    ("drain of held jobs", "jobs", "drain of held jobs"),
    ("query of everything", "jobs", "query"),
    ("explain", "jobs", "explain"),
    ("restart", "jobs", "restart of the instance"),
    ("restart: the job manager", "jobs", "restart, processor time"),
    ("restart: first push", "jobs", "first push after the restart"),
    ("push: all new", "leaves", "push of new associations"),
    ("push: all changed", "leaves", "push of changed associations"),
    ("push: memory", "leaves", "memory of an association"),
    ("push in parts: longest request", "leaves", "push in parts, longest request"),
    ("push in parts: all", "leaves", "push in parts, all requests"),
    ("submit", "leaves", "submission, processor time"),
    ("reprioritize: all new", "leaves", "reprioritize, priorities changed"),
    ("a live refresh", "leaves", "live refresh"),
    ("query of everything", "leaves", "query"),
]
NAMES = {"jobs": "jobs", "leaves": "associations"}
# Colours that colour-blind readers can distinguish, on white and on black.
COLOURS = ["#2f7ed8", "#d97a1d", "#8a8a8a", "#2a9d6f", "#b0529b"]
WIDTH, HEIGHT, COLUMNS, MARGIN = 250, 190, 4, 50


def read(path, one):
    """Returns {(measure, axis): {plugin: {size: value}}}, units and plugins."""
    figures, units, plugins = {}, {}, []
    with open(path, encoding="utf-8") as stream:
        for line in map(json.loads, stream):
            units[line["measure"]] = line["unit"]
            if line["plugin"] not in plugins:
                plugins.append(line["plugin"])
            for axis, other in (("jobs", "leaves"), ("leaves", "jobs")):
                if line[other] == one:
                    lines = figures.setdefault((line["measure"], axis), {})
                    lines.setdefault(line["plugin"], {})[line[axis]] = line["value"]
    return figures, units, plugins


def short(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def size_name(size):
    return f"{size // 1000}k" if size % 1000 == 0 else str(size)


def table(figures, units, plugins, axis, one):
    sizes = sorted({size for (_, a), lines in figures.items() if a == axis for line in lines.values() for size in line})
    other = NAMES["leaves" if axis == "jobs" else "jobs"]
    head = [f"{NAMES[axis]}, with {one:,} {other}", "", *map(size_name, sizes)]
    print("| " + " | ".join(head) + " |\n|" + "---|" * 2 + "--:|" * len(sizes))
    for measure, of, title in SHOWN:
        lines = figures.get((measure, of), {}) if of == axis else {}
        for plugin in plugins:
            if plugin in lines:
                cells = [short(lines[plugin][size]) if size in lines[plugin] else "" for size in sizes]
                print("| " + " | ".join([f"{title}, {units[measure]}", plugin, *cells]) + " |")
    print()


def nice(low, high):
    """Returns the powers of ten around the values."""
    return math.floor(math.log10(low)), max(math.floor(math.log10(low)) + 1, math.ceil(math.log10(high)))


def panel(x, y, title, unit, axis, lines, plugins):
    """Draws one plot with logarithmic axes."""
    points = [(size, value) for line in lines.values() for size, value in line.items() if value > 0]
    if not points:
        return ""
    xs, ys = nice(min(p[0] for p in points), max(p[0] for p in points)), nice(min(p[1] for p in points), max(p[1] for p in points))
    left, top, wide, high = x + 46, y + 34, WIDTH - 66, HEIGHT - 74
    at_x = lambda v: left + wide * (math.log10(v) - xs[0]) / (xs[1] - xs[0])
    at_y = lambda v: top + high * (ys[1] - math.log10(v)) / (ys[1] - ys[0])
    out = [f'<text class="title" x="{left}" y="{y + 14}">{escape(title)}</text>', f'<text x="{left}" y="{y + 27}">{escape(unit)}</text>']
    for power in range(ys[0], ys[1] + 1):
        line = at_y(10.0**power)
        out.append(f'<line class="grid" x1="{left}" x2="{left + wide}" y1="{line:.1f}" y2="{line:.1f}"/>')
        out.append(f'<text class="right" x="{left - 5}" y="{line + 4:.1f}">{short(10.0**power)}</text>')
    for power in range(xs[0], xs[1] + 1):
        line = at_x(10.0**power)
        out.append(f'<line class="grid" x1="{line:.1f}" x2="{line:.1f}" y1="{top}" y2="{top + high}"/>')
        out.append(f'<text class="middle" x="{line:.1f}" y="{top + high + 14}">{size_name(10**power)}</text>')
    out.append(f'<text class="middle" x="{left + wide / 2:.1f}" y="{top + high + 28}">{NAMES[axis]}</text>')
    for number, plugin in enumerate(plugins):
        line = sorted((size, value) for size, value in lines.get(plugin, {}).items() if value > 0)
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{at_x(size):.1f},{at_y(value):.1f}" for size, value in line)
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        out += [f'<circle cx="{at_x(size):.1f}" cy="{at_y(value):.1f}" r="3" fill="{colour}"/>' for size, value in line]
    return "\n".join(out)


def svg(figures, units, plugins):
    panels = [(title, units[measure], axis, figures[measure, axis]) for measure, axis, title in SHOWN if (measure, axis) in figures]
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * WIDTH, MARGIN + rows * HEIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<style>text{font:11px sans-serif;fill:#444}.title{font-weight:bold}.right{text-anchor:end}.middle{text-anchor:middle}"
        ".grid{stroke:#8884;stroke-width:1}@media(prefers-color-scheme:dark){text{fill:#ccc}}</style>",
    ]
    for number, plugin in enumerate(plugins):
        x, colour = 46 + number * 160, COLOURS[number % len(COLOURS)]
        out.append(f'<line x1="{x}" x2="{x + 24}" y1="20" y2="20" stroke="{colour}" stroke-width="3"/>')
        out.append(f'<text x="{x + 30}" y="24">{escape(plugin)}</text>')
    for number, (title, unit, axis, lines) in enumerate(panels):
        out.append(panel(number % COLUMNS * WIDTH, MARGIN + number // COLUMNS * HEIGHT, title, unit, axis, lines, plugins))
    return "\n".join(out) + "\n</svg>\n"


def main():
    one = int(sys.argv[3])
    figures, units, plugins = read(sys.argv[1], one)
    for axis in ("jobs", "leaves"):
        table(figures, units, plugins, axis, one)
    with open(sys.argv[2], "w", encoding="utf-8") as stream:
        stream.write(svg(figures, units, plugins))


main()
