# SPDX-License-Identifier: LGPL-3.0-only
"""Reads the lists and results of cargo-mutants for mutants.sh: counts, samples, survivors and the table."""
import collections
import hashlib
import json
import os
import re
import sys

NOTICED, SURVIVED, UNVIABLE, SLOW = "CaughtMutant", "MissedMutant", "Unviable", "Timeout"
MOST = 3.0  # percent of the viable mutants that may survive


def find_module(name):
    """Returns the module that mutants.sh takes as an argument: a module of the engine, or fairshare."""
    crate, module = re.match(r"crates/(\w+)/src/(\w+)", name).groups()
    return module if crate == "engine" else crate


def make_key(name):
    """Returns the name of a mutant in the list of accepted survivors, without line and column."""
    return re.sub(r"^(\S+?):\d+:\d+: ", r"\1: ", name)


def make_pattern(names):
    """Returns a regular expression of cargo-mutants for exactly these mutants."""
    return "|".join("^" + re.sub(r"([\\.+*?()|\[\]{}^$&#~-])", r"\\\1", name) + "$" for name in names)


def read_outcomes(directory):
    path = os.path.join(directory, "mutants.out", "outcomes.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as stream:
        found = json.load(stream)["outcomes"]
    return {o["scenario"]["Mutant"]["name"]: o["summary"] for o in found if isinstance(o["scenario"], dict)}


def read_accepted(path):
    """Returns the accepted survivors. The lines above a group give its reason; a group without a reason is refused."""
    result, reason = [], False
    with open(path, encoding="utf-8") as stream:
        for line in stream.read().splitlines():
            if line.startswith("#"):
                reason = True
            elif not line.strip():
                reason = False
            elif not reason:
                sys.exit(f"{path}: no reason is given for {line}")
            else:
                result.append(line.strip())
    return result


def print_table(out, path):
    first, second = read_outcomes(os.path.join(out, "first")), read_outcomes(os.path.join(out, "second"))
    merged = {name: second.get(name, summary) for name, summary in first.items()}
    counts = collections.defaultdict(collections.Counter)
    for name, summary in merged.items():
        counts[find_module(name)][summary] += 1
    is_bad = False
    print("| module | mutants | unviable | killed | timed out | survived | % of viable |")
    print("|---|---|---|---|---|---|---|")
    for name, count in sorted(counts.items()):
        viable = sum(count.values()) - count[UNVIABLE]
        share = 100.0 * count[SURVIVED] / viable if viable else 0.0
        is_bad |= share > MOST
        row = [name, sum(count.values()), count[UNVIABLE], count[NOTICED], count[SLOW], count[SURVIVED], f"{share:.1f}"]
        print("| " + " | ".join(map(str, row)) + " |")
    known = read_accepted(path)
    survived = {make_key(name) for name, summary in merged.items() if summary == SURVIVED}
    tested = {make_key(name) for name, summary in merged.items() if summary != UNVIABLE}
    for name in sorted(n for n, summary in merged.items() if summary == SURVIVED and make_key(n) not in known):
        print(f"survived, and is not accepted: {name}")
        is_bad = True
    for name in sorted(set(known) & tested - survived):
        print(f"accepted as a survivor, and was noticed: {name}")
        is_bad = True
    return 1 if is_bad else 0


def main():
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "table":
        return print_table(*rest)
    if what == "survivors":
        print(make_pattern(name for name, summary in read_outcomes(rest[0]).items() if summary == SURVIVED))
        return 0
    with open(rest[0], encoding="utf-8") as stream:
        names = [mutant["name"] for mutant in json.load(stream)]
    if what == "count":
        for name, count in sorted(collections.Counter(map(find_module, names)).items()):
            print(f"{name} {count}")
    elif what == "sample":
        of_100 = [name for name in names if int(hashlib.sha256(make_key(name).encode()).hexdigest(), 16) % 100 < int(rest[1])]
        print(make_pattern(of_100))
    return 0


if __name__ == "__main__":
    sys.exit(main())
