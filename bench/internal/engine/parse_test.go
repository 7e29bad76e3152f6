// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

const everything = `# a comment
name: mine
about: Everything that a profile can say.
target: namespaces
paths: [direct, kernel-vxlan]
paths-if-possible:
  - host
  - tsn
workloads:
  - plain
  - name: gates
    payloads: [256]
    messages: 500
  - {name: saturated, paths: [direct]}
payloads: [64, 0x100]
cycles: [500us, 1ms]
messages: 2_000
repetitions: 3
warm-up: 10
talkers: 3
spin: 90us
pinning: {sender: 1, listener: 0}
samplers: on
idle: 2s
budget: 400us
mean-over: 5s
max-clock-error: 20us
seed: 42
assert:
  - direct.latency_ns.p99 <= 0.6 * kernel-vxlan.latency_ns.p99
`

func TestParseProfile(t *testing.T) {
	got, err := ParseProfile("mine.yaml", []byte(everything), Namespaces)
	if err != nil {
		t.Fatal(err)
	}
	want := &Profile{Name: "mine", About: "Everything that a profile can say.", Target: "namespaces",
		Paths:      []string{"direct", "kernel-vxlan"},
		IfPossible: []string{"host", "tsn"},
		Workloads: []Workload{{Name: "plain"}, {Name: "gates", Payloads: []int{256}, Messages: 500},
			{Name: "saturated", Paths: []string{"direct"}}},
		Payloads: []int{64, 256}, Cycles: []time.Duration{500 * time.Microsecond, time.Millisecond}, Messages: 2000, Repetitions: 3,
		WarmUp: 10, Talkers: 3, Spin: 90 * time.Microsecond, Pinning: Pinning{PinGiven, 1, 0}, Samplers: SamplersOn, Idle: 2 * time.Second, Budget: 400 * time.Microsecond,
		MeanOver: 5 * time.Second, MaxClockError: 20 * time.Microsecond, Seed: 42, Assert: []string{"direct.latency_ns.p99 <= 0.6 * kernel-vxlan.latency_ns.p99"}}
	want.possible()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if gaps := got.gaps(); len(gaps) != 2 || gaps[0].What != "path tsn" || gaps[0].Why == "" {
		t.Errorf("the gaps are %+v", gaps)
	}
}

func TestDocumentedProfile(t *testing.T) {
	if _, err := ReadProfile("../../../examples/bench.yaml", Namespaces); err != nil {
		t.Error(err)
	}
}

// shippedOfMessages are the shipped profiles without an experiment; those with one are tested where experiments are known.
func shippedOfMessages() []string {
	return slices.DeleteFunc(ShippedProfiles(), func(name string) bool {
		text, _ := shippedProfile(name)
		return strings.Contains(string(text), "\nexperiment:")
	})
}

func TestShippedProfiles(t *testing.T) {
	names := shippedOfMessages()
	if strings.Join(names, " ") != "kata-cases kubernetsn quick saturation vm" {
		t.Errorf("they are %q", names)
	}
	for _, name := range names {
		profile, err := ReadProfile(name, Namespaces)
		if err != nil || profile.Name != name || profile.About == "" {
			t.Fatalf("%s: %+v, %v", name, profile, err)
		}
		var planned time.Duration
		blocks := Plan(profile)
		for _, block := range blocks {
			planned += settingOverhead
			for _, run := range block.Runs {
				planned += run.Duration()
			}
		}
		limit := map[string]time.Duration{"quick": 40 * time.Second, "kubernetsn": 6 * time.Minute, "saturation": 5 * time.Minute,
			"kata-cases": 2 * time.Minute, "vm": 5 * time.Minute}[name]
		if planned > limit*9/10 {
			t.Errorf("%s is planned to take %v, too close to %v", name, planned, limit)
		}
	}
}

// TestInvalidProfilesAreRejected has each fault in an otherwise valid profile: lines begin at 1 with paths.
func TestInvalidProfilesAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		profile string
		want    string
	}{
		"nothing":                        {"", "p.yaml: is empty; it must name paths"},
		"no YAML":                        {"paths: [direct\nmessages: 5", "is no YAML"},
		"two documents":                  {"paths: [direct]\n---\npaths: [host]", "p.yaml:2: holds more than one document"},
		"a list":                         {"- direct", "p.yaml:1: cannot unmarshal !!seq into"},
		"an unknown field":               {"paths: [direct]\nmesages: 5", "p.yaml:2: mesages: is no field of a profile; those are about, assert"},
		"a field twice":                  {"paths: [direct]\nseed: 1\nseed: 2", "p.yaml:3: mapping key \"seed\" already defined at line 2"},
		"guests without a pod":           {"paths: [host, guest-tap]", "p.yaml:1: paths: paths between virtual machines and not path direct, with which they are compared; add it"},
		"a load and no guests":           {"paths: [direct]\nworkloads: [guest-load]", "p.yaml:2: workloads: workload guest-load and no path between virtual machines"},
		"gates and guests":               {"paths: [direct, guest-tap]\nworkloads: [gates]", "p.yaml:2: workloads: workload gates and paths between virtual machines"},
		"budgets that fall":              {"paths: [direct]\nbudget: [1ms, 400us]", "p.yaml:2: budget: 400µs behind 1ms; give each once, the least first"},
		"no budget in a list":            {"paths: [direct]\nbudget: []", "p.yaml:2: budget: is empty; give a duration"},
		"no paths":                       {"seed: 1", "p.yaml: paths: no path; give at least one"},
		"a path that is no list":         {"paths: direct", "p.yaml:1: paths: cannot unmarshal !!str `direct` into []string"},
		"an unknown path":                {"paths:\n  - direct\n  - wire", `p.yaml:3: paths: no path is called "wire"`},
		"a path of a cluster":            {"paths: [direct, tsn]", "p.yaml:1: paths: path tsn cannot be measured: it is between pods of a cluster"},
		"a path twice":                   {"paths: [host, host]", "path host is given twice"},
		"a path that may be and must be": {"paths: [host]\npaths-if-possible: [host]", "p.yaml:2: paths-if-possible: path host is in paths, too"},
		"an unknown path that may be":    {"paths: [host]\npaths-if-possible: [wire]", `no path is called "wire"`},
		"another target":                 {"paths: [direct]\ntarget: cluster", `p.yaml:2: target: is cluster, and no --kubeconfig says which; give one`},
		"a window that ends first":       {"paths: [direct]\nworkloads: [gates]\nwindow: {open: 200us, close: 100us}", "p.yaml:3: window: from 200µs to 100µs; give one of at least 50µs"},
		"a window past the cycle":        {"paths: [direct]\nworkloads: [gates]\nwindow: {open: 950us, close: 1050us}", "p.yaml:3: window: from 950µs to 1.05ms in a cycle of 1ms"},
		"a window that is the cycle":     {"paths: [direct]\nworkloads: [gates]\nwindow: {open: 0us, close: 1ms}", "leaves some of the cycle to others"},
		"a stretch past all cycles":      {"paths: [direct]\nworkloads: [gates]\nwindow: {open: 200us, close: 300us, stretch: 101}", "window: stretch: is 101; give 1 to 100"},
		"a stretch past gates' cycles":   {"paths: [direct]\ncycles: [20ms]\nworkloads: [gates]\nwindow: {open: 200us, close: 300us, stretch: 20}", "stretched to a cycle of 400ms; give a stretch with which it is at most 100ms"},
		"machines before the cycle":      {"paths: [direct]\nworkloads: [gates]\nwindow: {open: 200us, close: 300us, guest-early: 201us}", "messages of virtual machines 201µs earlier in a cycle of 1ms; give 0s to 200µs"},
		"a path of machines with gates":  {"paths: [direct, guest-taprio]", "path guest-taprio cannot be measured: it is between virtual machines that have a schedule"},
		"machines that nobody asked for": {"paths: [guest-tap]\ntarget: guest", "p.yaml:2: target: is guest, and this bench is between network namespaces; give --target guest"},
		"a lead too short to wake up":    {"paths: [direct]\nlead: 100us", "p.yaml:2: lead: 100µs in a cycle of 1ms; give 500µs to 400ms"},
		"a lead of too many messages":    {"paths: [direct]\ncycles: [10ms, 100us]\nlead: 50ms", "p.yaml:3: lead: 50ms in a cycle of 100µs; give 500µs to 40ms"},
		"a lead of several talkers":      {"paths: [direct]\nworkloads: [talkers]\nlead: 5ms", "p.yaml:3: lead: 5ms, and workload talkers, whose lead depends on the number of talkers"},
		"an offset past the window":      {"paths: [direct]\nworkloads: [gates]\nwindow: {open: 0us, close: 100us, offset: 100us}", "an offset of 100µs in a window of 100µs; give less"},
		"a window without a schedule":    {"paths: [direct]\nwindow: {open: 0us, close: 100us}", "p.yaml:2: window: given, and no workload with a schedule"},
		"a VLAN without a schedule":      {"paths: [direct]\nvlan: 3", "p.yaml:2: vlan: given, and no workload with a schedule; add some of"},
		"a VLAN that cannot be":          {"paths: [direct]\nworkloads: [gates]\nvlan: 4095", "p.yaml:3: vlan: is 4095; give 1 to 4094"},
		"half a window":                  {"paths: [direct]\nwindow: {from: 1us}", "window: from: is no field of a window; those are close, guest-early, offset, open, stretch"},
		"an unknown target":              {"paths: [direct]\ntarget: cloud", `p.yaml:2: target: is "cloud"; must be namespaces, guest or cluster`},
		"an unknown workload":            {"paths: [direct]\nworkloads: [chaos]", `p.yaml:2: workloads: no workload is called "chaos"`},
		"no workload":                    {"paths: [direct]\nworkloads: []", "no workload; give at least one"},
		"a workload twice":               {"paths: [direct]\nworkloads:\n  - plain\n  - {name: plain}", "p.yaml:4: workloads: workload plain is given twice"},
		"a workload without direct":      {"paths: [host]\nworkloads: [gates]", "workloads [gates] and not path direct"},
		"a workload's unknown field": {"paths: [direct]\nworkloads:\n  - name: plain\n    payload: 5",
			"p.yaml:4: workloads: payload: is no field of a workload; those are messages, name, paths, payloads"},
		"a workload's bad payload":      {"paths: [direct]\nworkloads:\n  - plain\n  - {name: talkers, payloads: [1]}", "p.yaml:4: workloads: a payload of 1 bytes"},
		"a workload's foreign path":     {"paths: [direct]\nworkloads: [{name: plain, paths: [host]}]", "workload plain has path host, which is not among the paths"},
		"gates without gates":           {"paths: [direct, host]\nworkloads: [{name: gates, paths: [host]}]", "only path direct has gates"},
		"a workload of one message":     {"paths: [direct]\nworkloads: [{name: plain, messages: 1}]", "workload plain with 1 messages"},
		"a payload without a header":    {"paths: [direct]\npayloads:\n  - 64\n  - 15", "p.yaml:4: payloads: a payload of 15 bytes; give 16 to 1422"},
		"a payload beyond the link":     {"paths: [direct]\npayloads: [1423]", "a payload of 1423 bytes"},
		"a payload twice":               {"paths: [direct]\npayloads: [64, 64]", "given twice"},
		"a payload in words":            {"paths: [direct]\npayloads: [many]", "payloads: cannot unmarshal !!str `many` into int"},
		"half a payload":                {"paths: [direct]\npayloads: [64.5]", "must be a whole number"},
		"a cycle that nobody can":       {"paths: [direct]\ncycles: [1ms, 1us]", "a cycle of 1µs; give 100µs to 1s"},
		"a cycle twice":                 {"paths: [direct]\ncycles: [1ms, 1000us]", "a cycle of 1ms is given twice"},
		"a cycle too long for gates":    {"paths: [direct]\ncycles: [200ms]\nworkloads: [gates]", "p.yaml:2: cycles: a cycle of 200ms with workload gates"},
		"one message":                   {"paths: [direct]\nmessages: 1", "p.yaml:2: messages: is 1; give 2 to 10000000"},
		"pinning in words":              {"paths: [direct]\npinning: well", `pinning: must be auto, none, or {sender: N, listener: N}`},
		"half a pinning":                {"paths: [direct]\npinning: {sender: 1}", "must give a processor each"},
		"both on one processor":         {"paths: [direct]\npinning: {sender: 1, listener: 1}", "both on processor 1, where each would disturb the other"},
		"samplers in words":             {"paths: [direct]\nsamplers: maybe", `is "maybe"; must be apart, on or off`},
		"gates nobody looks at":         {"paths: [direct]\nworkloads: [gates]\nsamplers: off", "p.yaml:3: samplers: off, and workload gates, whose frames"},
		"unsampled with samplers apart": {"paths: [direct]\nworkloads: [plain, unsampled]\nsamplers: apart", "p.yaml:3: samplers: apart, and workload unsampled, which then is the same as plain"},
		"unsampled without samplers":    {"paths: [direct]\nworkloads: [plain, unsampled]\nsamplers: off", "which then is the same as plain"},
		"no spin where one is needed":   {"paths: [direct, host-spin]\nspin: 0s", "p.yaml:2: spin: 0s, and path host-spin, whose talker is awake"},
		"nothing to watch idle":         {"paths: [host]\nidle: 1s", "p.yaml:2: idle: 1s without path direct"},
		"idle for hours":                {"paths: [direct]\nidle: 2h", "idle: is 2h0m0s; give 0s to 1m0s"},
		"a negative budget":             {"paths: [direct]\nbudget: -1s", "budget: is -1s; give 0s to 1s"},
		"an error of clocks of nothing": {"paths: [direct]\nmax-clock-error: 0s", "p.yaml:2: max-clock-error: is 0s; give 1ns to 1s"},
		"an error of clocks of seconds": {"paths: [direct]\nmax-clock-error: 2s", "p.yaml:2: max-clock-error: is 2s; give 1ns to 1s"},
		"an assertion of nothing":       {"paths: [direct]\nassert: ['']", "an assertion is empty"},
		"an assertion that is broken":   {"paths: [direct]\nassert:\n  - direct.lost == 0\n  - direct.lost ==", "p.yaml:4: assert: \"direct.lost ==\" is no expression"},
		"a profile of a megabyte":       {"about: " + strings.Repeat("x", 1<<20), "is longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			profile, err := ParseProfile("p.yaml", []byte(test.profile), Namespaces)
			var fault *errortext.FileError
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %+v, %v\nwant %s", profile, err, test.want)
			}
		})
	}
}

func TestMissingProfiles(t *testing.T) {
	if _, err := ReadProfile("fast", Namespaces); err == nil || !strings.Contains(err.Error(), "fast is neither a file nor a shipped profile; those are ") ||
		!strings.Contains(err.Error(), " kata-cases, kubernetsn, links, many-links, quick") {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	if profile, err := ReadProfile(path, Namespaces); err != nil || profile.Name != "mine" {
		t.Errorf("got %+v, %v", profile, err)
	}
}

func FuzzParseProfile(f *testing.F) {
	f.Add([]byte(everything))
	for _, name := range ShippedProfiles() {
		text, _ := shippedProfile(name)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		profile, err := ParseProfile("fuzzed", data, Namespaces)
		var fault *errortext.FileError
		if (err == nil) == (profile == nil) || (err != nil && !errors.As(err, &fault)) {
			t.Errorf("got %+v, %v", profile, err)
		}
	})
}

func TestKataCasesWithGuests(t *testing.T) {
	profile, err := ReadProfile("kata-cases", Guest)
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "median_of_alternations."} {
		if err := Preflight(profile, "guest-tap.gates-iperf3."+prefix+"scheduled_ns.span_p99_9 <= 1.5 * guest-tap.gates."+prefix+"scheduled_ns.span_p99_9"); err != nil {
			t.Error(err)
		}
	}
	settings := map[Setting]bool{}
	sent := map[string]int{}
	for _, block := range Plan(profile) {
		settings[block.Setting] = true
		for _, run := range block.Runs {
			if run.Number > 0 {
				sent[fmt.Sprintf("%s %s %v", run.Workload, run.Path, run.Cycle())] += run.Messages
			}
		}
	}
	if len(settings) != 1 {
		t.Errorf("the machines are booted for %d settings", len(settings))
	}
	if want := map[string]int{"plain guest-kernel 2ms": 10000, "gates guest-tap 2ms": 10000, "gates guest-taprio 40ms": 500,
		"gates-iperf3 guest-tap 2ms": 10000, "gates-iperf3 guest-taprio 40ms": 500}; !maps.Equal(sent, want) {
		t.Errorf("planned are %v", sent)
	}
	for name, test := range map[string]struct{ profile, want string }{
		"paths of pods":             {"paths: [host]", "path host cannot be measured: it is not between virtual machines"},
		"a schedule without window": {"paths: [direct]\nworkloads: [plain, gates]", "p.yaml:2: workloads: workload gates between virtual machines and no window"},
		"pods by name":              {"paths: [direct]\ntarget: namespaces", "is namespaces, and --target asks for virtual machines"},
		"a path that has no schedule": {"paths: [direct, kernel-vxlan]\nworkloads: [{name: gates, paths: [kernel-vxlan]}]\nwindow: {open: 200us, close: 300us}",
			"only path guest-tap or guest-taprio has gates"},
	} {
		if got, err := ParseProfile("p.yaml", []byte(test.profile), Guest); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
