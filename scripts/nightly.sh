#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs all tests in their long form: one step after the other, even after a failure. Prints a table of the steps with their verdicts, and
# exits with 1 if one of those that ran failed. Logs and the table are in out/nightly/. Called by `make nightly` (root, a night).
#
#   NIGHTLY_FROM=STEP    continue with this step
#   NIGHTLY_STEPS="A B"  only these steps
#
# The results of steps that do not run are kept; the table names the commit of each.
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
out=$PWD/out/nightly
export KTSN_REQUIRE=1 KTSN_ALL=1 KTSN_LONG=1 E2E_LONG=1

# A step is a target of the Makefile, with its variables.
steps="lint tidy test tsan fuzz sanitize clocks conformance foreign yardstick chaos guests previous thousand e2e upgrades federation kubevirt reproducible scan soak"
arguments_of() {
	case $1 in
	fuzz) echo fuzz "FUZZ_SECONDS=${FUZZ_SECONDS:-1200}" "FUZZ_FRAMES=${FUZZ_FRAMES:-5000000}" ;;
	*) echo "$1" ;;
	esac
}

mkdir -p "$out"
selected=${NIGHTLY_STEPS:-$steps}
for step in $selected ${NIGHTLY_FROM:-}; do
	[[ " $steps " = *" $step "* ]] || { echo "nightly.sh: there is no step $step; they are: $steps" >&2; exit 2; }
done
[ -z "${NIGHTLY_FROM:-}" ] || selected="$NIGHTLY_FROM ${selected#*"$NIGHTLY_FROM"}"
commit=$(scripts/commit.sh | tr ' ' -)

job=''
trap '[ -z "$job" ] || kill -- "-$job" 2>/dev/null; table; exit 130' INT TERM

run_step() { # name
	local began=$SECONDS status words
	rm -f "$out/$1".*
	read -ra words < <(arguments_of "$1")
	echo "== $1, $(date +%H:%M)"
	make --no-print-directory "${words[@]}" >"$out/$1.log" 2>&1 &
	job=$!
	wait "$job"
	status=$?
	job=''
	printf '%s\t%s\t%s\t%s\n' "$status" $((SECONDS - began)) "${commit:-unknown}" "$(result_of "$1")" >"$out/$1.result"
	[ $status -eq 0 ] || tail -n 20 "$out/$1.log" | sed 's/^/   /'
}

# The counts in a step's log, also those of meson, else its last line.
result_of() { # name
	grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$out/$1.log" | tail -n 1 | grep . ||
		awk '/^(Ok|Fail|Timeout|Unexpected Pass|Skipped):/ { sum[$1] += $NF; found = 1 }
			END {
				if (!found) exit 1
				printf "%d passed, %d failed, %d skipped\n", sum["Ok:"], sum["Fail:"] + sum["Timeout:"] + sum["Unexpected"], sum["Skipped:"]
			}' "$out/$1.log" ||
		tail -n 1 "$out/$1.log"
}

# A line for each step: verdict, minutes, commit, counts.
table() {
	local step status seconds commit result
	for step in $steps; do
		if [ ! -f "$out/$step.result" ]; then
			printf '%-12s %-8s\n' "$step" "not run"
			continue
		fi
		IFS=$'\t' read -r status seconds commit result <"$out/$step.result"
		[ "$status" -eq 0 ] && status=passed || status=failed
		[[ $status,$result != "passed,0 passed, 0 failed, "* ]] || status=skipped
		printf '%-12s %-8s %4d min  %-12s %s\n' "$step" "$status" $((seconds / 60)) "$commit" "$result"
	done | tee "$out/table.txt"
}

for step in $selected; do
	run_step "$step"
done
echo
table
for step in $selected; do
	grep -q '^0' "$out/$step.result" || exit 1
done
