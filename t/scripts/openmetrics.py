#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Reads the metrics as a monitoring system does.

usage: openmetrics.py METRICS ETC   METRICS is the output of "flux fairshare metrics", ETC the directory of dashboard and alerts

Uses the parser of prometheus_client, which is installed from PyPI into a directory of its own if it is missing. Each metric and label in
the dashboard and the alerts must exist in METRICS. If promtool is installed, it checks and tests the alerts too.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pypi

# Labels that the scrape adds.
ADDED = {"instance", "job"}
# Metrics of node_exporter about the files that it collects, with their labels.
COLLECTED = {"node_textfile_mtime_seconds": {"file"}}
# Words of PromQL that look like a metric or a label.
WORDS = {"sum", "by", "rate", "deriv", "on", "and", "or", "absent", "label_values", "time"}
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"


def find_metrics(expression):
    """Returns the metrics of an expression with their labels, and all other labels of the expression."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    metrics = {}
    for name, labels in re.findall(rf"({NAME})\s*\{{([^}}]*)\}}", text):
        metrics.setdefault(name, set()).update(re.findall(rf"({NAME})\s*[=!]", labels))
    rest = re.sub(r"\{[^}]*\}|\[[^]]*\]", " ", text)
    grouped = set()
    for labels in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", rest):
        grouped.update(re.findall(NAME, labels))
    rest = re.sub(r"\b(?:by|on|without)\s*\([^)]*\)", " ", rest)
    for name in re.findall(rf"(?<![\w.]){NAME}", rest):
        if name not in WORDS:
            metrics.setdefault(name, set())
    return metrics, grouped


def check_display(title, shown):
    """Checks value mappings and thresholds: Grafana ignores an invalid one without a message."""
    for mapping in shown.get("mappings", []):
        if mapping["type"] == "value":
            assert all(float(value) >= 0 and result["text"] and result["color"] for value, result in mapping["options"].items()), title
        else:
            assert mapping["type"] == "special" and mapping["options"]["match"] == "null+nan" and mapping["options"]["result"]["text"], title
    if "thresholds" in shown:
        first, *others = shown["thresholds"]["steps"]
        values = [step["value"] for step in others]
        assert shown["thresholds"]["mode"] == "absolute" and first["value"] is None and values and values == sorted(set(values)), title
        assert all(step["color"] in ("green", "yellow", "red") for step in [first, *others]), title


def list_expressions(etc):
    """Returns each expression of the dashboard and the alerts with its place and the labels of its legend."""
    board = json.loads((etc / "grafana" / "flux-fairshare.json").read_text())
    places = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not places & cells and place["x"] + place["w"] <= 24, f"{panel['title']} lies on another panel"
        places |= cells
        assert panel["targets"], panel["title"]
        check_display(panel["title"], panel["fieldConfig"]["defaults"])
        for target in panel["targets"]:
            assert re.findall(r"\[(.*?)\]", target["expr"]) in ([], ["$__rate_interval"], ["$__rate_interval"] * 2), target["expr"]
            yield f"panel {panel['title']}", target["expr"], set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
            yield f"variable {variable['name']}", metric, {label}
    rules = (etc / "prometheus" / "flux-fairshare.rules.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)\n\s+expr: (.*)\n\s+for: (\w+)\n\s+labels: \{severity: (\w+)\}\n\s+annotations:\n"
                        r"\s+summary: (\S.*)\n\s+description: \S", rules)
    assert len(alerts) == rules.count("- alert:") > 0, "each alert has an expression, a time, a severity, and says what to do"
    for name, expression, _, severity, summary in alerts:
        assert severity in ("info", "warning", "critical"), name
        # The value of an alert is the value of the first metric in its expression. For humanizeDuration, this metric must be in seconds.
        assert "humanizeDuration" not in summary or re.match(r"\w+_seconds\b", expression), f"{name} shows no time: {expression}"
        yield f"alert {name}", expression, set()


def check_rules(path):
    try:
        import yaml
        groups = yaml.safe_load(path.read_text())["groups"]
        assert all(rule["expr"] and rule["annotations"]["summary"] for group in groups for rule in group["rules"])
    except ImportError:
        print("!! SKIPPED: the alerts are not read as YAML: no PyYAML", file=sys.stderr)
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", str(path)], check=True)
        tests = pathlib.Path(__file__).parent.parent / "data" / "alerts.yml"
        subprocess.run(["promtool", "test", "rules", str(tests)], check=True)
    else:
        print("!! SKIPPED: promtool is not there to check the alerts", file=sys.stderr)


def main():
    text, etc = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
    found = pypi.get("prometheus_client.openmetrics.parser", "prometheus_client", "OpenMetrics parser")
    labels = {}
    if found:
        for family in found.text_string_to_metric_families(text):
            assert family.documentation, family.name
            for sample in family.samples:
                labels.setdefault(sample.name, set()).update(sample.labels)
    else:
        for name, pairs in re.findall(rf"^({NAME})(?:\{{(.*)\}})? ", text, re.M):
            labels.setdefault(name, set()).update(re.findall(rf'({NAME})="', pairs))
    labels.update(COLLECTED)
    count = 0
    for where, expression, named in list_expressions(etc):
        metrics, grouped = find_metrics(expression)
        known = set().union(ADDED, *(labels.get(metric, set()) for metric in metrics))
        for metric, wanted in metrics.items():
            assert metric in labels, f"{where}: there is no {metric}"
            assert wanted <= labels[metric] | ADDED, f"{where}: {metric} has no label {wanted - labels[metric]}"
        assert named | grouped <= known, f"{where}: no label {(named | grouped) - known}"
        count += 1
    check_rules(etc / "prometheus" / "flux-fairshare.rules.yml")
    print(f"{len(labels) - len(COLLECTED)} metrics read by {'prometheus_client' if found else 'a pattern'}, {count} expressions answered")


main()
