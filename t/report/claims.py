# SPDX-License-Identifier: LGPL-3.0-only
"""What the page has to do. What it shows is compared with sums of the database itself, or with what other commands say."""

import json
import os
import re
import sqlite3
import subprocess
import tarfile
import time

import sites

ALL = []
AXE = "axe-core@4.14.1"


def claim(function):
    ALL.append((function.__name__, function))
    return function


def query(bench, site, sql, *values):
    database = sqlite3.connect(f"file:{bench.database(site)}?mode=ro", uri=True)
    try:
        return database.execute(sql, values).fetchall()
    finally:
        database.close()


def quiet(page):
    told = page.complaints()
    assert not told, f"nothing on the console, nothing asked for: {told}"


def equal(found, wanted, what=""):
    assert found == wanted, f"{what} {str(found)[:300]} instead of {str(wanted)[:300]}".strip()


def text(page, selector):
    return page.js(f"document.querySelector({json.dumps(selector)}).textContent")


def texts(page, selector):
    return page.js(f"Array.from(document.querySelectorAll({json.dumps(selector)}), (e) => e.textContent)")


def names(page, number=8):
    """The first users of the standings."""
    return texts(page, "#standings-table tbody th a")[:number]


def found(page, wanted):
    """How many associations the standings say they show; that takes a moment."""
    page.wait(f"/^{wanted:,}( |$)/.test(document.getElementById('found').textContent)", 20)
    told = text(page, "#found")
    equal(int(re.match(r"[\d,]+", told).group().replace(",", "")), wanted, told)


def press(page, expression):
    page.js(f"{expression}.click()")


def below(bank):
    return f"""WITH RECURSIVE inside(bank) AS (VALUES ('{bank}') UNION SELECT bank_table.bank FROM bank_table
               JOIN inside ON parent_bank = inside.bank)"""


@claim
def opens_alone_and_says_nothing(bench):
    page = bench.open("demo")
    page.js("new Promise((done) => setTimeout(done, 300))")
    quiet(page)
    source = open(bench.html("demo"), encoding="utf-8").read()
    head = source.split("<script", 1)[0]
    assert "default-src 'none'" in head and "unsafe" not in head, "a strict policy"
    equal(re.findall(r"""\b(?:src|href)\s*=\s*["'](?!#)""", head + source.rsplit("</script>", 1)[1]), [], "references")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", source), "no address of anybody else"
    # The policy is at work: what is put in by others does not run.
    page.js("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
    equal(page.js("window.ran"), None, "a script of others")


@claim
def figures_are_those_of_the_database(bench):
    page = bench.open("demo")
    users, usage = query(bench, "demo", "SELECT count(*), sum(job_usage) FROM association_table")[0]
    tiles = page.js("Object.fromEntries(Array.from(document.querySelectorAll('#tiles > div'), (d) => Array.from(d.children, (e) => e.textContent)))")
    equal(tiles["Associations"], f"{users:,}")
    equal(tiles["Node-hours that count"], f"{usage / 3600:,.0f}")
    equal(tiles["Banks"], str(query(bench, "demo", "SELECT count(*) FROM bank_table")[0][0]))


@claim
def the_picture_is_as_wide_as_the_shares(bench):
    page = bench.open("demo")
    wide = page.js("""Object.fromEntries(Array.from(document.querySelectorAll('#icicle [data-node]'), (e) =>
        [e.querySelector('b').textContent, [e.getBoundingClientRect().width, getComputedStyle(e).backgroundColor]]))""")
    whole = wide["root"][0]
    shares = dict(query(bench, "demo", "SELECT bank, shares FROM bank_table WHERE parent_bank = 'root'"))
    for bank, share in shares.items():
        assert abs(wide[bank][0] - whole * share / sum(shares.values())) < 1.5, f"{bank}: {wide[bank]} of {whole}"
    red = lambda colour: [int(part) for part in re.findall(r"\d+", colour)[:3]]
    over, under = red(wide["catalysis"][1]), red(wide["polymers"][1])
    assert over[0] > over[2] and under[2] > under[0], f"over is orange, under is blue: {over} {under}"


@claim
def a_click_looks_into_a_bank_and_all_follows(bench):
    page = bench.open("demo")
    cell = "Array.from(document.querySelectorAll('#icicle button')).find((e) => e.querySelector('b').textContent === 'physics')"
    page.click(cell)
    page.wait("location.hash === '#bank=physics'")
    inside = query(bench, "demo", below("physics") + "SELECT count(*) FROM association_table WHERE bank IN inside")[0][0]
    found(page, inside)
    equal(texts(page, "#crumbs li"), ["root", "physics"])
    equal(page.js("Math.round(document.querySelector('#icicle [data-node]').getBoundingClientRect().width)"),
          page.js("document.getElementById('icicle').clientWidth"))
    equal(sorted(texts(page, "#usage-chart .keys li")), ["astro", "plasma", "quantum"])
    page.click("document.querySelector('#crumbs button')")
    found(page, query(bench, "demo", "SELECT count(*) FROM association_table")[0][0])
    # The root of what is seen leads one up.
    page.js("location.hash = 'bank=astro'")
    page.wait("document.querySelectorAll('#crumbs li').length === 3")
    page.click("document.querySelector('#icicle button')")
    assert page.wait("document.querySelectorAll('#crumbs li').length === 2"), "up"
    quiet(page)


@claim
def keys_lead_through_the_picture(bench):
    page = bench.open("demo")
    now = "document.activeElement.querySelector('b')?.textContent"
    equal(page.js("document.querySelectorAll('#icicle [tabindex=\"0\"]').length"), 1, "one stop for Tab")
    page.js("document.querySelector('#icicle [tabindex=\"0\"]').focus()")
    walk = [("ArrowDown", "physics"), ("ArrowRight", "chemistry"), ("ArrowDown", "catalysis"), ("ArrowUp", "chemistry"),
            ("End", "teaching"), ("Home", "physics"), ("ArrowLeft", "physics")]
    for key, name in walk:
        page.key(key)
        equal(page.js(now), name, key)
    assert "40 shares" in text(page, "#told"), text(page, "#told")
    page.key("Enter")
    page.wait("location.hash === '#bank=physics'")
    page.wait("document.querySelectorAll('#crumbs li').length === 2")
    equal(page.js(now), "physics", "the focus stays")
    page.key("ArrowDown")
    equal(page.js(now), "astro")
    page.key("Escape")
    assert page.wait("document.querySelectorAll('#crumbs li').length === 1"), "up"
    page.key("ArrowDown")
    for _ in range(2):
        page.key("ArrowDown")
    equal(page.js("document.activeElement.dataset.node >= banks.name.length"), True, "a user")
    page.key("Enter")
    assert page.wait("location.hash.startsWith('#user=') && !document.getElementById('person').hidden"), "the user's page"
    quiet(page)


@claim
def standings_are_sorted(bench):
    page = bench.open("demo")
    head = lambda key: f"document.querySelector('#standings-table th[data-key={key}] button')"
    # Of equal ones any may be the first.
    orders = [("user", "username"), ("user", "username DESC"), ("usage", "job_usage DESC"), ("usage", "job_usage"),
              ("shares", "shares DESC")]
    for key, sql in orders:
        page.click(head(key))
        wanted = [name for name, in query(bench, "demo", f"SELECT username FROM association_table ORDER BY {sql}")]
        if sql == "job_usage":
            unused = [name for name, in query(bench, "demo", "SELECT username FROM association_table WHERE job_usage = 0")]
            equal(sorted(names(page, len(unused))), sorted(unused), sql)
        elif key != "shares":
            equal(names(page, 3), wanted[:3], sql)
        sort = page.js(f"{head(key)}.closest('th').getAttribute('aria-sort')")
        equal(sort, "descending" if "DESC" in sql else "ascending", sql)
    column = texts(page, "#standings-table tbody td:nth-child(5)")
    equal([int(share) for share in column], sorted(map(int, column), reverse=True), "shares")
    equal(page.js("document.querySelectorAll('#standings-table th[aria-sort]').length"), 1)
    # In the order in which they would run, as another command has it.
    page.click(head("place"))
    shown = json.loads(bench.fairshare("show", "-p", bench.database("demo"), "--users-only", "--json"))["nodes"]
    ranked = sorted((node for node in shown if node["fairshare"] is not None), key=lambda node: -node["fairshare"])
    equal(texts(page, "#standings-table tbody td:nth-child(4)")[:12], [f"{node['fairshare']:.4f}" for node in ranked[:12]])
    quiet(page)


@claim
def standings_are_searched_and_filtered(bench):
    page = bench.open("demo")
    page.js("document.getElementById('search').focus()")
    page.type("AN")
    like = "SELECT count(*) FROM association_table WHERE username || ' ' || bank LIKE ?"
    found(page, query(bench, "demo", like, "%an%")[0][0])
    page.type(" astro")
    found(page, query(bench, "demo", like + " AND bank LIKE '%astro%'", "%an%")[0][0])
    page.js("document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'))")
    press(page, "document.querySelector('#filter input[value=unused]')")
    found(page, query(bench, "demo", "SELECT count(*) FROM association_table WHERE job_usage = 0")[0][0])
    press(page, "document.querySelector('#filter input[value=over]')")
    sums = "(SELECT sum({0}) FROM association_table b WHERE b.bank = a.bank)"
    over = f"SELECT count(*) FROM association_table a WHERE job_usage / {sums.format('job_usage')} > 1.0 * shares / {sums.format('shares')} * 1.000001"
    found(page, query(bench, "demo", over)[0][0])
    page.type("nobody of this name")
    page.js("document.getElementById('search').value = 'nobody of this name'; document.getElementById('search').dispatchEvent(new Event('input'))")
    found(page, 0)
    assert "Nobody" in text(page, "#standings-table .empty"), "and says so"
    quiet(page)


@claim
def long_standings_have_only_the_rows_in_sight(bench):
    page = bench.open("10000")
    rows = "document.querySelectorAll('#standings-table tbody tr:not(.pad)').length"
    assert page.js(rows) < 80, page.js(rows)
    equal(page.js("document.querySelector('.rows').getAttribute('aria-rowcount')"), "10001")
    page.js("document.querySelector('#standings-table .scroll').scrollTop = 1e9")
    last = "Array.from(document.querySelectorAll('#standings-table tbody tr[aria-rowindex]')).pop().getAttribute('aria-rowindex')"
    assert page.wait(f"{last} === '10001'"), page.js(last)
    assert page.js(rows) < 80, page.js(rows)
    page.js("document.querySelector('#standings-table .scroll').scrollTop = 0")
    page.wait("document.querySelector('tr[data-at=\"0\"] a')")
    page.js("document.querySelector('tr[data-at=\"0\"] a').focus()")
    for _ in range(40):
        page.key("ArrowDown")
    equal(page.js("document.activeElement.closest('tr')?.dataset.at"), "40", "the focus goes along")
    inside = page.js("""(() => { const row = document.activeElement.getBoundingClientRect();
        const box = document.querySelector('#standings-table .scroll').getBoundingClientRect();
        return row.top >= box.top && row.bottom <= box.bottom; })()""")
    assert inside, "and stays in sight"
    cells = page.js("document.querySelectorAll('#icicle > *').length")
    assert cells < 3000, f"the picture has {cells} parts"
    quiet(page)


@claim
def policies_are_compared(bench):
    page = bench.open("demo")
    for first, second in [("weighted-walk", "depth-oblivious"), ("weighted-walk", "classic"), ("depth-oblivious", "pbs")]:
        choose = """(() => { for (const [id, name] of Object.entries(%s)) { const s = document.getElementById(id);
            s.value = Array.from(s.options).find((o) => o.textContent === name).value; s.dispatchEvent(new Event('change')); } })()"""
        page.js(choose % json.dumps({"policy-from": first, "policy-to": second}))
        answer = json.loads(bench.fairshare("compare", "-p", bench.database("demo"), "--policies", f"{first},{second}", "--json"))
        told = text(page, "#compared")
        assert told.startswith(f"{answer['winners']} would gain, {answer['losers']} lose"), told
        rows = page.js("Array.from(document.querySelectorAll('#slopes .pair tbody tr'), (r) => Array.from(r.children, (c) => c.textContent))")
        top = answer["associations"][0]
        equal(rows[0][4], f"+{top['change']}")
        last = min(answer["associations"], key=lambda one: one["change"])
        equal(rows[-1][4], f"−{-last['change']}")
        places = {(one["user"], one["bank"]): [str(one["place_first"]), str(one["place_second"])] for one in answer["associations"]}
        for user, bank, before, after, _ in rows:
            equal([before, after], places[user, bank], user)
        equal(page.js("document.querySelectorAll('#slopes svg path').length"), len(rows), "a line for each")
    press(page, "document.querySelector('#policy-to')")
    page.js(choose % json.dumps({"policy-from": "weighted-walk", "policy-to": "fair-tree"}))
    assert "Nobody moves" in text(page, "#slopes"), text(page, "#slopes")
    quiet(page)


@claim
def usage_over_time_is_what_the_database_adds_up(bench):
    page = bench.open("demo")
    figure = lambda seconds: f"{seconds / 3600:,.0f}" if seconds >= 3.6e6 else f"{seconds / 3600:.2f}"
    for bank in ["root", "physics", "astro"]:
        page.js(f"location.hash = 'bank={bank}'")
        page.wait(f"focus.bank === banks.name.indexOf('{bank}')")
        rows = page.js("Array.from(document.querySelectorAll('#usage-chart tbody tr'), (r) => r.children[1].textContent)")
        sums = query(bench, "demo", below(bank) + """SELECT sum(value * (1 << period)) FROM job_usage_per_association_table
                     WHERE bank IN inside GROUP BY period ORDER BY period""")
        equal(rows, [figure(total) for total, in sums], bank)
    bars = page.js("document.querySelectorAll('#usage-chart svg rect').length")
    assert bars >= len(rows), bars
    quiet(page)


@claim
def a_user_has_a_page(bench):
    page = bench.open("demo")
    press(page, "Array.from(document.querySelectorAll('#standings-table tbody a')).find((a) => a.textContent === 'bela')")
    assert page.wait("!document.getElementById('person').hidden"), "it opens"
    equal((text(page, "#person h2"), page.js("document.activeElement.id")), ("bela", "person-title"))
    assert page.js("document.title").startswith("bela"), "and is named so"
    assert page.js("document.getElementById('overview').hidden"), "instead of the rest"
    page.js("history.back()")
    assert page.wait("!document.getElementById('overview').hidden"), "and back"
    # Dates and amounts are those of another command.
    compared = 0
    for user in ["ada", "bela", "rosa", "lin", "zoe"]:
        for bank, in query(bench, "demo", "SELECT bank FROM association_table WHERE username = ? ORDER BY bank", user):
            page.js(f"location.hash = 'user={user}'")
            page.wait(f"document.querySelector('#person h2')?.textContent === '{user}'")
            said = page.js(f"Array.from(document.querySelectorAll('#person section')).find((s) => s.getAttribute('aria-label').endsWith('/ {bank}')).textContent")
            why = " ".join(bench.fairshare("why", f"{user}/{bank}", "-p", bench.database("demo")).split())
            place = re.search(r"is (\d+\w\w)(?: \(tied[^)]*\))? of", why) or re.search(r"(\d+(?:st|nd|rd|th)) of", why)
            assert place.group(1) in said, f"{user}: {why[:200]}"
            back = re.search(r"used ([\d,.]+) node-hours would be the share.*?back there in [^(]*\((\d{4}-\d\d-\d\d)\)", why)
            assert bool(back) == ("Even again on" in said), f"{user}/{bank}: {why}"
            if back:
                assert f"Even again on {back.group(2)}" in said and back.group(1) in said, f"{said[:400]}: {why}"
                compared += 1
    assert compared >= 3, compared
    page.js("location.hash = 'user=nobody'")
    assert page.wait("document.querySelector('#person h2').textContent === 'No user nobody'"), "or says that there is none"
    quiet(page)


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


@claim
def held_jobs_are_shown_where_a_plugin_answered(bench):
    source = open(bench.html("demo"), encoding="utf-8").read()
    before, rest = source.split('id="data">', 1)
    data, after = rest.split("</script>", 1)
    document = json.loads(data)
    document["held"] = HELD
    with open(bench.path("held.html"), "w", encoding="utf-8") as file:
        file.write(before + 'id="data">' + json.dumps(document).replace("<", "\\u003c") + "</script>" + after)
    page = bench.open("held.html")
    rows = page.js("Array.from(document.querySelectorAll('#held-jobs .bars tbody tr'), (r) => [r.children[0].textContent, r.children[3].textContent])")
    equal(rows, [["max-run-jobs-queue", "6"], ["<img src=x onerror=window.hit=1>", "3"]])
    assert "9 jobs were held by limits and 40 pending, 12 running" in text(page, "#held-jobs"), text(page, "#held-jobs")
    equal(len(texts(page, "#held-jobs details tbody tr")), 2)
    page.js("location.hash = 'bank=physics'")
    assert page.wait("document.querySelectorAll('#held-jobs details tbody tr').length === 1"), "those below the bank"
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
    acts = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
    for name in [*sites.HOSTILE, "</style><script>window.hit=7</script>"]:
        page.js(f"location.hash = 'bank=' + encodeURIComponent({json.dumps('bank ' + name)})")
        page.js(f"location.hash = 'user=' + encodeURIComponent({json.dumps(name)})")
        page.wait("!document.getElementById('person').hidden")
        shown = page.js("document.body.innerText")
        assert not acts.search(shown), f"{name[:30]!r}: {acts.search(shown)}"
        title = text(page, "#person h2")
        if not acts.search(name) and name.strip() and not name.startswith("</style>"):
            equal(title, name)
    page.js("location.hash = ''")
    page.wait("document.getElementById('person').hidden")
    for key in ["user", "bank"]:
        page.click(f"document.querySelector('#standings-table th[data-key={key}] button')")
    page.js("document.getElementById('search').value = '<img'; document.getElementById('search').dispatchEvent(new Event('input'))")
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


def axe(bench):
    """The text of axe-core, from npm, of one version; None where it can't be had."""
    cache = os.path.join(bench.directory, "axe")
    script = os.path.join(cache, "package", "axe.min.js")
    if not os.path.exists(cache):
        os.mkdir(cache)
        try:
            subprocess.run(["npm", "pack", "--silent", AXE], cwd=cache, check=True, capture_output=True, timeout=120)
            archive = next(name for name in os.listdir(cache) if name.endswith(".tgz"))
            with tarfile.open(os.path.join(cache, archive)) as tar:
                tar.extract("package/axe.min.js", cache)
        except (OSError, subprocess.SubprocessError, StopIteration, KeyError):
            pass
    return open(script, encoding="utf-8").read() if os.path.exists(script) else None


def clean(bench, page):
    """What axe-core has to say against what is seen now; nothing where there is no axe-core."""
    script = axe(bench)
    if script is None:
        return []
    page.js("typeof axe === 'undefined' || delete window.axe")
    page.js(script + "\n;1")
    return page.js("""axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) =>
        `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).slice(0, 3).join(' | ')}`))""")


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
    """Measured and told; whether it is soon enough is asked where nothing else runs: --bench."""
    began = time.monotonic()
    page = bench.open("10000")
    took = time.monotonic() - began
    found(page, 10_000)
    quiet(page)
    return f"10,000 associations after {took:.2f} s"
