#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes everything that reads untrusted bytes, each target for its share of the time. Prints the counts in its last line. The corpus
# is kept in build-fuzz/corpus/ for the next run and starts with datapath/tests/fuzz/seeds/; findings are written to out/fuzz/.
#
#     fuzz.sh SECONDS [C|Go [NAME]]          divided among all targets
#     fuzz.sh --each SECONDS [C|Go [NAME]]   for each target
#
# NAME is one of the fuzz tests of Go. FUZZ_FRAMES=N gives FuzzFrames (internal/node/receive) N frames instead of its share.
# C: libFuzzer targets (datapath/tests/fuzz), as many at a time as there are processors. Go: fuzz tests
# (func Fuzz...), which use all processors, one after the other. Both when none is named.
set -u
cd "$(dirname "$0")/.." || exit 1

each=
[ "${1:-}" != --each ] || { each=1; shift; }
seconds=${1:-} language=${2:-} only=${3:-}
case "$seconds" in '' | *[!0-9]*) echo "usage: $0 [--each] SECONDS [C|Go [NAME]]" >&2; exit 2 ;; esac

build='build-fuzz'
passed=0 failed=0

build_c() {
	[ -f $build/build.ninja ] || CC=clang-14 meson setup $build -Dfuzz=true -Db_sanitize=address,undefined \
		-Db_lundef=false >$build.log 2>&1 || { cat $build.log; rm -f $build.log; return 1; }
	ninja -C $build --quiet fuzz >$build.log 2>&1 || { cat $build.log; rm -f $build.log; return 1; }
	rm -f $build.log
}

# "folder FuzzName" for each fuzz test of Go.
go_targets() {
	grep -rl --include=*_test.go '^func Fuzz' internal | while read -r file; do
		sed -n "s|^func \(Fuzz[A-Za-z0-9]*\)(.*|$(dirname "$file") \1|p" "$file"
	done | grep "${only:+ $only\$}"
}

run_c() { # target, seconds
	local name=${1##*/fuzz_} here=datapath/tests/fuzz
	local dictionary=$here/fuzz_$name.dict
	local -a options=(-max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=0
		-print_final_stats=1 -artifact_prefix="out/fuzz/$name-")
	[ ! -f "$dictionary" ] || options+=(-dict="$dictionary")
	mkdir -p "$build/corpus/$name"
	# With a symbolizer, reports of the sanitizers name lines.
	ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-14) \
		"$1" "${options[@]}" "$build/corpus/$name" "$here/seeds/$name" >out/fuzz/"$name".log 2>&1
}

# Waits for a target and reports it. Targets are reported in the order in which they were started.
report_c() { # target, process
	local name=${1##*/fuzz_} status
	wait "$2"
	status=$?
	report $status "$name" out/fuzz/"$name".log "$(sed -n 's/^stat::number_of_executed_units: *//p' out/fuzz/"$name".log) runs"
}

# Runs as many targets at a time as there are processors, and ends them if the script is ended.
run_c_targets() { # seconds, targets...
	local share=$1 target
	local -a running=() names=()
	shift
	trap 'kill $(jobs -p) 2>/dev/null' EXIT
	for target in "$@"; do
		if [ ${#running[@]} -ge "$processors" ]; then
			report_c "${names[0]}" "${running[0]}"
			running=("${running[@]:1}") names=("${names[@]:1}")
		fi
		run_c "$target" "$share" &
		running+=($!) names+=("$target")
	done
	for target in "${!running[@]}"; do
		report_c "${names[$target]}" "${running[$target]}"
	done
}

run_go() { # folder, name, seconds
	local log=out/fuzz/$2.log span=$3s
	[ "$2" != FuzzFrames ] || [ -z "${FUZZ_FRAMES:-}" ] || span=${FUZZ_FRAMES}x
	scripts/go.sh test "./$1" -run '^$' -fuzz "^$2\$" -fuzztime "$span" -timeout 0 -fuzzminimizetime 10s -parallel 2 >"$log" 2>&1
	report $? "$1 $2" "$log" "$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -n 1) runs"
}

report() { # status, name, log, remark
	if [ "$1" -eq 0 ]; then
		echo "ok    $2, $4"
		passed=$((passed + 1))
	else
		echo "FAIL  $2, see $3"
		tail -n 40 "$3"
		failed=$((failed + 1))
	fi
}

c_targets=() go_list=()
mkdir -p out/fuzz
if [ "$language" != Go ]; then
	build_c || exit 1
	mapfile -t c_targets < <(find $build/datapath/tests/fuzz -maxdepth 1 -type f -name 'fuzz_*' -executable | sort)
fi
[ "$language" = C ] || mapfile -t go_list < <(go_targets | sort)
count=$((${#c_targets[@]} + ${#go_list[@]}))
[ $count -gt 0 ] || { echo "there is nothing to fuzz" >&2; exit 1; }
share=$((seconds / count))
[ -z "$each" ] || share=$seconds
[ "$share" -gt 0 ] || share=1
processors=$(nproc)

[ ${#c_targets[@]} -eq 0 ] || run_c_targets "$share" "${c_targets[@]}"
for target in "${go_list[@]}"; do
	run_go "${target% *}" "${target#* }" "$share"
done
echo
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
