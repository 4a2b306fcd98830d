# SPDX-License-Identifier: LGPL-3.0-only
"""Tests the contents of the page against sums of the database and against other commands."""

import json
import re
import time

from asking import alone, below, claim, equal, found, names, press, query, quiet, search, text, texts


@claim
def opens_alone_and_says_nothing(bench):
    page = bench.open("demo")
    alone(page, bench.html("demo"))


@claim
def figures_are_those_of_the_database(bench):
    page = bench.open("demo")
    users, usage = query(bench, "demo", "SELECT count(*), sum(job_usage) FROM association_table")[0]
    tiles = page.js("Object.fromEntries(Array.from(document.querySelectorAll('#tiles > div'), (d) => Array.from(d.children, (e) => e.textContent)))")
    equal(tiles["Associations"], f"{users:,}")
    equal(tiles["Node-hours after decay"], f"{usage / 3600:,.0f}")
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
    # A click on the root of the drawing leads one level up.
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
    assert "40 shares" in text(page, "#description"), text(page, "#description")
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
    # Users with equal values may come in any order.
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
    # The users are in the order of "flux fairshare show".
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
    search(page, "")
    press(page, "document.querySelector('#filter input[value=unused]')")
    found(page, query(bench, "demo", "SELECT count(*) FROM association_table WHERE job_usage = 0")[0][0])
    press(page, "document.querySelector('#filter input[value=over]')")
    sums = "(SELECT sum({0}) FROM association_table b WHERE b.bank = a.bank)"
    over = f"SELECT count(*) FROM association_table a WHERE job_usage / {sums.format('job_usage')} > 1.0 * shares / {sums.format('shares')} * 1.000001"
    found(page, query(bench, "demo", over)[0][0])
    search(page, "nobody of this name")
    found(page, 0)
    assert "No association" in text(page, "#standings-table .empty"), "and says so"
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
    assert "No association moves" in text(page, "#slopes"), text(page, "#slopes")
    quiet(page)


def hours(seconds):
    return f"{seconds / 3600:,.0f}" if seconds >= 3.6e6 or seconds % 3600 == 0 else f"{seconds / 3600:.2f}"


def usage_by(page, title):
    page.js(f"""(() => {{ const s = document.getElementById('usage-by');
        s.value = Array.from(s.options).find((o) => o.textContent === {json.dumps(title)}).value; s.dispatchEvent(new Event('change')); }})()""")


def usage_of(page, bank):
    """Returns the heads and rows of the table of the drawing for a bank, the newest row first."""
    page.js(f"location.hash = 'bank={bank}'")
    page.wait(f"focus.bank === banks.name.indexOf('{bank}')")
    return texts(page, "#usage-chart thead th"), page.js("Array.from(document.querySelectorAll('#usage-chart tbody tr'), (r) => Array.from(r.children, (e) => e.textContent))")


def near(found, wanted, what):
    """Checks that hours are equal to the last shown digit; the page has seven digits of each number."""
    digits = 0 if "." not in found else 2
    number = float(found.replace(",", "").replace("< 0.01", "0.005"))
    assert abs(number - wanted / 3600) <= 0.5 * 10 ** -digits + 1e-6 * wanted / 3600 + 1e-4, f"{what}: {found} instead of {wanted / 3600}"


@claim
def usage_by_period_is_what_the_database_adds_up(bench):
    page = bench.open("demo")
    usage_by(page, "Half-life period")
    for bank in ["root", "physics", "astro"]:
        _, rows = usage_of(page, bank)
        sums = query(bench, "demo", below(bank) + """SELECT sum(value * (1 << period)) FROM job_usage_per_association_table
                     WHERE bank IN inside GROUP BY period ORDER BY period""")
        equal([row[1] for row in rows], [hours(total) for total, in sums], bank)
    bars = page.js("document.querySelectorAll('#usage-chart svg rect').length")
    assert bars >= len(rows), bars
    quiet(page)


# Usage of jobs in a period, from their records: nodes times seconds in the period. A job without a bank counts in the default bank.
OF_JOBS = """SELECT name, sum((cast(substr(ranks, 3) AS int) + 1) * (min(t_inactive, ?2) - max(t_run, ?1))) FROM (
    SELECT a.username AS name, a.bank AS own, j.* FROM jobs j JOIN association_table a
    ON a.userid = j.userid AND a.bank = coalesce(nullif(j.bank, ''), a.default_bank)) WHERE t_run < ?2 AND t_inactive > ?1 AND own IN inside"""


@claim
def usage_over_time_is_what_the_jobs_add_up(bench):
    page = bench.open("demo")
    equal(texts(page, "#usage-by option"), ["Day", "Half-life period"])
    for bank in ["root", "physics", "teaching"]:
        heads, rows = usage_of(page, bank)
        assert 50 <= len(rows) <= 60, len(rows)
        parts = [name for name, in query(bench, "demo", "SELECT bank FROM bank_table WHERE parent_bank = ?", bank)]
        whole = 0
        for row in rows:
            begin = time.mktime(time.strptime(row[0], "%Y-%m-%d"))
            midnights = begin, time.mktime(time.strptime(row[0], "%Y-%m-%d")[:2] + (int(row[0][-2:]) + 1, 0, 0, 0, 0, 0, -1))
            used = lambda of: query(bench, "demo", below(of) + OF_JOBS, *midnights)[0][1] or 0
            near(row[1], used(bank), f"{bank} on {row[0]}")
            whole += used(bank)
            for name, cell in list(zip(heads, row))[2:]:
                if name in parts:
                    near(cell, used(name), f"{name} on {row[0]}")
                elif not parts and not name.endswith("others"):
                    of_one = dict(query(bench, "demo", below(bank) + OF_JOBS + " GROUP BY name", *midnights)).get(name, 0)
                    near(cell, of_one, f"{name} on {row[0]}")
        # The total usage must equal the sum of the usages by period, before their decay.
        counted = query(bench, "demo", below(bank) + "SELECT sum(value * (1 << period)) FROM job_usage_per_association_table WHERE bank IN inside")[0][0]
        assert abs(whole / counted - 1) < 1e-9, f"{bank}: {whole} and {counted}"
    # The height of each column is proportional to the usage in its row of the table.
    high = page.js("""(() => { const sums = new Map(); document.querySelectorAll('#usage-chart svg rect').forEach((e) => {
        const x = e.getAttribute('x'); sums.set(x, (sums.get(x) || 0) + Number(e.getAttribute('height'))); }); return Array.from(sums.values()); })()""")
    column = [float(row[1].replace(",", "").replace("< 0.01", "0")) for row in rows if row[1] != "0"][::-1]
    equal(len(high), len(column), "columns")
    assert all(abs(height / max(high) - value / max(column)) < 1e-3 for height, value in zip(high, column)), "heights"
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
    # The dates and amounts on the page equal those that `why` prints.
    compared = 0
    for user in ["ada", "bela", "rosa", "lin", "zoe"]:
        for bank, in query(bench, "demo", "SELECT bank FROM association_table WHERE username = ? ORDER BY bank", user):
            page.js(f"location.hash = 'user={user}'")
            page.wait(f"document.querySelector('#person h2')?.textContent === '{user}'")
            said = page.js(f"Array.from(document.querySelectorAll('#person section')).find((s) => s.getAttribute('aria-label').endsWith('/ {bank}')).textContent")
            why = " ".join(bench.fairshare("why", f"{user}/{bank}", "-p", bench.database("demo")).split())
            place = re.search(r"is (\d+\w\w)(?: \(tied[^)]*\))? of", why) or re.search(r"(\d+(?:st|nd|rd|th)) of", why)
            assert place.group(1) in said, f"{user}: {why[:200]}"
            back = re.search(r"the share of [^.]* is ([\d,.]+) node-hours\..*?back at this share in [^(]*\((\d{4}-\d\d-\d\d)\)", why)
            assert bool(back) == ("Back at share on" in said), f"{user}/{bank}: {why}"
            if back:
                assert f"Back at share on {back.group(2)}" in said and back.group(1) in said, f"{said[:400]}: {why}"
                compared += 1
    assert compared >= 3, compared
    page.js("location.hash = 'user=nobody'")
    assert page.wait("document.querySelector('#person h2').textContent === 'No user nobody'"), "or says that there is none"
    quiet(page)


def course_of(page, user):
    """Returns the steps of the drawing, read from its axis, and the highest number of the axis."""
    page.js(f"location.hash = 'user={user}'")
    page.wait("!!document.querySelector('#person svg path.course')")
    assert f"The fair-share is lowered most at {user}" in text(page, "#person .even-again"), text(page, "#person .even-again")
    marks = page.js("""Array.from(document.querySelectorAll('#person svg text[text-anchor=end]:not(.strong)'),
        (e) => [Number(e.textContent.replace(/,/g, '')), Number(e.getAttribute('y')) - 4])""")
    (low, bottom), (high, top) = marks[0], marks[-1]
    drawn = [float(y) for y in re.findall(r"V([\d.]+)", page.js("document.querySelector('#person path.course').getAttribute('d')"))]
    even = float(page.js("document.querySelector('#person circle.gain').getAttribute('cy')"))
    assert any(abs(y - even) < 0.01 for y in drawn), f"the place where it is even is not on the course: {even} {drawn}"
    return [low + (bottom - y) / (bottom - top) * (high - low) for y in drawn], high


@claim
def usage_is_forgotten_as_the_database_says(bench):
    """Compares the steps with sums of the bins: usage decays by half each week and ends after eight weeks. Uncounted boundaries come first."""
    for site, due in [("demo", 0), ("late", 2)]:
        page = bench.open(site)
        user = "rosa"
        bins = query(bench, site, "SELECT period, value FROM job_usage_per_association_table WHERE username = ?", user)
        found, high = course_of(page, user)
        for step, hours in enumerate(found, due or 1):
            wanted = sum(value * 0.5 ** step for period, value in bins if period + step < 8) / 3600
            assert abs(hours - wanted) < 1e-3 * high, f"{site}: after {step} weeks {hours} instead of {wanted}"
        assert len(found) >= 3, found
        quiet(page)


@claim
def all_of_100_banks_are_listed_with_bars_scaled_to_the_largest(bench):
    page = bench.open("hundred")
    equal(page.js("document.querySelectorAll('#below tbody tr').length"), 12)
    equal(page.js("document.querySelector('#below caption').textContent"), "Directly below root, by share: the first 12 of 100")
    gap = "document.getElementById('show-all').getBoundingClientRect().top - document.querySelector('#below .scroll').getBoundingClientRect().bottom"
    assert page.js(gap) >= 8, page.js(gap)
    page.js("document.getElementById('show-all').click()")
    listed = page.js("Array.from(document.querySelectorAll('#below tbody th'), (e) => e.textContent)")
    equal(sorted(listed), sorted(bank for bank, in query(bench, "hundred", "SELECT bank FROM bank_table WHERE bank != 'root'")))
    equal(page.js("document.getElementById('show-all')"), None)
    # The largest share is 1.98 %, and its mark is at the end of its cell. The largest usage is 1.51 %, and its bar takes most of its cell.
    reach = page.js("""Array.from(document.querySelectorAll('#below .meter'), (e) => { const all = e.getBoundingClientRect().width;
        return Math.max(e.querySelector('i').getBoundingClientRect().width, e.querySelector('u').offsetLeft + 1) / all; })""")
    assert 0.95 < max(reach) <= 1.02 and min(reach) > 0.4, (min(reach), max(reach))


@claim
def tables_on_a_narrow_screen_show_the_key_columns_and_say_that_they_scroll(bench):
    page = bench.open("demo", 390, 844)
    for place, wanted in (("#below", ["Name", "Share", "Used", "Used / share"]), ("#standings-table", ["Place", "User", "Bank", "Fair-share"])):
        seen = page.js(f"""Array.from(document.querySelectorAll('{place} thead th')).filter((e) => e.getBoundingClientRect().right <= innerWidth
            && (e.querySelector('button') || e).scrollWidth <= e.clientWidth).map((e) => e.textContent)""")
        equal(seen, wanted)
        hint = f"getComputedStyle(document.querySelector('{place} .scroll'), '::before').content"
        assert "scroll sideways" in page.js(hint), page.js(hint)
        # The first column stays visible.
        left = page.js(f"""(() => {{ const box = document.querySelector('{place} .scroll'); box.scrollLeft = 1000;
            return box.querySelector('tbody th, tbody td:not([colspan])').getBoundingClientRect().left - box.getBoundingClientRect().left; }})()""")
        assert abs(left) < 1, left
    page.size(1280, 900)
    page.wait("!document.querySelector('#below .scroll.wider')")
