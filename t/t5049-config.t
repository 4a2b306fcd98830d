#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare config check accepts a configuration if and only if Flux starts with it'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"

# check_config STATUS: checks the exit status of "config check" for conf.d, and that Flux starts only if it is 0.
check_config() {
	test_expect_code "$1" flux fairshare config check conf.d >out 2>err || { cat out err; return 1; }
	cat out
	if test "$1" -eq 0; then
		flux start -c conf.d -Slog-stderr-level=3 true 2>start.err || { cat start.err; return 1; }
	else
		! flux start -c conf.d -Slog-stderr-level=3 true 2>start.err || { echo "Flux starts with it"; return 1; }
	fi
}
# write_fragment NAME: writes a file of conf.d from standard input.
write_fragment() { cat >"conf.d/$1.toml"; }
# write_conf_dir FRAGMENT: makes conf.d with the plugin, two queues and this fragment.
write_conf_dir() {
	rm -rf conf.d && mkdir conf.d &&
	write_fragment 10-plugin <<-END &&
	[job-manager]
	plugins = [ { remove = ".priority-default", load = "$PLUGIN" } ]
	END
	printf '[queues.batch]\n[queues.debug]\n' | write_fragment 20-queues && printf "$1\n" | write_fragment 30-fairshare
}

test_expect_success 'Flux starts with a configuration that the check accepts' '
	write_conf_dir "[fairshare]\nrefresh = \"30s\"\nweights = { age = 1000 }" && check_config 0 &&
	write_conf_dir "[fairshare.queues.batch]\nrunning-limits = \"strict\"" && check_config 0 &&
	write_conf_dir "[[fairshare.limits]]\nscope = \"bank\"\nname = \"chem\"\nrun-gpus = 4" && check_config 0 &&
	write_conf_dir "[other]\nkey = 1979-05-27T07:32:00Z" && check_config 0
'
while IFS='|' read -r name text said; do
	test_expect_success "Flux does not start with a configuration that the check refuses: $name" '
		write_conf_dir "$text" && check_config 1 && grep -F "conf.d/30-fairshare.toml: $said" out
	'
done <<'END'
an unknown key|[fairshare]\nrefesh = 3|fairshare.refesh: unknown key
a duration that is none|[fairshare]\nrefresh = "often"|fairshare.refresh: expected 0 to 36600 days, in seconds or as a duration such as "30s", "2h" or "7d", got "often"
a duration out of range|[fairshare]\nrefresh = -1|fairshare.refresh: expected 0 to 36600 days, in seconds or as a duration such as "30s", "2h" or "7d", got integer -1
a weight that is text|[fairshare.weights]\nage = "3"|fairshare.weights.age: expected an integer of 64 bits, got "3"
an unknown measure|[[fairshare.limits]]\nscope = "bank"\nname = "chem"\ngpus = 4|fairshare.limits[0].gpus: unknown key
a queue that is not there|[fairshare.queues.bach]\nrunning-limits = "strict"|fairshare.queues.bach: no such queue; known are batch, debug
a table that is none|fairshare = 3|[fairshare]: expected a table, got integer 3
a syntax error|[fairshare]\nrefresh = = 3|line 2: not TOML
a number that Flux does not read|[fairshare]\nrefresh = nan|contains the number NaN
END
test_expect_success 'Flux does not start with a configuration that the check refuses: an option at load' '
	write_conf_dir "[fairshare]\nrefresh = 5" && write_fragment 40-load <<-END &&
	[job-manager]
	plugins = [ { remove = ".priority-default", load = "$PLUGIN", conf = { annotate = 0 } } ]
	END
	check_config 1 && grep "conf.d/40-load.toml: job-manager.plugins: annotate: expected true or false, got integer 0" out
'
test_expect_success 'Flux starts with a setting of an earlier version, and the check and the plugin warn of the key' '
	write_conf_dir "[fairshare]\nrefresh = 7\ndepth = 100" && check_config 0 2>err && grep "conf.d/30-fairshare.toml: fairshare.depth: no longer a setting, ignored: remove it" err
'
test_expect_success 'a later file takes precedence, as in Flux' '
	write_conf_dir "[fairshare]\nrefresh = \"often\"" && printf "[fairshare]\nrefresh = 5\n" | write_fragment 40-later && check_config 0
'
test_expect_success 'files that do not end in .toml are ignored, as by Flux' '
	write_conf_dir "[fairshare]\nrefresh = 5" && printf "[fairshare]\nrefesh = 5\n" >conf.d/50-old.toml.bak && check_config 0
'
test_done
