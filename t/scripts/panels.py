#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Runs the query of each panel of the dashboard, and the expression of each alert, in a Prometheus that scrapes the metrics.

usage: panels.py URL ETC   URL serves the metrics, ETC is the directory of dashboard and alerts. Needs prometheus on PATH.

The dashboard must have queries, and each query must return data. Expressions of alerts must be valid, and may return nothing.
"""
import json
import math
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

# Replacements for the variables of the dashboard.
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$bank": ".*"}


def list_queries(etc):
    """Returns place, expression and whether the result must have data."""
    for panel in json.loads((etc / "grafana" / "flux-fairshare.json").read_text())["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield f"panel {panel['title']}", text, True
    rules = (etc / "prometheus" / "flux-fairshare.rules.yml").read_text()
    for name, text in re.findall(r"- alert: (\w+)\n\s+expr: (.*)\n", rules):
        yield f"alert {name}", text, False


def query(port, text):
    address = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
    with urllib.request.urlopen(address, timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def wait_for_samples(port):
    """Waits until Prometheus has four samples of a metric, so that rates exist."""
    for _ in range(300):
        try:
            found = query(port, "count_over_time(flux_fairshare_up[1m])")
            if found and int(found[0]["value"][1]) >= 4:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit("Prometheus has no samples")


def main():
    url, etc = urllib.parse.urlsplit(sys.argv[1]), pathlib.Path(sys.argv[2])
    queries = list(list_queries(etc))
    assert any(needs_data for _, _, needs_data in queries), "the dashboard has no panels"
    assert not all(needs_data for _, _, needs_data in queries), "there are no alerts"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as room:
        scrape = {"job_name": "flux", "metrics_path": url.path, "static_configs": [{"targets": [url.netloc]}]}
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
        pathlib.Path(room, "prometheus.yml").write_text(json.dumps(config))
        server = subprocess.Popen(
            ["prometheus", f"--config.file={room}/prometheus.yml", f"--storage.tsdb.path={room}/data", f"--web.listen-address=127.0.0.1:{port}"],
            stderr=subprocess.DEVNULL)
        try:
            wait_for_samples(port)
            empty = []
            for where, text, needs_data in queries:
                found = query(port, text)
                numbers = [float(one["value"][1]) for one in found]
                print(f"{where}: {len(found)} series: {text}")
                if needs_data and not any(math.isfinite(number) for number in numbers):
                    empty.append(where)
        finally:
            server.terminate()
            server.wait()
    assert not empty, f"no data: {empty}"


main()
