#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the cost of growing numbers of jobs and associations with several plugins in one run. Prints a Markdown table, and writes plots
# in SVG and the raw figures.
# usage: scale.sh PLUGIN.so [UPSTREAM.so] [nothing]   (JOBS="1000 10000 50000", LEAVES="1000 10000 100000",
#        ONE=1000 associations while the number of jobs grows, and ONE jobs while the number of associations grows,
#        SECONDS_MOST=60: time limit of a drain, RESTART_MOST=900: time limit of a restart, BROKERS=1,
#        OUT=scale: name of the files .md, .svg and .jsonl)
# NAMES="a b" names the plugins (default: flux-fairshare flux-accounting). With NESTED=1 the instances are batch jobs (flux batch)
# of a parent instance, and a restart includes the start of the batch job. Jobs have one core and are not executed.

. "$(dirname "$0")/lib.sh"
out=${OUT:-scale} one=${ONE:-1000} most=${SECONDS_MOST:-60} brokers=${BROKERS:-1}
read -ra names <<<"${NAMES:-flux-fairshare flux-accounting}"
: >"$out.jsonl"
meter
export PYTHONPATH=$bench FLUX_DISABLE_JOB_CLEANUP=t
# When 50,000 jobs get a new priority, job-list is busy for minutes with any plugin, and the end of the
# instance waits for job-list. This time is not part of the measurement, so job-list is not loaded.
export FLUX_MODPROBE_DISABLE=job-list

limit=()
# instance STATE CONF COMMAND: runs a command in an instance with a state directory. The instance has one
# broker or several, or is a batch job.
instance() {
	local options=(-c"$2" -Slog-stderr-level=0 -Sstatedir="$1")
	if [ -n "${NESTED:-}" ]; then
		printf '#!/bin/bash\ntest "$(flux getattr instance-level)" = 1 && %s\n' "$3" >"$work/batch.sh"
		"${limit[@]}" flux start bash -c "id=\$(flux batch -N1 --output=$work/batch.out ${options[*]/#/--broker-opts=} $work/batch.sh) &&
			flux job attach \$id 2>/dev/null" || { cat "$work/batch.out" >&2; return 1; }
		cat "$work/batch.out" >&2
	elif [ "$brokers" != 1 ]; then
		"${limit[@]}" flux start --test-size="$brokers" "${options[@]}" bash -c "test \"\$(flux getattr size)\" = $brokers && $3"
	else
		"${limit[@]}" flux start "${options[@]}" bash -c "$3"
	fi
}

# given_up STATUS: if STATUS is 124 or 137, reports that `timeout` has ended the restart. Otherwise exits with STATUS.
given_up() {
	case $1 in
	124 | 137) echo "   restart: not over in ${RESTART_MOST:-900} s" >&2 ;;
	*) echo "   restart: failed with status $1" >&2 && exit "$1" ;;
	esac
}

# name N PLUGIN: prints the name of the Nth plugin.
name() { if [ "$2" = nothing ]; then echo nothing; else echo "${names[$1]}"; fi; }

# run NAME PLUGIN JOBS LEAVES: measures two instances, and restarts the first.
run() {
	local so state=$work/state conf=$work/conf.json loaded=$work/loaded.json
	local step="flux python $bench/scale.py"
	so=$(path_of "$2") || exit
	rm -rf "$state" && mkdir "$state"
	write_conf
	sed "s#\(\"remove\": \".priority-default\"\)}#\1}, {\"load\": \"$so\"}#" "$conf" >"$loaded"
	echo "-- $1: $3 jobs, $4 associations" >&2
	instance "$state" "$conf" "flux jobtap load $work/meter.so && flux jobtap load $so && $step fill $1 $3 $4 $out.jsonl"
	limit=(timeout -k 5 "${RESTART_MOST:-900}")
	instance "$state" "$loaded" "$step restarted $1 $3 $4 $out.jsonl $(date +%s.%N)" || given_up $?
	limit=()
	rm -rf "$state" && mkdir "$state"
	[ "$4" != "$one" ] || instance "$state" "$conf" "flux jobtap load $so && $step drain $1 $3 $4 $out.jsonl $most"
}

for jobs in ${JOBS-1000 10000 50000}; do
	n=0
	for so; do run "$(name "$n" "$so")" "$so" "$jobs" "$one"; n=$((n + 1)); done
done
for leaves in ${LEAVES-1000 10000 100000}; do
	[ "$leaves" != "$one" ] || continue # the loop over JOBS measures this size
	n=0
	for so; do run "$(name "$n" "$so")" "$so" "$one" "$leaves"; n=$((n + 1)); done
done
flux python "$bench/plots.py" "$out.jsonl" "$out.svg" "$one" | tee "$out.md"
