# SPDX-License-Identifier: LGPL-3.0-only
"""Tests the page in dark and light mode, at any width, on paper, with a screen reader, with hostile names, and at large sizes."""

import json
import os
import time

import sites
from asking import ACTS, AXE, axe, claim, clean, equal, found, press, query, quiet, search, text, texts


@claim
def light_and_dark(bench):
    paper = "getComputedStyle(document.body).backgroundColor"
    page = bench.open("demo", dark=True)
    dark = page.js(paper)
    press(page, "document.getElementById('theme')")
    light = page.js(paper)
    equal((dark, light), ("rgb(21, 23, 26)", "rgb(255, 255, 255)"))
    page.theme(False)
    equal(page.js(paper), light, "what was chosen stays")
    quiet(page)


@claim
def narrow_screens_need_no_scrolling_sideways(bench):
    for width in [320, 390, 768, 1920]:
        page = bench.open("demo", width, 800)
        for place in ["", "#user=ada"]:
            page.js(f"location.hash = '{place}'")
            page.wait(f"document.getElementById('person').hidden === {json.dumps(not place)}")
            over = page.js("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, f"{over} pixels too wide at {width}{place}"
        quiet(page)


@claim
def prints_on_a_few_pages(bench):
    pages, data = bench.open("demo").pdf()
    assert 1 <= pages <= 8 and data.startswith(b"%PDF"), pages
    page = bench.open("10000")
    pages, _ = page.pdf()
    assert 1 <= pages <= 10, f"{pages} pages for 10,000 associations"
    found(page, 10_000)
    quiet(page)
    return f"{pages} pages for 10,000 associations"


HELD = {"answer": {"when": 1763776000, "everybody": True, "running": 12, "pending": 40, "held": 9, "more": 7,
                   "by_limit": [["max-run-jobs-queue", 6], ["<img src=x onerror=window.hit=1>", 3]], "by_bank": [["astro", 4, 6]],
                   "jobs": [{"id": "ƒ1a", "user": "ada", "bank": "astro", "queue": "b<i>", "nodes": 2, "cores": 8, "submitted": 1763775000,
                             "holds": ["max-run-jobs-queue"]},
                            {"id": "ƒ1b", "user": "leo", "bank": "teaching", "queue": None, "nodes": 1, "cores": 1, "submitted": None,
                             "holds": ["max-run-jobs-queue", "x"]}]}}


def changed(bench, name, change):
    """Opens the page of the demo site after `change` has changed its document."""
    source = open(bench.html("demo"), encoding="utf-8").read()
    before, rest = source.split('id="data">', 1)
    data, after = rest.split("</script>", 1)
    document = json.loads(data)
    change(document)
    with open(bench.path(name), "w", encoding="utf-8") as file:
        file.write(before + 'id="data">' + json.dumps(document).replace("<", "\\u003c") + "</script>" + after)
    return bench.open(name)


@claim
def the_length_of_a_period_of_usage_is_not_rounded(bench):
    for seconds, words in [(302400, "84 hours"), (604800, "7 days")]:
        page = changed(bench, "period.html", lambda document: (document["usage"].update(length=seconds), document.update(course=None)))
        assert f"in each period of {words}, without decay" in text(page, "#usage-chart"), text(page, "#usage-chart")


@claim
def held_jobs_are_shown_where_a_plugin_answered(bench):
    page = changed(bench, "held.html", lambda document: document.update(held=HELD))
    rows = page.js("Array.from(document.querySelectorAll('#held-jobs .bars tbody tr'), (r) => [r.children[0].textContent, r.children[3].textContent])")
    equal(rows, [["max-run-jobs-queue", "6"], ["<img src=x onerror=window.hit=1>", "3"]])
    assert "9 jobs were held by limits and 40 pending, 12 running" in text(page, "#held-jobs"), text(page, "#held-jobs")
    equal(len(texts(page, "#held-jobs details tbody tr")), 2)
    page.js("location.hash = 'bank=physics'")
    assert page.wait("document.querySelectorAll('#held-jobs details tbody tr').length === 1"), "those below the bank"
    assert "The first of them; 5 more are held" in text(page, "#held-jobs"), text(page, "#held-jobs")
    page.js("location.hash = 'user=ada'")
    page.wait("!document.getElementById('person').hidden")
    assert "1 held job" in text(page, "#person"), "and the user's own"
    page.js("location.hash = ''")
    equal(clean(bench, page), [])
    equal(page.js("window.hit"), None)
    quiet(page)


@claim
def hostile_names_do_nothing(bench):
    page = bench.open("hostile")
    scripts = page.js("document.scripts.length")
    equal(scripts, 2)
    found(page, 2 * len(sites.HOSTILE))
    for name in [*sites.HOSTILE, "</style><script>window.hit=7</script>"]:
        page.js(f"location.hash = 'bank=' + encodeURIComponent({json.dumps('bank ' + name)})")
        page.js(f"location.hash = 'user=' + encodeURIComponent({json.dumps(name)})")
        page.wait("!document.getElementById('person').hidden")
        shown = page.js("document.body.innerText")
        assert not ACTS.search(shown), f"{name[:30]!r}: {ACTS.search(shown)}"
        title = text(page, "#person h2")
        if not ACTS.search(name) and name.strip() and not name.startswith("</style>"):
            equal(title, name)
    page.js("location.hash = ''")
    page.wait("document.getElementById('person').hidden")
    for key in ["user", "bank"]:
        page.click(f"document.querySelector('#standings-table th[data-key={key}] button')")
    search(page, "<img")
    found(page, query(bench, "hostile", "SELECT count(*) FROM association_table WHERE username || ' ' || bank LIKE '%<img%'")[0][0])
    equal(page.js("[window.hit, window.ran, document.scripts.length, document.images.length, document.querySelectorAll('[onload], [onerror], [onfocus], b b').length]"),
          [None, None, scripts, 0, 0])
    equal(page.js("document.title"), "Fair-share report")
    quiet(page)


@claim
def empty_sites_and_single_ones(bench):
    for name, users in [("none", []), ("one", [("ann", "root", 1, [])])]:
        path = bench.path(f"{name}-site.db")
        if not os.path.exists(path):
            sites.make(path, [("root", "", 1)], users, 4)
            bench.fairshare("report", "--no-jobs", "-p", path, "-o", bench.path(f"{name}.html"))
        page = bench.open(f"{name}.html")
        found(page, len(users))
        equal(clean(bench, page), [])
        quiet(page)


@claim
def axe_finds_nothing(bench):
    if axe(bench) is None:
        return f"skipped: {AXE} can't be had from npm"
    rules = 0
    for dark in [False, True]:
        page = bench.open("demo", dark=dark)
        for place in ["", "bank=astro", "user=ada", "user=nobody"]:
            page.js(f"location.hash = {json.dumps(place)}")
            page.wait(f"document.getElementById('person').hidden === {json.dumps(not place.startswith('user'))}")
            page.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            equal(clean(bench, page), [], f"{place} {'dark' if dark else 'light'}:")
        rules = page.js("axe.run(document).then((r) => r.passes.length)")
        page.size(390, 800)
        page.js("location.hash = ''")
        page.wait("document.getElementById('person').hidden")
        equal(clean(bench, page), [], f"narrow {'dark' if dark else 'light'}:")
    page = bench.open("hostile")
    equal(clean(bench, page), [], "hostile:")
    return f"{rules} rules passed on the last"


@claim
def large_sites_are_ready_soon(bench):
    """Prints the times; only --bench checks them, on an idle machine."""
    began = time.monotonic()
    page = bench.open("10000")
    took = time.monotonic() - began
    found(page, 10_000)
    quiet(page)
    return f"10,000 associations after {took:.2f} s"
