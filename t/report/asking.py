# SPDX-License-Identifier: LGPL-3.0-only
"""Asking a page: what the claims in content.py and manners.py are made of."""

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


# What does something where text is shown: controls, separators, and marks that turn the direction of writing.
ACTS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def alone(page, path):
    """A page that needs nothing else, says nothing on the console, and lets nobody else's script run."""
    page.js("new Promise((done) => setTimeout(done, 300))")
    quiet(page)
    source = open(path, encoding="utf-8").read()
    head = source.split("<script", 1)[0]
    assert "default-src 'none'" in head and "unsafe" not in head, "a strict policy"
    equal(re.findall(r"""\b(?:src|href)\s*=\s*["'](?!#)""", head + source.rsplit("</script>", 1)[1]), [], "references")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", source), "no address of anybody else"
    # The policy is at work: what is put in by others does not run.
    page.js("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
    equal(page.js("window.ran"), None, "a script of others")


def search(page, words, field="search"):
    """What is typed over all that is in a field."""
    page.js(f"(() => {{ const e = document.getElementById({json.dumps(field)}); e.value = {json.dumps(words)}; e.dispatchEvent(new Event('input')); }})()")


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
