// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// quotedLimits are limits in pages: the text, with # for the number, and the constant. A unit divides the constant.
var quotedLimits = []struct {
	page, text   string
	source, name string
	unit         int64
}{
	{"docs/guide/networks.md", "at most # copies", "datapath/daemon/loop/loop_objects.h", "LOOP_COPIES_MAX", 1},
	{"docs/guide/networks.md", "up to # nodes, the worst first", "api/v1alpha1/status.go", "MaxNodeProblems", 1},
	{"docs/guide/networks.md", "up to # of those wait", "datapath/relay/backlog.h", "BACKLOG_MAX", 1},
	{"docs/guide/networks.md", "up to # frames wait for each interface", "internal/node/overlay/tap.go", "tapQueueFrames", 1},
	{"docs/guide/networks.md", "at most # with [Open vSwitch]", "internal/node/overlay/switched.go", "MaxSwitchedVNI", 1},
	{"docs/guide/links.md", "a client of up to # services", "internal/cluster/links/labels.go", "MaxClientLabels", 1},
	{"docs/guide/links.md", "name of the interface, at most # characters", "internal/cluster/links/labels.go", "maxInterfaceBytes", 1},
	{"docs/guide/links.md", "prefix of the interfaces' names, at most # characters", "internal/cluster/links/labels.go", "maxPrefixBytes", 1},
	{"docs/guide/encryption.md", "up to # clusters", "api/v1alpha1/encryption.go", "MostClusterKeys", 1},
	{"docs/guide/federation.md", "at most # objects of one namespace", "internal/shared/federation/names.go", "MaxObjects", 1},
	{"docs/guide/federation.md", "objects of one namespace, # MiB", "internal/shared/federation/names.go", "MaxBody", 1 << 20},
	{"docs/reference/counters.md", "a message has at most #", "datapath/daemon/loop/loop_objects.h", "LOOP_COPIES_MAX", 1},
	{"docs/reference/so-txtime.md", "cut into up to # datagrams", "datapath/preload/flow/cork_state.h", "SEGMENTS_MAX", 1},
	{"docs/reference/man/libktsn.7", "the process # destinations", "datapath/daemon/loop/loop_objects.h", "LOOP_DESTINATIONS_PER_RING", 1},
	{"docs/security/weaknesses.md", "(# copies)", "datapath/daemon/loop/loop_objects.h", "LOOP_COPIES_MAX", 1},
	{"docs/security/weaknesses.md", "and # for each process with a flow of frames", "datapath/daemon/loop/loop_objects.h", "LOOP_DESTINATIONS_PER_RING", 1},
	{"docs/security/weaknesses.md", "a pod may have # for each socket", "datapath/daemon/node/flow.h", "FLOW_DESTINATIONS_MAX", 1},
	{"docs/internals/addresses-and-groups.md", "at most # copies (`LOOP_COPIES_MAX`)", "datapath/daemon/loop/loop_objects.h", "LOOP_COPIES_MAX", 1},
	{"docs/internals/addresses-and-groups.md", "or more than # groups", "datapath/daemon/route/group_frames.h", "GROUP_LIST_MAX", 1},
	{"docs/internals/addresses-and-groups.md", "reported more than # groups", "datapath/daemon/route/group_peers.h", "PEER_REPORTED_MAX", 1},
	{"docs/internals/control-protocol.md", "A request has at most # KiB", "datapath/daemon/control/control_server.c", "REQUEST_BYTES_MAX", 1 << 10},
	{"docs/internals/control-protocol.md", "`standing-by`, at most # names", "datapath/daemon/control/control_server.c", "STANDING_BY_MAX", 1},
	{"docs/internals/control-protocol.md", "receive rings now (at most #)", "datapath/daemon/node/receiving.h", "RECEIVE_POD_SOCKETS_MAX", 1},
	{"docs/internals/virtual-machines.md", "up to # bytes a second", "datapath/relay/bypass.c", "CONTROL_BYTES_MAX", 1},
	{"docs/internals/virtual-machines.md", "up to # wait for ktsnd", "datapath/relay/backlog.h", "BACKLOG_MAX", 1},
	{"docs/internals/federation.md", "gets less, at most # each", "federator/internal/services/quota.go", "maxQuota", 1},
}

// TestLimitsInPagesAreThoseOfTheCode keeps quoted numbers true. A change of the sentence needs one of the table.
func TestLimitsInPagesAreThoseOfTheCode(t *testing.T) {
	for _, limit := range quotedLimits {
		value := constantOf(t, limit.source, limit.name) / limit.unit
		page := space.ReplaceAllString(read(t, limit.page), " ")
		pattern := strings.Replace(regexp.QuoteMeta(limit.text), "#", `([0-9][0-9,]*)`, 1)
		match := regexp.MustCompile(pattern).FindStringSubmatch(page)
		if match == nil {
			t.Errorf("%s has no %q", limit.page, limit.text)
			continue
		}
		if quoted := strings.ReplaceAll(strings.TrimRight(match[1], ","), ",", ""); quoted != strconv.FormatInt(value, 10) {
			t.Errorf("%s: %q, but %s in %s is %d", limit.page, match[0], limit.name, limit.source, value)
		}
	}
}

// constantOf returns a constant of a C or Go file: a number, or an expression of numbers.
func constantOf(t *testing.T, source, name string) int64 {
	t.Helper()
	pattern := fmt.Sprintf(`(?m)(?:^|[\s{,])%s(?: int\d*)?(?: *= *|\s+)([0-9x<>*+() ]+)`, regexp.QuoteMeta(name))
	match := regexp.MustCompile(pattern).FindStringSubmatch(read(t, source))
	if match == nil {
		t.Fatalf("%s has no constant %s", source, name)
	}
	result, err := types.Eval(token.NewFileSet(), nil, token.NoPos, strings.TrimSpace(match[1]))
	if err != nil {
		t.Fatalf("%s: %s: %v", source, match[0], err)
	}
	value, exact := constant.Int64Val(result.Value)
	if !exact {
		t.Fatalf("%s: %s is not a whole number", source, match[0])
	}
	return value
}

// TestPageHasTheExportsOfTheLibrary compares libktsn(7) with the list by which check_elf.sh checks libktsn.so.
func TestPageHasTheExportsOfTheLibrary(t *testing.T) {
	list := regexp.MustCompile(`(?m)^expected='([^']+)'$`).FindStringSubmatch(read(t, "datapath/tests/elf/check_elf.sh"))
	if list == nil {
		t.Fatal("check_elf.sh has no list of exports")
	}
	exports := map[string]bool{}
	for name := range strings.FieldsSeq(list[1]) {
		exports[name] = true
	}
	intercepted := section(t, "libktsn.7", ".Sh WHAT IS INTERCEPTED")
	named := map[string]bool{}
	for line := range strings.Lines(intercepted) {
		if !strings.Contains(line, "Fn ") {
			continue
		}
		for name := range strings.FieldsFuncSeq(line, func(r rune) bool { return !strings.ContainsRune("_abcdefghijklmnopqrstuvwxyz0123456789", r) }) {
			if exports[name] {
				named[name] = true
			} else if regexp.MustCompile(`Fn ` + name + `\b`).MatchString(line) {
				t.Errorf("libktsn(7) names %s, which libktsn.so does not export", name)
			}
		}
	}
	for name := range exports {
		if !named[name] {
			t.Errorf("libktsn(7) does not name %s, which libktsn.so exports", name)
		}
	}
}
