# SPDX-License-Identifier: LGPL-3.0-only
"""Tests the page of `flux fairshare simulate --report` against the output of the same run, sums of the trace, and the simple scheduler
of t/scripts/easy.py."""

import json
import os
import re
import subprocess
import sys

import sites
from asking import ACTS, AXE, alone, axe, claim, clean, equal, press, quiet, search, text, texts

HERE = os.path.dirname(os.path.abspath(__file__))
WEEK = os.path.join(HERE, "..", "data", "week.swf")
SWEEP = ["--policy", "fair-tree,weighted-walk", "--sweep", "half-life=1d,14d"]


def span(seconds):
    size, unit = next(((size, unit) for size, unit in [(86400, "d"), (3600, "h"), (60, "min")] if seconds >= size * 1.5), (1, "s"))
    many = seconds / size
    return f"{many:,.0f} {unit}" if many >= 100 or many == 0 else f"{many:.1f} {unit}"


def ratio(number):
    return f"{number:,.0f}" if number >= 1000 else f"{number:.2f}"


def part(number):
    return f"{100 * number:.2f} %"


def rows(page, place):
    """Returns the cells of all rows of a table."""
    page.js("Grid.all.forEach((grid) => grid.render(true, 1e6))")
    return page.js(f"""Array.from(document.querySelectorAll('#{place} tbody tr:not(.pad)'), (row) => Array.from(row.children, (e) => e.textContent))""")


def searched(page, words, place, field="search"):
    """Searches a table and waits for the result."""
    search(page, words, field)
    page.wait(f"Grid.all.find((grid) => grid.table.closest('#{place}')).searched.join(' ') === {json.dumps(words.lower())}")


@claim
def a_simulation_opens_alone_and_says_nothing(bench):
    bench.simulation("week", WEEK, *SWEEP)
    page = bench.open("week.html")
    alone(page, bench.html("week.html"))


@claim
def its_figures_are_those_that_the_run_prints(bench):
    printed = bench.simulation("week", WEEK, *SWEEP)
    page = bench.open("week.html")
    equal(page.js("simulation"), {**printed, "trace": "week.swf"}, "the data")
    wanted = [[one["scenario"], f"{one['jobs']:,}", f"{one['rejected'] + one['never']:,}", span(one["wait_mean"]), span(one["wait_p95"]),
               ratio(one["slowdown_mean"]), ratio(one["slowdown_p95"]), part(one["utilisation"]), f"{one['jain']:.3f}", span(one["behind"])]
              for one in printed["scenarios"]]
    equal(rows(page, "scenarios-table"), wanted, "scenarios")
    assert "Left out: run time, size or summary line is missing" in text(page, "#history-table"), text(page, "#history-table")
    banks = [[one["scenario"], one["group"], f"{one['jobs']:,}", part(one["promised"]), part(one["delivered"]), f"{one['delivered'] / one['promised']:.2f} ×",
              span(one["wait_mean"]), span(one["wait_p95"]), ratio(one["slowdown_mean"]), ratio(one["slowdown_p95"])]
             for one in printed["groups"] if one["by"] == "bank"]
    equal(rows(page, "banks-table"), banks, "banks")
    sizes = [[one["scenario"], one["group"], f"{one['jobs']:,}", span(one["wait_mean"]), span(one["wait_p95"]), ratio(one["slowdown_mean"]),
              ratio(one["slowdown_p95"])] for one in printed["groups"] if one["by"] == "size"]
    equal(rows(page, "sizes-table"), sizes, "sizes")
    # The table that simulate prints on the terminal has the same values as the page.
    table = bench.fairshare("simulate", "--trace", WEEK, *SWEEP, "--by", "size")
    for row in sizes:
        assert " ".join(row[:4]) in " ".join(table.split()), f"{row} in the table"
    quiet(page)


@claim
def a_simulations_figures_are_those_of_the_trace(bench):
    """Without weights and limits, the simulation is only a scheduler, which is compared with another one."""
    printed = bench.simulation("plain", WEEK, "--sweep", "weights.fairshare=0", "--sweep", "scheduler=fcfs,easy", "--backfill-depth", "100000")
    page = bench.open("plain.html")
    jobs = [[float(field) for field in line.split()] for line in open(WEEK, encoding="utf-8") if line.strip() and not line.startswith(";")]
    facts = dict(rows(page, "history-table"))
    submits, work = [job[1] for job in jobs], sum(job[3] * job[4] for job in jobs)
    last = max(submits) - min(submits)
    wanted = {"Jobs": f"{len(jobs):,}", "Users": str(len({job[11] for job in jobs})), "Banks": str(len({job[12] for job in jobs})),
              "From the first submission to the last": span(last), "Between submissions, on average": span(last / (len(jobs) - 1)),
              "Run time, on average": span(sum(job[3] for job in jobs) / len(jobs)), "Cores, on average": f"{sum(job[4] for job in jobs) / len(jobs):.1f}",
              "Core-hours in all": f"{work / 3600:,.0f}", "Core-seconds requested / available in that time": part(work / (1024 * last)), "Recorded wait, on average": "–"}
    equal({name: facts[name] for name in wanted}, wanted, "the history")
    found = {row[0]: row for row in rows(page, "scenarios-table")}
    for how in ["fcfs", "easy"]:
        told = subprocess.run([sys.executable, os.path.join(HERE, "..", "scripts", "easy.py"), WEEK, "1024", how], check=True, capture_output=True, text=True).stdout
        mean, _, p95, _, slowdown, used, makespan = (float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", told))
        row = found[f"scheduler={how}"]
        equal([row[1], row[2], row[3], row[4], row[5], row[7]], [f"{len(jobs):,}", "0", span(mean), span(p95), ratio(slowdown), part(used)], how)
        one = next(one for one in printed["scenarios"] if one["scenario"] == f"scheduler={how}")
        assert abs(one["utilisation"] * 1024 * one["makespan"] / work - 1) < 1e-9 and abs(one["makespan"] - makespan) < 1e-6, "all that was asked for was used"
    quiet(page)


@claim
def dumbbells_lie_where_the_figures_say(bench):
    printed = bench.simulation("week", WEEK, *SWEEP)
    page = bench.open("week.html")
    # Two labels of the axis give its scale, so that the positions of the dots can be converted to values.
    marks = page.js("""Array.from(document.querySelectorAll('#dumbbells svg text:not(.strong)'), (e, at) =>
        [parseFloat(e.textContent), Number(document.querySelectorAll('#dumbbells svg line.grid')[at].getAttribute('x1'))])""")
    (low, left), (high, right) = marks[0], marks[-1]
    value = lambda x: (low + (x - left) / (right - left) * (high - low)) / 100
    banks = [one for one in printed["groups"] if one["by"] == "bank"]
    dots = page.js("Array.from(document.querySelectorAll('#dumbbells circle'), (e) => [e.querySelector('title').textContent, Number(e.getAttribute('cx'))])")
    equal(len(dots), len(banks), "a dot for each bank and scenario")
    for one in banks:
        [at] = [x for told, x in dots if told.startswith(f"{one['group']}, {one['scenario']}:")]
        assert abs(value(at) - one["delivered"]) < 1e-4, f"{one['group']}: {value(at)} instead of {one['delivered']}"
    promised = page.js("Array.from(document.querySelectorAll('#dumbbells line.mark'), (e) => Number(e.getAttribute('x1')))")
    equal([f"{value(x):.4f}" for x in promised], [f"{one['promised']:.4f}" for one in banks if one["scenario"] == banks[0]["scenario"]], "promised")
    # The height of each bar is proportional to the mean wait.
    bars = page.js("Array.from(document.querySelectorAll('#sizes-chart rect'), (e) => [e.querySelector('title').textContent, Number(e.getAttribute('height'))])")
    sizes = [one for one in printed["groups"] if one["by"] == "size"]
    equal(len(bars), len(sizes), "bars")
    highest = max(sizes, key=lambda one: one["wait_mean"])
    whole = max(height for _, height in bars)
    for one in sizes:
        [height] = [height for told, height in bars if told.startswith(f"{one['group']}, {one['scenario']}:")]
        assert abs(height / whole - one["wait_mean"] / highest["wait_mean"]) < 1e-3, one
    quiet(page)


@claim
def scenarios_are_sorted_searched_and_drawn(bench):
    printed = bench.simulation("week", WEEK, *SWEEP)
    page = bench.open("week.html")
    for key in ["wait_mean", "jain", "behind", "scenario"]:
        press(page, f"document.querySelector('#scenarios-table th[data-key={key}] button')")
        down = page.js(f"document.querySelector('#scenarios-table th[data-key={key}]').getAttribute('aria-sort')") == "descending"
        wanted = [one["scenario"] for one in sorted(printed["scenarios"], key=lambda one: one[key])][::-1 if down else 1]
        equal([row[0] for row in rows(page, "scenarios-table")], wanted, key)
    searched(page, "fair-tree", "scenarios-table")
    equal((text(page, "#found"), texts(page, "#dumbbells .keys li")), ("2 of 4 scenarios", [row[0] for row in rows(page, "scenarios-table")]))
    equal(page.js("document.querySelectorAll('#trade circle').length"), 2, "dots")
    searched(page, "nothing of this name", "scenarios-table")
    assert "No scenario" in text(page, "#scenarios-table .empty") and text(page, "#trade") == "No scenario has both measures.", "and says so"
    searched(page, "", "scenarios-table")
    searched(page, "GROUP2 half-life=1d", "banks-table", "banks-search")
    equal(text(page, "#banks-found"), "2 of 12")
    press(page, "document.querySelector('#sizes-table th[data-key=group] button')")
    order = [int(re.match(r"\d+", row[1]).group()) for row in rows(page, "sizes-table")]
    equal(order, sorted(order), "sizes as numbers")
    page.js("(() => { const e = document.getElementById('across'); e.value = 4; e.dispatchEvent(new Event('change')); })()")
    assert "Used across" in page.js("document.querySelector('#trade svg').getAttribute('aria-label')"), "another measure"
    quiet(page)


@claim
def a_simulation_in_any_light_and_width(bench):
    bench.simulation("week", WEEK, *SWEEP)
    bench.simulation("alone", WEEK)
    for name in ["week.html", "alone.html"]:
        for width in [320, 768, 1920]:
            page = bench.open(name, width, 800)
            over = page.js("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, f"{over} pixels too wide at {width}"
            quiet(page)
        pages, data = bench.open(name).pdf()
        assert 1 <= pages <= 6 and data.startswith(b"%PDF"), pages
        if axe(bench) is None:
            continue
        for dark in [False, True]:
            page = bench.open(name, dark=dark)
            equal(clean(bench, page), [], f"{name} {'dark' if dark else 'light'}:")
            page.size(390, 800)
            equal(clean(bench, page), [], f"{name} narrow {'dark' if dark else 'light'}:")
            press(page, "document.getElementById('theme')")
            equal(clean(bench, page), [], f"{name} the other way round:")
            quiet(page)
    if axe(bench) is None:
        return f"skipped: {AXE} can't be had from npm"


@claim
def hostile_names_do_nothing_in_a_simulation(bench):
    banks = [{"name": "root", "parent": None, "shares": 1}]
    banks += [{"name": f"bank {name}", "parent": "root", "shares": at + 1} for at, name in enumerate(sites.HOSTILE)]
    users = [{"user": f"user{at}", "bank": f"bank {name}", "shares": 1, "usage": 0} for at, name in enumerate(sites.HOSTILE)]
    tree = {"banks": banks, "associations": users}
    with open(bench.path("hostile.json"), "w", encoding="utf-8") as file:
        json.dump(tree, file)
    trace = bench.path("<img src=x onerror=window.hit=1>&{{data}}.swf")
    with open(trace, "w", encoding="utf-8") as file:
        file.write("; MaxProcs: 4\n")
        file.writelines(f"{at} {at} -1 {10 + at} 2 -1 -1 2 60 -1 1 {at} 1 -1 -1 -1 -1 -1\n" for at in range(len(sites.HOSTILE)))
    printed = bench.simulation("hostile-simulation", trace, "--tree", bench.path("hostile.json"), "--title", sites.HOSTILE[0], "--policy", "fair-tree,pbs")
    equal(len({one["group"] for one in printed["groups"] if one["by"] == "bank"}), len(sites.HOSTILE), "banks")
    page = bench.open("hostile-simulation.html")
    scripts = page.js("document.scripts.length")
    rows(page, "banks-table")
    equal(page.js("[window.hit, window.ran, document.images.length, document.querySelectorAll('[onload], [onerror], [onfocus], b').length]"), [None, None, 0, 0])
    equal(scripts, 2)
    shown = page.js("document.body.textContent.replace(document.getElementById('data').textContent, '').replace(document.scripts[1].textContent, '')")
    assert not ACTS.search(shown), ACTS.search(shown)
    equal(page.js("document.title"), sites.HOSTILE[0])
    equal(clean(bench, page), [])
    quiet(page)


@claim
def thousands_of_scenarios_have_only_the_rows_in_sight(bench):
    few = bench.path("few.swf")
    with open(few, "w", encoding="utf-8") as file:
        file.write("; MaxProcs: 4\n1 0 -1 10 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 -1 -1\n2 1 -1 10 4 -1 -1 4 60 -1 1 2 2 -1 -1 -1 -1 -1\n")
    ages = ",".join(f"{age}s" for age in range(1, 2001))
    printed = bench.simulation("many", few, "--sweep", f"half-life={ages}", "--sweep", "scheduler=fcfs,easy")
    equal(len(printed["scenarios"]), 4000)
    page = bench.open("many.html")
    assert page.js("document.querySelectorAll('tbody tr:not(.pad)').length") < 200, "rows"
    equal(text(page, "#found"), "4,000 scenarios; the charts show the first 7")
    equal((page.js("document.querySelectorAll('#trade circle').length") <= 2010, len(texts(page, "#dumbbells .keys li"))), (True, 7))
    quiet(page)
