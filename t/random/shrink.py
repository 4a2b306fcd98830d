# SPDX-License-Identifier: LGPL-3.0-only
"""Shrinks a history that shows a difference to a short one that shows the same kind of difference."""
import copy
import re


def kind_of(text):
    """Returns the kind of a difference: its text without jobs and numbers."""
    return re.sub(r"j\d+|\d+", "#", text.split("\n")[0])[:60]


def shrink(script, find_difference, until, say=lambda text: None):
    """Returns the shortest script found before `until()` is true; `find_difference(script)` returns the kind of difference, or None.

    The script must end with the difference. Pieces of halving size are removed first, then single steps, then jobs of a batch and optional
    parts of steps.
    """
    wanted = find_difference(script)
    if wanted is None:
        return script

    def is_still_failing(candidate):
        return not until() and find_difference(candidate) == wanted

    script = remove_pieces(script, is_still_failing, say)
    while True:
        before = len(script["steps"])
        script = simplify(script, is_still_failing, say)
        script = remove_pieces(script, is_still_failing, say)
        if until() or len(script["steps"]) == before:
            return script


def with_steps(script, steps):
    return dict(script, steps=steps)


def remove_pieces(script, is_still_failing, say):
    size = max(1, len(script["steps"]) // 2)
    while True:
        at, is_shorter = 0, False
        while at < len(script["steps"]):
            steps = script["steps"]
            candidate = with_steps(script, steps[:at] + steps[at + size:])
            if len(candidate["steps"]) < len(steps) and is_still_failing(candidate):
                script, is_shorter = candidate, True
                say(f"{len(script['steps'])} steps")
            else:
                at += size
        if size == 1 and not is_shorter:
            return script
        size = max(1, size // 2)


def simplify(script, is_still_failing, say):
    """Removes parts of steps and of the first document that the difference does not need."""
    for path in list(list_removable(script)):
        candidate = copy.deepcopy(script)
        if remove(candidate, path) and is_still_failing(candidate):
            script = candidate
            say(f"without {path[-1]}")
    return script


def list_removable(script):
    """Returns paths to records, keys and jobs of batches, last first so that indices stay valid."""
    documents = [("document",)]
    for index, step in enumerate(script["steps"]):
        for at in reversed(range(len(step.get("batch", ())))):
            yield ("steps", index, "batch", at)
        for key in ("push", "data", "policy", "parts", "config", "reload", "load", "restart", "rush"):
            if isinstance(step.get(key), dict):
                documents.append(("steps", index, key))
        if "submit" in step:
            for key in sorted(set(step) - {"submit", "user", "queue"}):
                yield ("steps", index, key)
    for path in documents:
        document = follow(script, path)
        for kind in ("associations", "queues", "limits"):
            if not isinstance(document.get(kind), list):
                continue
            for at in reversed(range(len(document[kind]))):
                yield path + (kind, at)
                for key in sorted(set(document[kind][at]) - {"userid", "bank", "queue", "queues", "scope", "name"}):
                    yield path + (kind, at, key)
        for kind in ("banks", "priority_factors", "config"):
            if kind in document:
                yield path + (kind,)


def follow(script, path):
    at = script
    for key in path:
        at = at[key]
    return at


def remove(script, path):
    try:
        parent = follow(script, path[:-1])
        if path[-1] in ("banks", "priority_factors") and path[0] != "document":
            parent[path[-1]] = []
        else:
            del parent[path[-1]]
        return True
    except (KeyError, IndexError):
        return False
