#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures how much the eventlogs grow on a steady site with live fair-share, for each ranking policy. Compares two settings: the plugin posts only
# priorities at the head of the queue, or every changed priority.
# usage: growth.sh PLUGIN.so   (N=20000 pending jobs, NODES=3000, REFRESH=30 seconds, REFRESHES=4, POLICIES: all)

. "$(dirname "$0")/lib.sh"
nodes=${NODES:-3000}
write_conf() {
	cat >"$work/conf.json" <<-END
	{"fake-resources": {"nnodes": $nodes, "cores-per-node": 1}, "exec": {"testexec": {"allow-guests": true}},
	 "ingest": {"validator": {"disable": true}},
	 "job-manager": {"plugins": [{"remove": ".priority-default"}]}}
	END
}
time_plugins growth.py "${N:-20000}" "$nodes" "${REFRESH:-30}" "${REFRESHES:-4}" ${POLICIES:-} -- "$@"
