// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// recorded reads the files of a machine that scripts/hostsettings recorded.
func recorded(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name + ".txt")
	testlab.Must(t, err)
	files := fstest.MapFS{}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		path, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, path, err)
		}
		files[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// read reads the settings of a machine with high-resolution timers.
func read(files fs.FS, ktsnd Ktsnd, card *Card) []Setting {
	machine := &Machine{Files: files, ClockResolution: time.Nanosecond, Card: func(string) *Card { return card }}
	return machine.Read(ktsnd)
}

// named returns the setting of that name.
func named(t *testing.T, all []Setting, name string) Setting {
	t.Helper()
	at := slices.IndexFunc(all, func(setting Setting) bool { return setting.Name == name })
	if at < 0 {
		t.Fatalf("nothing is said of %q", name)
	}
	return all[at]
}

// costly returns the names of the settings with a cost.
func costly(all []Setting) []string {
	var names []string
	for _, setting := range all {
		if setting.Cost != "" {
			names = append(names, setting.Name)
		}
	}
	return names
}

func TestRecordedMachines(t *testing.T) {
	on := true
	lazy := &Card{EEE: &on, Coalescing: &Coalescing{ReceiveUs: 50, TransmitUs: 8}, GRO: true, LRO: true}
	for name, test := range map[string]struct {
		machine string
		ktsnd   Ktsnd
		card    *Card
		costly  []string
		state   map[string]string
	}{
		"virtual machine, divided real-time scheduling": {"virtual", Ktsnd{CPU: 1, FIFOPriority: 50, Interface: "eth0"}, &Card{GRO: true},
			[]string{"virtual machine", "power states", "isolation", "interrupts", "RCU callbacks", "preemption", "real-time throttling"},
			map[string]string{"interrupts": "processor 1 serves 10 of devices: 36 virtio1-req.0", "clock source": "tsc, which", "irqbalance": "does not run",
				"scheduler tick": "built without CONFIG_NO_HZ_FULL", "receive offloads": "gro on"}},
		"keep-awake without a processor": {"virtual", Ktsnd{CPU: -1, FIFOPriority: 50, KeepsAwake: true}, nil,
			[]string{"virtual machine", "isolation", "interrupts", "RCU callbacks", "preemption", "real-time throttling"},
			map[string]string{"interrupts": "ktsnd has no processor of its own", "power states": "ktsnd keeps any processor awake"}},
		"real-time kernel, isolated processor": {"realtime", Ktsnd{CPU: 3, FIFOPriority: 51}, nil,
			[]string{"virtual machine", "power states", "interrupts", "real-time throttling", "clock source"},
			map[string]string{"preemption": "PREEMPT_RT", "isolation": "processor 3 is isolated", "scheduler tick": "processor 3 has none",
				"RCU callbacks": "run elsewhere (nohz_full)", "interrupts": "processor 3 serves 1 of devices: 1 i8042"}},
		"real-time kernel, other processor": {"realtime", Ktsnd{CPU: 1, FIFOPriority: 50}, nil,
			[]string{"virtual machine", "power states", "isolation", "interrupts", "scheduler tick", "RCU callbacks", "preemption", "real-time throttling", "clock source"},
			map[string]string{"scheduler tick": "nohz_full has 3", "preemption": "priority 50, as threads of interrupts have"}},
		"NUMA nodes and SMT siblings": {"nodes", Ktsnd{CPU: 2, FIFOPriority: 50}, nil,
			[]string{"virtual machine", "power states", "isolation", "interrupts", "scheduler tick", "RCU callbacks", "preemption", "real-time throttling", "SMT siblings",
				"NUMA balancing", "transparent hugepages"},
			map[string]string{"SMT siblings": "these share a core: 2-3", "scheduler tick": "nohz_full has none"}},
		"server with defaults": {"server", Ktsnd{CPU: 1, Interface: "eth0"}, lazy,
			[]string{"power states", "frequency", "isolation", "interrupts", "irqbalance", "scheduler tick", "RCU callbacks", "preemption", "real-time throttling",
				"SMT siblings", "clock source", "NUMA node of the uplink", "NUMA balancing", "transparent hugepages", "swap", "link speed",
				"Energy-Efficient Ethernet", "interrupt coalescing", "receive offloads"},
			map[string]string{"power states": "down to C6 on processor 1, by driver intel_idle", "frequency": "governor powersave",
				"NUMA node of the uplink": "1, and ktsnd's processor is of node 0", "link speed": "eth0 has 100 Mbit/s",
				"interrupt coalescing": "receive 50 µs", "receive offloads": "gro, lro on"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := read(recorded(t, test.machine), test.ktsnd, test.card)
			if got := costly(all); !slices.Equal(got, test.costly) {
				t.Errorf("costly are %q,\nwant %q", got, test.costly)
			}
			for _, setting := range slices.Sorted(maps.Keys(test.state)) {
				if got := named(t, all, setting).Found; !strings.Contains(got, test.state[setting]) {
					t.Errorf("%s: %q does not say %q", setting, got, test.state[setting])
				}
			}
		})
	}
}

func TestChangedSettings(t *testing.T) {
	on, off := true, false
	for name, test := range map[string]struct {
		machine, setting string
		file, content    string // "" content: the file is missing
		ktsnd            Ktsnd
		card             *Card
		costs            bool
		state            string
	}{
		"no interrupts":          {"realtime", "interrupts", "sys/kernel/irq/1/actions", "", Ktsnd{CPU: 3}, nil, false, "no device's comes to processor 3"},
		"performance":            {"server", "frequency", "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n", Ktsnd{CPU: 1}, nil, false, "governor performance"},
		"a disabled power state": {"server", "power states", "sys/devices/system/cpu/cpu1/cpuidle/state3/disable", "1\n", Ktsnd{CPU: 1}, nil, true, "down to C1E"},
		"idle=poll":              {"server", "power states", "proc/cmdline", "quiet idle=poll\n", Ktsnd{CPU: 1}, nil, false, "idle=poll"},
		"no throttling":          {"server", "real-time throttling", "proc/sys/kernel/sched_rt_runtime_us", "-1\n", Ktsnd{CPU: 1}, nil, false, "never stopped"},
		"a fair server":          {"server", "real-time throttling", "proc/sys/kernel/osrelease", "6.12.0\n", Ktsnd{CPU: 1}, nil, false, "fair server"},
		"hugepages on request":   {"server", "transparent hugepages", "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n", Ktsnd{}, nil, false, "madvise"},
		"no hugepages at all":    {"server", "transparent hugepages", "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n", Ktsnd{}, nil, true, "never"},
		"callbacks of all":       {"server", "RCU callbacks", "proc/cmdline", "rcu_nocbs=all\n", Ktsnd{CPU: 1}, nil, false, "rcu_nocbs"},
		"callbacks of others":    {"server", "RCU callbacks", "proc/cmdline", "rcu_nocbs=2-3\n", Ktsnd{CPU: 1}, nil, true, "run on processor 1"},
		"an isolated processor":  {"server", "irqbalance", "sys/devices/system/cpu/isolated", "1\n", Ktsnd{CPU: 1}, nil, false, "leaves isolated processors alone"},
		"an exclusive core": {"virtual", "isolation", "proc/7/status", "Name:\tktsnd\nCpus_allowed_list:\t1\n", Ktsnd{CPU: 1, PID: 7}, nil, true,
			"ktsnd may run on processor 1 only (cpuset)"},
		"a core of several": {"virtual", "isolation", "proc/7/status", "Name:\tktsnd\nCpus_allowed_list:\t0-1\n", Ktsnd{CPU: 1, PID: 7}, nil, true,
			"processor 1 is not isolated"},
		"a container's processes": {"virtual", "irqbalance", "proc/2/comm", "", Ktsnd{CPU: 1}, nil, false, "cannot be seen from a container"},
		"timer slack":             {"server", "timers", "proc/7/timerslack_ns", "50000\n", Ktsnd{CPU: 1, PID: 7}, nil, true, "50µs late"},
		"no slack for real time":  {"server", "timers", "proc/7/timerslack_ns", "50000\n", Ktsnd{CPU: 1, PID: 7, FIFOPriority: 50}, nil, false, "no slack"},
		"a card that sleeps":      {"server", "Energy-Efficient Ethernet", "x", "", Ktsnd{Interface: "eth0"}, &Card{EEE: &on}, true, "on"},
		"a card that does not":    {"server", "Energy-Efficient Ethernet", "x", "", Ktsnd{Interface: "eth0"}, &Card{EEE: &off}, false, "off"},
		"a card that tells late": {"server", "interrupt coalescing", "x", "", Ktsnd{Interface: "eth0"},
			&Card{Coalescing: &Coalescing{Adaptive: true}}, true, "adaptive true"},
		"an uplink of software": {"server", "interrupt coalescing", "sys/class/net/eth0/device/uevent", "", Ktsnd{Interface: "eth0"},
			&Card{Coalescing: &Coalescing{ReceiveUs: 50}}, false, "or does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			files := recorded(t, test.machine)
			delete(files, test.file)
			if test.content != "" {
				files[test.file] = &fstest.MapFile{Data: []byte(test.content)}
			}
			setting := named(t, read(files, test.ktsnd, test.card), test.setting)
			if (setting.Cost != "") != test.costs || !strings.Contains(setting.Found, test.state) {
				t.Errorf("%+v", setting)
			}
		})
	}
}

func TestCostsHaveAdvice(t *testing.T) {
	for _, machine := range []string{"virtual", "realtime", "nodes", "server"} {
		for _, cpu := range []int{-1, 0, 1} {
			for _, setting := range read(recorded(t, machine), Ktsnd{CPU: cpu, Interface: "eth0"}, nil) {
				if setting.Found == "" || (setting.Cost == "") != (setting.Mend == "") || strings.Contains(fmt.Sprint(setting), "%!") {
					t.Errorf("%s, processor %d: %+v", machine, cpu, setting)
				}
			}
		}
	}
}

func TestCoarseTimers(t *testing.T) {
	machine := &Machine{Files: recorded(t, "server"), ClockResolution: 4 * time.Millisecond, Card: func(string) *Card { return nil }}
	if setting := named(t, machine.Read(Ktsnd{CPU: 1}), "timers"); !strings.Contains(setting.Found, "4ms") || setting.Cost == "" {
		t.Errorf("%+v", setting)
	}
}

func TestEmptyMachine(t *testing.T) {
	for _, setting := range read(fstest.MapFS{}, Ktsnd{CPU: 0, Interface: "eth0"}, nil) {
		if setting.Found == "" {
			t.Errorf("%+v", setting)
		}
	}
}

func TestThisMachine(t *testing.T) {
	for _, name := range []string{"preemption", "timers", "interrupts", "link speed"} {
		if setting := named(t, This().Read(Ktsnd{CPU: 0, FIFOPriority: 50, Interface: "lo"}), name); setting.Found == "" {
			t.Errorf("%+v", setting)
		}
	}
}

func TestProcessors(t *testing.T) {
	for list, want := range map[string][]int{"0,2-4\n": {0, 2, 3, 4}, "": nil, "(null)": nil, "managed_irq,domain,3": {3}, "0-1,7": {0, 1, 7}} {
		if got := processors(list); !slices.Equal(got, want) {
			t.Errorf("%q: %v", list, got)
		}
	}
}
