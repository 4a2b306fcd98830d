# SPDX-License-Identifier: LGPL-3.0-only
"""Measures the processor time of the job manager's thread for each message of a push of N associations. During that time other requests
wait. Receiving the message is included."""
import json
import sys

from bench import association, handle, show, used

n, size = int(sys.argv[1]), 500


def rpc(topic, text):
    """Returns the seconds of the job manager for one request, and the answer."""
    handle.rpc("job-manager.stats-get", {}).get()
    start = used()
    answer = handle.rpc(topic, text).get_str()
    handle.rpc("job-manager.stats-get", {}).get()
    return used() - start, answer


def call(method, payload):
    return rpc("job-manager.mf_priority." + method, json.dumps(payload))


def document(fairshare):
    records = [association(100000 + i, fairshare=fairshare) for i in range(n)]
    return dict(associations=records, queues=[], projects=[{"project": "*"}], banks=[], priority_factors=[])


def one_message(fairshare):
    return call("policy_update", document(fairshare))[0]


def in_parts(fairshare):
    """Returns the times of the longest request of a staged push and of its commit."""
    doc = document(fairshare)
    records = doc.pop("associations")
    begin, answer = call("policy_begin", {})
    push = json.loads(answer)["push"]
    parts = [call("policy_part", dict(doc, push=push, associations=[]))[0]]
    for at in range(0, n, size):
        parts.append(call("policy_part", {"push": push, "associations": records[at : at + size]})[0])
    commit, answer = call("policy_commit", {"push": push})
    assert json.loads(answer)["unchanged"] == 0
    return max(begin, commit, *parts), commit


def pages():
    longest, after = 0, None
    while True:
        cost, answer = call("associations", {"after": after, "limit": 1000})
        longest, after = max(longest, cost), json.loads(answer)["next"]
        if after is None:
            return longest


one_message(0.1)
query = json.dumps({"name": "mf_priority.so"})
show("the query, one document", rpc("job-manager.jobtap-query", query)[0])
show(f"policy_update of {n} associations, each changed", min(one_message(0.2), one_message(0.3)))
try:
    call("policy_abort", {"push": 0})
except OSError as exc:
    if exc.errno == 38:
        sys.exit(0)
longest, commit = min(in_parts(0.4), in_parts(0.5), in_parts(0.6))
show(f"the longest request of a push in parts of {size}", longest)
show("its commit", commit)
show("the longest of all pages of 1000 associations", pages())
