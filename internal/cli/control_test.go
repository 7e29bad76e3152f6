// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control/controltest"
)

const (
	protocol = "../../docs/internals/control-protocol/"
	example  = "../../examples/schedule.yaml"
)

// answerWith maps requests to the files of the protocol's documentation that answer them; all others get ok.
var answerWith = map[string]string{"status": "status", "instance": "instance", "endpoints": "endpoints", "peers": "peers", "groups": "groups", "schedule-get": "schedule",
	"pods": "pods", "network-limits": "network-limits", "network-clocks": "network-clocks", "network-encryptions": "network-encryptions", "security-associations": "security-associations", "flows": "flows", "departures": "departures", "trace-read": "trace"}

// fakeDaemon plays ktsnd with the replies that the protocol's documentation gives, but for those in instead. It
// returns its control socket, and a function that returns the requests so far but those for reading.
func fakeDaemon(t *testing.T, instead map[string]string) (socket string, changes func() []string) {
	t.Helper()
	var seen []string
	socket, stop := controltest.Serve(t, func(request []byte) string {
		var header struct {
			Request string `json:"request"`
		}
		if err := json.Unmarshal(request, &header); err != nil {
			t.Error(err)
			return ""
		}
		reply, other := instead[header.Request]
		if file, reads := answerWith[header.Request]; !reads {
			seen = append(seen, string(request))
			if !other {
				reply = `{"version":1,"reply":"ok"}`
			}
		} else if !other {
			text, err := os.ReadFile(protocol + file + ".reply.json")
			if err != nil {
				t.Error(err)
			}
			reply = string(text)
		}
		return reply
	})
	return socket, func() []string {
		stop()
		return seen
	}
}

func TestStatus(t *testing.T) {
	socket, _ := fakeDaemon(t, nil)
	for name, test := range map[string]struct {
		format string
		want   []string
	}{
		"as text": {"text", []string{"direct on eno1, local address 192.0.2.1, untagged", "SCHED_FIFO priority 50 on CPU 1",
			"strategy tas, link speed 1 Gbit/s, guard band 20µs", "instance        ktsnd-9wq4d; standing by: ktsnd-x7k2p\n", "rings           840 of 524288 KiB, 4 KiB of removed pods\n",
			"budget          64% used, at most 98%, of 950ms of each 1s (kernel.sched_rt_runtime_us); 120 rests in gaps, 7 elsewhere; stopped by the kernel 1 times, 50ms in all; 2 pauses of the machine\n",
			"clock           synchronized, error at most 850ns and growing by 120 ppb; set 2 times, last back by 37s\n",
			"kernel's clock  TAI - UTC 37 s, synchronized, error 1µs, at most 16µs, frequency -1250 ppb, tick 10ms\n",
			"network clock   VNI 42, at most 10µs, else hold: good\n",
			"network clock   VNI 43, at most 1µs, else refuse: lost, ptp4l at /run/ktsn/ptp/ptp4l has not answered for 3 s; look at its log\n",
			"schedule        cycle 2 ms of 2 entries since 2020-09-13T12:26:40 TAI + 100 ns, open now: TC7, TC0; another from 2023-11-14T22:13:21 TAI + 200 ns\n",
			"pod             endpoints  processes ", "endpoint        factory/axis-1 tsn0, VNI 42",
			"factory/axis-1  1          1 of 64    2 of 1024  801 of 65536 KiB  3 of 4096  100000/s    10000/s         1m0s     /run/ktsn/pods/5b1f9c1e/ktsn.sock\n",
			"factory/axis-1  1              1200      2        3              1                it has a filter of its own\n",
			"7     factory/axis-1  4712     10.42.1.2:40000  10.42.2.2:7788  CLOCK_TAI                 5      1000   990   4     7        3        71ns\n",
			"[::]:40001       any             CLOCK_MONOTONIC deadline  1 ",
			"tsn0, VNI 42", "limits          VNI 42, of a pod: 4 processes, rate 2000/s, horizon 1s\n", "peer            192.0.2.2, VNI 42, [10.42.2.0/24 fd00:42:2::/64], MTU 1450, lost 1 of 64, received never; arrived at the uplink 12s ago, and dropped here\n",
			"peer            192.0.2.2, VNI 43, [10.42.2.0/24], MTU -, lost -, not measured\n", "late-wakeup          2", "late-gate            4", "sent-bridge          2", "share-doorbells      3", "limit-refusals       5", "drop-horizon         0", "drop-max-sdu         2",
			"encryption      VNI 42: required\n", "association     to 192.0.2.2: SPI 0xffffffff, generation 8, 1000 frames sealed, 2 more to come\n", "drop-no-association  2",
			"class  PCP  SO_PRIORITY  pending  sent  late  dropped  transmission-overrun\n" +
				"7      7    7 15         2        900   5     2        3\n"}},
		"as text with identities": {"wide", []string{
			"pod             identity                              endpoints  processes ",
			"factory/axis-1  5b1f9c1e-4a0e-4d0c-9f53-0a3f1c7b6d10  1          1 of 64 ",
			"7     factory/axis-1  5b1f9c1e-4a0e-4d0c-9f53-0a3f1c7b6d10  4712 "}},
		"as json": {"json", []string{`"name": "factory/axis-1"`, `"identity": "5b1f9c1e-4a0e-4d0c-9f53-0a3f1c7b6d10"`,
			`"ktsnd-version": "0.1.0"`, `"endpoints": [`, `"subnets": [`, `"late-gate": 4`,
			`"ring-memory-bytes": 67108864`, `"remote-address": "10.42.2.2:7788"`, `"config-pending": true`, `"tai-offset-s": 37`}},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := ktsn(t, "status", "--control", socket, "--output", test.format)
			if status != commandline.ExitOK {
				t.Fatalf("status %d, said %q", status, stderr)
			}
			for _, want := range test.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %q in\n%s", want, stdout)
				}
			}
		})
	}
}

// checked is what docs/guide/schedules.md shows, too.
const checked = `cycle 1 ms, base-time 1970-01-01T00:00:00 TAI + 0 ns, extension 0 ns
guard band 20 µs, link 1 Gbit/s
TC7 |██████████████████████····················································|
TC6 |······················██████████████████████······························|
TC5 |······················██████████████████████······························|
TC4 |············································██████████████████████████████|
TC3 |············································██████████████████████████████|
TC2 |············································██████████████████████████████|
TC1 |············································██████████████████████████████|
TC0 |············································██████████████████████████████|
    └──────────────────────┴─────────────────────┴─────────────────────────────┘
    0                      300 µs                600 µs                     1 ms
queue-max-sdu of TC4: 1500 bytes
../../examples/schedule.yaml: a link of 1 Gbit/s can execute it
`

func TestScheduleCheck(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	status, stdout, stderr := ktsn(t, "schedule", "check", example)
	if status != commandline.ExitOK || stdout != checked || stderr != "" {
		t.Errorf("status %d, said %q, printed\n%s", status, stderr, stdout)
	}
}

func TestScheduleCheckDrawsASCII(t *testing.T) {
	for name, test := range map[string]struct {
		locale    string
		arguments []string
		ascii     bool
	}{
		"UTF-8":            {"de_DE.UTF-8", nil, false},
		"utf8":             {"C.utf8", nil, false},
		"with a modifier":  {"ca_ES.utf8@valencia", nil, false},
		"another":          {"de_DE.ISO-8859-1", nil, true},
		"POSIX":            {"C", nil, true},
		"as asked for":     {"C.UTF-8", []string{"--ascii"}, true},
		"refused as asked": {"C.UTF-8", []string{"--ascii=false"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LC_ALL", test.locale)
			_, stdout, _ := ktsn(t, append([]string{"schedule", "check", example}, test.arguments...)...)
			ascii := strings.IndexFunc(stdout, func(r rune) bool { return r > 127 }) < 0
			if ascii != test.ascii {
				t.Errorf("printed\n%s", stdout)
			}
		})
	}
}

func TestScheduleExamplesInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LC_ALL", "C.UTF-8")
	socket, _ := fakeDaemon(t, nil)
	_, classes, _ := ktsn(t, "classes", "get", "--control", socket)
	_, _, refusal := ktsn(t, "schedule", "check", "--link-speed", "1Mbit", example)
	for _, shown := range []string{checked, classes, refusal} {
		if shown = strings.ReplaceAll(shown, "../../", ""); shown == "" || !strings.Contains(string(page), "\n"+shown) {
			t.Errorf("the page does not show\n%s", shown)
		}
	}
}

func TestScheduleExportInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, hasExample := strings.Cut(string(page), "\n$ ktsn schedule export ")
	block, _, _ = strings.Cut(block, "\n```")
	command, shown, hasOutput := strings.Cut(block, "examples/kata-schedule.yaml\n")
	if !hasExample || !hasOutput {
		t.Fatal("the page does not show ktsn schedule export")
	}
	arguments := append([]string{"schedule", "export"}, strings.Fields(strings.ReplaceAll(command, "\\\n", ""))...)
	_, printed, _ := ktsn(t, append(arguments, "../../examples/kata-schedule.yaml")...)
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(shown), `\.\.\.`, ".*") + "\n$"
	if !regexp.MustCompile(pattern).MatchString(printed) {
		t.Errorf("the page shows\n%s\nbut the command prints\n%s", shown, printed)
	}
}

// notExecuted has everything but gate-enabled, which is false by default.
const notExecuted = `admin-gate-states: 0x81
admin-control-list:
  gate-control-entry:
    - {index: 0, operation-name: set-gate-states, time-interval-value: 1000, gate-states-value: 1}
`

func TestScheduleCheckOfDisabledGates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schedule.yaml")
	if err := os.WriteFile(path, []byte(notExecuted), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := ktsn(t, "schedule", "check", "--ascii", path)
	want := "no control list is executed, guard band 20 us, link 1 Gbit/s\nopen: TC7, TC0\n" +
		"note: there is a control list, but gate-enabled is not true\n" +
		path + ": a link of 1 Gbit/s can execute it\n"
	if status != commandline.ExitOK || stdout != want {
		t.Errorf("status %d, said %q, printed\n%s", status, stderr, stdout)
	}
}

const shown = `In force
cycle 2 ms, base-time 2020-09-13T12:26:40 TAI + 100 ns, extension 0 ns
guard band 20 µs, link 1 Gbit/s
TC7 |███████████████████·······················································|
TC6 |···················███████████████████████████████████████████████████████|
TC5 |···················███████████████████████████████████████████████████████|
TC4 |···················███████████████████████████████████████████████████████|
TC3 |···················███████████████████████████████████████████████████████|
TC2 |···················███████████████████████████████████████████████████████|
TC1 |···················███████████████████████████████████████████████████████|
TC0 |███████████████████·······················································|
    └──────────────────┴───────────────────────────────────────────────────────┘
    0                  500 µs                                               2 ms
open now: TC7, TC0

Pending, from 2023-11-14T22:13:21 TAI + 200 ns, in 750.0002ms
cycle 1 ms, base-time 2023-11-14T22:13:21 TAI + 200 ns, extension 500 ns
guard band 20 µs, link 1 Gbit/s
TC7 |██████████████████████····················································|
TC6 |······················██████████████████████······························|
TC5 |······················██████████████████████······························|
TC4 |············································██████████████████████████████|
TC3 |············································██████████████████████████████|
TC2 |············································██████████████████████████████|
TC1 |············································██████████████████████████████|
TC0 |············································██████████████████████████████|
    └──────────────────────┴─────────────────────┴─────────────────────────────┘
    0                      300 µs                600 µs                     1 ms

config-change-error 2

class  queue-max-sdu  transmission-overrun
7      256            3
6      none           0
5      none           0
4      1500           1
3      none           0
2      none           0
1      none           0
0      none           0
`

func TestScheduleGet(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	socket, _ := fakeDaemon(t, nil)
	for name, test := range map[string]struct {
		format string
		want   []string
	}{
		"as text": {"text", []string{shown}},
		"as json": {"json", []string{`"oper-gate-states": 129`, `"guard-band-ns": 20000`}},
		"as yaml": {"yaml", []string{"gate-parameter-table:\n  gate-enabled: true\n", "\n        operation-name: set-gate-states\n",
			"\nguard-band-ns: 20000\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := ktsn(t, "schedule", "get", "--control", socket, "-o", test.format)
			if status != commandline.ExitOK {
				t.Fatalf("status %d, said %q", status, stderr)
			}
			for _, want := range test.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %s in\n%s", want, stdout)
				}
			}
		})
	}
}

func TestScheduleSet(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	socket, changes := fakeDaemon(t, nil)
	status, stdout, stderr := ktsn(t, "schedule", "set", "--control", socket, example)
	if status != commandline.ExitOK || stdout != shown {
		t.Errorf("status %d, said %q, printed\n%s", status, stderr, stdout)
	}
	want, err := os.ReadFile(protocol + "schedule-set.request.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := changes(); len(got) != 1 || !sameJSON(t, got[0], string(want)) {
		t.Errorf("asked for %q", got)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var texts [2][]byte
	for i, text := range []string{a, b} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		texts[i], _ = json.Marshal(value)
	}
	return string(texts[0]) == string(texts[1])
}

func TestScheduleSetChecksLinkSpeed(t *testing.T) {
	slow, err := os.ReadFile(protocol + "schedule.reply.json")
	if err != nil {
		t.Fatal(err)
	}
	socket, changes := fakeDaemon(t, map[string]string{
		"schedule-get": strings.Replace(string(slow), `"link-speed-bps":1000000000`, `"link-speed-bps":1000000`, 1)})
	status, stdout, stderr := ktsn(t, "schedule", "set", "--control", socket, example)
	if status != commandline.ExitFailure || stdout != "" || !strings.Contains(stderr, "schedule.yaml:17: ") ||
		!strings.Contains(stderr, "must be at least 672000, the time of the smallest frame at 1 Mbit/s") {
		t.Errorf("status %d, said %q, printed %q", status, stderr, stdout)
	}
	if got := changes(); len(got) > 0 {
		t.Errorf("asked for %q", got)
	}
}

func TestRefusalsOfKtsnd(t *testing.T) {
	const refusal = `{"version":1,"error":{"field":"strategy","message":"is \"x\"; must be another"}}`
	for name, arguments := range map[string][]string{
		"of schedules":  {"schedule", "set", example},
		"of strategies": {"strategy", "set", "x"},
		"of classes":    {"classes", "set", "--pcp", "0,1,2,3,4,5,6,7"},
	} {
		t.Run(name, func(t *testing.T) {
			socket, _ := fakeDaemon(t, map[string]string{
				"schedule-set": refusal, "strategy-set": refusal, "traffic-classes-set": refusal})
			status, stdout, stderr := ktsn(t, append(arguments, "--control", socket)...)
			if want := "ktsn: ktsnd refused strategy: is \"x\"; must be another\n"; status != commandline.ExitFailure || stderr != want || stdout != "" {
				t.Errorf("status %d, said %q, printed %q", status, stderr, stdout)
			}
		})
	}
}

func TestStrategyAndClassesSet(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"a strategy": {[]string{"strategy", "set", "etf"}, `{"version":1,"request":"strategy-set","strategy":"etf"}`},
		"a map alone": {[]string{"classes", "set", "--map", "7,6,5,4,3,2,1,0,7,6,5,4,3,2,1,0"},
			`{"version":1,"request":"traffic-classes-set","priority-code-points":[1,0,2,3,4,5,6,7],` +
				`"traffic-class-map":[7,6,5,4,3,2,1,0,7,6,5,4,3,2,1,0]}`},
		"code points alone": {[]string{"classes", "set", "--pcp", "0,0,0,0,7,7,7,7"},
			`{"version":1,"request":"traffic-classes-set","priority-code-points":[0,0,0,0,7,7,7,7],` +
				`"traffic-class-map":[1,0,2,3,4,5,6,7,1,0,2,3,4,5,6,7]}`},
	} {
		t.Run(name, func(t *testing.T) {
			socket, changes := fakeDaemon(t, nil)
			status, stdout, stderr := ktsn(t, append(test.arguments, "--control", socket)...)
			if status != commandline.ExitOK || stdout != "" {
				t.Errorf("status %d, said %q, printed %q", status, stderr, stdout)
			}
			if got := changes(); !slices.Equal(got, []string{test.want}) {
				t.Errorf("asked for %q", got)
			}
		})
	}
}

func TestClassesGet(t *testing.T) {
	status, err := os.ReadFile(protocol + "status.reply.json")
	if err != nil {
		t.Fatal(err)
	}
	socket, _ := fakeDaemon(t, map[string]string{
		"status": strings.Replace(string(status), "[1,0,2,3,4,5,6,7,1,0,2,3,4,5,6,7]", "[1,0,2,3,4,5,6,6,1,0,2,3,4,5,6,6]", 1)})
	code, stdout, stderr := ktsn(t, "classes", "get", "--control", socket)
	want := `class  PCP  SO_PRIORITY
7      7    -
6      6    6 7 14 15
5      5    5 13
4      4    4 12
3      3    3 11
2      2    2 10
1      0    0 8
0      1    1 9
`
	if code != commandline.ExitOK || stdout != want {
		t.Errorf("status %d, said %q, printed\n%s", code, stderr, stdout)
	}
}
