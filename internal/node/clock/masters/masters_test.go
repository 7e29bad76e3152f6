// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// process is one of a machine of the test.
type process struct {
	pid, parent int
	comm        string
	arguments   []string
	files       map[string]string // in its root
	capEff      string            // of a process without all capabilities
	uidMap      string            // of one in another user namespace
}

// machine writes what /proc says of processes.
func machine(t *testing.T, processes ...process) string {
	t.Helper()
	proc := t.TempDir()
	write := func(path, text string) {
		testlab.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testlab.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write(filepath.Join(proc, "uptime"), "1 1")
	for _, master := range processes {
		folder := filepath.Join(proc, strconv.Itoa(master.pid))
		write(filepath.Join(folder, "comm"), master.comm+"\n")
		write(filepath.Join(folder, "cmdline"), strings.Join(master.arguments, "\x00")+"\x00")
		write(filepath.Join(folder, "stat"), strconv.Itoa(master.pid)+" ("+master.comm+") S "+strconv.Itoa(master.parent)+" 1 1")
		write(filepath.Join(folder, "status"), "Name:\tx\nCapPrm:\t0\nCapEff:\t"+cmp.Or(master.capEff, "000001ffffffffff")+"\n")
		write(filepath.Join(folder, "uid_map"), cmp.Or(master.uidMap, "         0          0 4294967295\n"))
		for name, text := range master.files {
			write(filepath.Join(folder, "root", name), text)
		}
	}
	return proc
}

func TestProgramsThatSetTheClockAreFound(t *testing.T) {
	software := map[string]string{"etc/ptp4l.conf": "[global]\n# time_stamping hardware\ntime_stamping\tsoftware\n[eth0]\n"}
	serves := map[string]string{"etc/serves.conf": "[global]\ntime_stamping software\n[eth0]\nmasterOnly 1\n[eth1]\nserverOnly 1\n"}
	for name, test := range map[string]struct {
		comm      string
		arguments string
		files     map[string]string
		want      string
	}{
		"chronyd":                                  {"chronyd", "/usr/sbin/chronyd -F 1", nil, "chronyd"},
		"chronyd that only measures":               {"chronyd", "chronyd -x -d", nil, ""},
		"ntpd":                                     {"ntpd", "ntpd -g", nil, "ntpd"},
		"systemd's, whose name the kernel cuts":    {"systemd-timesyn", "/lib/systemd/systemd-timesyncd", nil, "systemd-timesyncd"},
		"phc2sys as it is mostly used":             {"phc2sys", "phc2sys -s eth0 -w", nil, "phc2sys"},
		"phc2sys for another card's clock":         {"phc2sys", "phc2sys -s eth0 -c eth1 -w", nil, ""},
		"phc2sys that is told of the clock":        {"phc2sys", "phc2sys -s eth0 -c CLOCK_REALTIME -w", nil, "phc2sys"},
		"phc2sys for all of ptp4l's clocks":        {"phc2sys", "phc2sys -a", nil, ""},
		"phc2sys for these and the system's":       {"phc2sys", "phc2sys -a -r", nil, "phc2sys"},
		"phc2sys for these, in one word":           {"phc2sys", "phc2sys -arr", nil, "phc2sys"},
		"ptp4l with hardware time stamps":          {"ptp4l", "ptp4l -i eth0", nil, ""},
		"ptp4l with software time stamps":          {"ptp4l", "ptp4l -i eth0 -S", nil, "ptp4l"},
		"ptp4l by an option":                       {"ptp4l", "ptp4l -i eth0 --time_stamping=software", nil, "ptp4l"},
		"ptp4l by its configuration":               {"ptp4l", "ptp4l -f /etc/ptp4l.conf", software, "ptp4l"},
		"ptp4l by that, in one word":               {"ptp4l", "ptp4l -f/etc/ptp4l.conf", software, "ptp4l"},
		"ptp4l that runs free":                     {"ptp4l", "ptp4l -f /etc/ptp4l.conf --free_running 1", software, ""},
		"chronyd in a container":                   {"chronyd", "chronyd -dx", nil, ""},
		"chronyd that measures by IPv4":            {"chronyd", "chronyd -4x", nil, ""},
		"chronyd with a file called x":             {"chronyd", "chronyd -fx", nil, "chronyd"},
		"phc2sys whose card is called rar":         {"phc2sys", "phc2sys -srar -w", nil, "phc2sys"},
		"phc2sys from the system to a card":        {"phc2sys", "phc2sys -s CLOCK_REALTIME -wceth0", nil, ""},
		"ptp4l with software stamps, in one word":  {"ptp4l", "ptp4l -mS -i eth0", nil, "ptp4l"},
		"ptp4l with these after another":           {"ptp4l", "ptp4l -4Sm -i eth0", nil, "ptp4l"},
		"ptp4l on an interface called S":           {"ptp4l", "ptp4l -miS", nil, ""},
		"ptp4l that only serves":                   {"ptp4l", "ptp4l -f /etc/serves.conf", serves, ""},
		"ptp4l that follows on another port":       {"ptp4l", "ptp4l -f /etc/serves.conf -i eth7", serves, "ptp4l"},
		"ptp4l that only serves, by its arguments": {"ptp4l", "ptp4l -S -i eth0 --masterOnly 1", nil, ""},
		"ptp4l that only serves, of linuxptp 4":    {"ptp4l", "ptp4l -S -i eth0 --serverOnly=1", nil, ""},
		"ptp4l by a file where it runs":            {"ptp4l", "ptp4l -f ptp4l.conf", map[string]string{"../cwd/ptp4l.conf": "time_stamping software"}, "ptp4l"},
		"ptp4l whose file does not matter":         {"ptp4l", "ptp4l -f /etc/other.conf -H", nil, ""},
		"ptp4l that runs free whatever its file":   {"ptp4l", "ptp4l -f /etc/other.conf --free_running=1", nil, ""},
		"a program that only sounds so":            {"chronyd-exporter", "chronyd", nil, ""},
		"a process without arguments":              {"ptp4l", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			masters, err := Find(machine(t, process{pid: 77, comm: test.comm, arguments: strings.Fields(test.arguments), files: test.files},
				process{pid: 78, comm: "bash", arguments: []string{"bash"}}))
			var want []Master
			if test.want != "" {
				want = []Master{{Program: test.want, PID: 77}}
			}
			if err != nil || !slices.Equal(masters, want) {
				t.Errorf("found %v, %v, want %v", masters, err, want)
			}
		})
	}
}

func TestAProcessThatMayNotSetTheClockIsNoMaster(t *testing.T) {
	for name, master := range map[string]process{
		"without CAP_SYS_TIME":      {capEff: "00000000a80425fb"},
		"in another user namespace": {uidMap: "         0     100000      65536\n"},
	} {
		t.Run(name, func(t *testing.T) {
			master.pid, master.comm, master.arguments = 7, "chronyd", []string{"chronyd"}
			if masters, err := Find(machine(t, master)); err != nil || len(masters) > 0 {
				t.Errorf("found %v, %v", masters, err)
			}
		})
	}
	with := process{pid: 7, comm: "chronyd", arguments: []string{"chronyd"}, capEff: "0000000002000000"}
	if masters, err := Find(machine(t, with)); err != nil || len(masters) != 1 {
		t.Errorf("with CAP_SYS_TIME alone: found %v, %v", masters, err)
	}
}

func TestTwoAreFoundAndAHelperIsNotASecondOne(t *testing.T) {
	masters, err := Find(machine(t,
		process{pid: 40, parent: 1, comm: "chronyd", arguments: []string{"chronyd"}},
		process{pid: 41, parent: 40, comm: "chronyd", arguments: []string{"chronyd"}},
		process{pid: 9, parent: 1, comm: "phc2sys", arguments: []string{"phc2sys", "-s", "eth0"}}))
	if want := []Master{{Program: "phc2sys", PID: 9}, {Program: "chronyd", PID: 40}}; err != nil || !slices.Equal(masters, want) {
		t.Errorf("found %v, %v, want %v", masters, err, want)
	}
}

// unknown is a ptp4l of which nobody can tell.
func unknown(path string) []Master { return []Master{{Program: "ptp4l", PID: 5, Unread: path}} }

func TestAPipeInPlaceOfAConfigurationIsNotReadFromForever(t *testing.T) {
	proc := machine(t, process{pid: 5, comm: "ptp4l", arguments: []string{"ptp4l", "-f", "/dev/zero"}, files: map[string]string{"dev/null": ""}})
	testlab.Must(t, os.Symlink("/dev/zero", filepath.Join(proc, "5", "root", "dev", "zero")))
	if masters, err := Find(proc); err != nil || !slices.Equal(masters, unknown("/dev/zero")) {
		t.Errorf("found %v, %v", masters, err)
	}
}

func TestAConfigurationThatCannotBeReadDoesNotCountAsNone(t *testing.T) {
	for name, arguments := range map[string][]string{
		"whose file is not to be read":      {"ptp4l", "-f", "/etc/p.conf"},
		"that stamps in software, it seems": {"ptp4l", "-S", "-mf", "/etc/p.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			masters, err := Find(machine(t, process{pid: 5, comm: "ptp4l", arguments: arguments}))
			if err != nil || !slices.Equal(masters, unknown("/etc/p.conf")) {
				t.Fatalf("found %v, %v", masters, err)
			}
			if message := masters[0].String(); message != "ptp4l (process 5), whose configuration /etc/p.conf cannot be read," {
				t.Errorf("it is named %q", message)
			}
		})
	}
}

func TestAMachineWithoutProcIsAnError(t *testing.T) {
	if _, err := Find(filepath.Join(t.TempDir(), "proc")); err == nil {
		t.Error("nothing was wrong")
	}
}
