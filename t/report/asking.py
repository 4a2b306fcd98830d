# SPDX-License-Identifier: LGPL-3.0-only
"""Functions that read and operate a page, for the tests in content.py and manners.py."""

import json
import os
import re
import sqlite3
import subprocess
import tarfile

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


# Characters with an effect on displayed text: controls, separators, and marks that change the direction of writing.
ACTS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def alone(page, path):
    """Checks that a page needs no other file, prints nothing on the console, and runs no foreign script."""
    page.js("new Promise((done) => setTimeout(done, 300))")
    quiet(page)
    source = open(path, encoding="utf-8").read()
    head = source.split("<script", 1)[0]
    assert "default-src 'none'" in head and "unsafe" not in head, "a strict policy"
    equal(re.findall(r"""\b(?:src|href)\s*=\s*["'](?!#)""", head + source.rsplit("</script>", 1)[1]), [], "references")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", source), "no address of anybody else"
    # The content security policy works: an inserted script does not run.
    page.js("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
    equal(page.js("window.ran"), None, "a script of others")


def search(page, words, field="search"):
    """Replaces the text of a field by typing."""
    page.js(f"(() => {{ const e = document.getElementById({json.dumps(field)}); e.value = {json.dumps(words)}; e.dispatchEvent(new Event('input')); }})()")


def equal(found, wanted, what=""):
    assert found == wanted, f"{what} {str(found)[:300]} instead of {str(wanted)[:300]}".strip()


def text(page, selector):
    return page.js(f"document.querySelector({json.dumps(selector)}).textContent")


def texts(page, selector):
    return page.js(f"Array.from(document.querySelectorAll({json.dumps(selector)}), (e) => e.textContent)")


def names(page, number=8):
    """Returns the first users of the standings."""
    return texts(page, "#standings-table tbody th a")[:number]


def found(page, wanted):
    """Waits until the standings show the expected number of associations."""
    page.wait(f"/^{wanted:,}( |$)/.test(document.getElementById('found').textContent)", 20)
    told = text(page, "#found")
    equal(int(re.match(r"[\d,]+", told).group().replace(",", "")), wanted, told)


def press(page, expression):
    page.js(f"{expression}.click()")


def below(bank):
    return f"""WITH RECURSIVE inside(bank) AS (VALUES ('{bank}') UNION SELECT bank_table.bank FROM bank_table
               JOIN inside ON parent_bank = inside.bank)"""


def axe(bench):
    """Returns the text of axe-core of a fixed version from npm, or None if it cannot be downloaded."""
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
    """Returns the complaints of axe-core about the page as it is now, or none without axe-core."""
    script = axe(bench)
    if script is None:
        return []
    page.js("typeof axe === 'undefined' || delete window.axe")
    page.js(script + "\n;1")
    return page.js("""axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) =>
        `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).slice(0, 3).join(' | ')}`))""")
