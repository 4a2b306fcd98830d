# SPDX-License-Identifier: LGPL-3.0-only
# Functions of the timing scripts. They start a quiet instance with the plugin, and print a table row for each measurement.
#
# Each script: t/bench/NAME.sh PLUGIN.so... | nothing   (several plugins are measured alternately, in one run)
set -eu
bench=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset FLUX_URI
[ $# -gt 0 ] || { sed -n '3,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
command -v flux >/dev/null || { echo "flux is not on PATH" >&2; exit 2; }

# path_of NAME: prints the path of a plugin. For three names, it builds a plugin against flux-core's headers: "nothing" (nothing.c), "floor"
# (floor.c), and "events" (floor.c with EVENTS_ALONE).
path_of() {
	local dir source
	dir=$(mktemp -d "$work/so.XXXX")
	case $1 in
	nothing) source=(nothing.c) ;;
	floor) source=(floor.c) ;;
	events) source=(-DEVENTS_ALONE floor.c) ;;
	*) ln -s "$(realpath "$1")" "$dir/mf_priority.so" ;;
	esac
	if [ -n "${source:-}" ]; then
		(cd "$bench" && cc -O2 -fPIC -shared $(pkg-config --cflags flux-core) -o "$dir/mf_priority.so" "${source[@]}") >&2 || return
	fi
	echo "$dir/mf_priority.so"
}

# meter: builds the plugin $work/meter.so. Sets the C library so that each thread of a broker has its own arena, also for large allocations.
meter() {
	cc -O2 -fPIC -shared $(pkg-config --cflags flux-core) -o "$work/meter.so" "$bench/meter.c" >&2
	export GLIBC_TUNABLES=glibc.malloc.arena_max=200:glibc.malloc.mmap_threshold=33554432
}

# The configuration of the instances.
write_conf() {
	cat >"$work/conf.json" <<-EOF
	{"fake-resources": {"nnodes": 4, "cores-per-node": ${CORES:-4}}, "exec": {"testexec": {"allow-guests": true}},
	 "ingest": {"validator": {"disable": true}},
	 "job-manager": {"plugins": [{"remove": ".priority-default"}]}}
	EOF
}

# time_plugins SCRIPT.py ARGS -- PLUGIN...: runs the Python script in a new instance for each plugin.
time_plugins() {
	local script=$1 args=() so p
	shift
	while [ "$1" != -- ]; do args+=("$1"); shift; done
	shift
	write_conf
	for p; do
		so=$(path_of "$p") || exit
		echo "-- $p"
		FLUX_DISABLE_JOB_CLEANUP=t flux start -c "$work/conf.json" -Slog-stderr-level=0 \
			bash -c "flux jobtap load $so && PYTHONPATH=$bench flux python $bench/$script ${args[*]}"
	done
}

# start_plugins PLUGIN...: starts a new instance for each plugin, all at once; the array sites gets "NAME URI" of each.
start_plugins() {
	local so p n=0
	write_conf
	sites=() instances=()
	for p; do
		so=$(path_of "$p") || exit
		n=$((n + 1))
		mkfifo "$work/leash.$n"
		FLUX_DISABLE_JOB_CLEANUP=t flux start -c "$work/conf.json" -Slog-stderr-level=0 bash -c \
			"flux jobtap load $so && flux getattr local-uri >$work/uri.part && mv $work/uri.part $work/uri.$n && cat $work/leash.$n" &
		instances+=($!)
		eval "exec $((20 + n))<>$work/leash.$n"
		while ! test -s "$work/uri.$n"; do kill -0 "${instances[-1]}" || exit; sleep 0.1; done
		sites+=("$p" "$(cat "$work/uri.$n")")
	done
}
stop_plugins() {
	local n
	for n in $(seq ${#instances[@]}); do eval "exec $((20 + n))>&-"; done
	wait "${instances[@]}" || true
}
