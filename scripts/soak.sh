#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Repeats the tests of `make unit` and those of scripts/soak/list under load, and prints which failed, and how often. Their output is in
# out/soak/. Everything is built before the first round. Called by `make soak` after the build.
#
#   SOAK_RUNS=20     rounds
#   SOAK_LOAD=8      busy loops at the same time, of ordinary priority
#   SOAK_MINUTES=60  no round is started that would end later than this, judged by the longest one
#
# Prints the counts of all rounds in its last line.
set -um # -m: each job is a process group, so that an interruption ends all of its processes
cd "$(dirname "$0")/.." || exit 1
unset CI KTSN_REQUIRE # the unit test that needs `make images` is skipped
. scripts/tally.sh

runs=${SOAK_RUNS:-20} load=${SOAK_LOAD:-8} minutes=${SOAK_MINUTES:-60}
for number in "$runs" "$load" "$minutes"; do
	[[ $number =~ ^[0-9]+$ ]] || { echo "soak.sh: SOAK_RUNS, SOAK_LOAD and SOAK_MINUTES are numbers, and not $number" >&2; exit 2; }
done
root=$PWD kept=$PWD/build-soak out=$PWD/out/soak
unit_suites=(unit unit-images unit-cluster) # as scripts/unit.sh, without the scripts of the release
export KTSN_BIN_DIR=$PWD/bin

loops='' c='' # process groups
trap 'finish $c $loops' EXIT

build() {
	local suite
	rm -rf "$kept" "$out"
	mkdir -p "$out"
	run ninja -C build --quiet || return
	[ -f build-tsan/build.ninja ] || run meson setup build-tsan -Db_sanitize=thread -Db_lundef=false >/dev/null || return
	run ninja -C build-tsan --quiet || return
	for suite in "${unit_suites[@]}"; do
		keep unit "$suite" || return
	done
	for suite in cni netns; do
		keep list "$suite" || return
	done
	find "$kept/unit" -name kept.test -printf '%P\n' | sed 's|/kept.test$||' | sort >"$kept/unit/packages"
}

# Builds the test programs of a suite and keeps them.
keep() { # folder, suite
	local suite
	suite=$(scripts/suite.sh "$2") || return
	# shellcheck disable=SC2086 # a list of words
	CGO_ENABLED=0 run scripts/go.sh test $suite -count=1 -exec "$root/scripts/soak/keep.sh $root $kept/$1" >"$logs/keep" 2>&1 ||
		{ cat "$logs/keep"; return 1; }
}

start_load() {
	local i
	for ((i = 0; i < load; i++)); do
		while :; do :; done &
		loops+=" $!"
	done
}

# Records a failure of a test in this round.
failure() { # name, log
	echo "$1" >>"$out/failed"
	mkdir -p "$here"
	cp "$2" "$here/"
	failed=$((failed + 1))
	echo "   failed: $1"
}

report_c() { # build folder, log, status
	local name before=$failed
	passed=$((passed + $(count "$2" '^Ok:')))
	skipped=$((skipped + $(count "$2" '^Skipped:')))
	while read -r name; do
		failure "$1 $name" "$2"
	done < <(sed -nE '/^Summary of Failures/,$d; s#^ *[0-9]+/[0-9]+ ([^ ]+ / )?([^ ]+) +(FAIL|TIMEOUT|ERROR|UNEXPECTEDPASS)( .*)?$#\2#p' "$2")
	[ "$3" -eq 0 ] || [ $failed -gt "$before" ] || failure "$1 (meson)" "$2"
}

# If subtests failed, they are named instead of their test.
report_go() { # package
	local log name before=$failed status
	log=$logs/round/$(echo "$1" | tr / -)
	status=$(cat "$log.status" 2>/dev/null)
	passed=$((passed + $(grep -c '^ *--- PASS: ' "$log.log")))
	skipped=$((skipped + $(grep -c '^ *--- SKIP: ' "$log.log")))
	while read -r name; do
		failure "$1 $name" "$log.log"
	done < <(awk '$1 == "---" && $2 == "FAIL:" { name = $3; failed[name]; while (sub("/[^/]*$", "", name)) above[name] }
		END { for (name in failed) if (!(name in above)) print name }' "$log.log")
	[ "${status:-1}" -eq 0 ] || [ $failed -gt "$before" ] || failure "$1 (its program, with status ${status:-unknown})" "$log.log"
}

listed() { # where
	awk -v where="$1" '$1 == where { print $2 }' scripts/soak/list
}

start_c() { # build folder, tests...
	meson test -C "$1" --no-rebuild --print-errorlogs -t 4 --num-processes 4 "${@:2}" >"$logs/round/$1.log" 2>&1 &
	c+=" $!"
}

# C and Go run at the same time, as in `make unit`, but with more processes: under load, a round ends earlier.
round_unit() {
	local package folders=(build build-tsan) i job_of_c status log
	start_c build
	# shellcheck disable=SC2046 # a list of words
	start_c build-tsan $(listed build-tsan)
	run xargs -a "$kept/unit/packages" -P 8 -I PACKAGE \
		scripts/soak/program.sh "$root" "$kept/unit" "$logs/round" PACKAGE -test.short -test.timeout 10m
	i=0
	for job_of_c in $c; do
		wait "$job_of_c"
		status=$?
		log=$logs/round/${folders[i]}.log
		awk -v log_file="${folders[i]}/meson-logs/testlog.txt" -f scripts/tap.awk "$log" >"$log.said" && mv "$log.said" "$log"
		report_c "${folders[i]}" "$log" $status
		i=$((i + 1))
	done
	c=''
	while read -r package; do
		report_go "$package"
	done <"$kept/unit/packages"
}

# Tests of the whole path run alone, except for the load.
round_path() {
	local package
	for package in test/cni test/netns; do
		KTSN_REQUIRE=1 run scripts/soak/program.sh "$root" "$kept/list" "$logs/round" "$package" \
			-test.timeout 10m -test.parallel 4 -test.run "^($(listed "$package" | paste -sd '|'))$"
		report_go "$package"
	done
}

round() { # number
	local began=$SECONDS before=$failed
	here=$out/round-$1
	rm -rf "$logs/round"
	mkdir "$logs/round"
	round_unit
	local unit=$((SECONDS - began))
	round_path
	took=$((SECONDS - began))
	[ $took -le $longest ] || longest=$took
	echo "round $1 of $runs: $((failed - before)) failed, in $took s ($unit s of them unit tests), load average $(cut -d' ' -f1 /proc/loadavg)"
}

echo "== building what is repeated"
build || exit 1
start_load
began=$SECONDS done=0 longest=0
echo "== $runs rounds beside $load busy loops, in $minutes minutes at most"
while [ $done -lt "$runs" ] && [ $((SECONDS - began + longest)) -le $((minutes * 60)) ]; do
	done=$((done + 1))
	round $done
done
echo
if [ -f "$out/failed" ]; then
	echo "Failed in $done rounds (their output is in out/soak/):"
	sort "$out/failed" | uniq -c | sort -rn
fi
[ $done -eq "$runs" ] || echo "$done of $runs rounds: the time was up"
verdict
