// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// noClockIsSet are the options of every ktsn-ptp that starts a ptp4l here: all namespaces share this machine's clock.
var noClockIsSet = []string{"--free-running", "--time-stamping", "software"}

// clockNode is a node whose ktsn-ptp measures.
type clockNode struct {
	*topology.Namespace
	runDir string
}

// newClockNodes returns two nodes that reach each other, with Debian's linuxptp.
func newClockNodes(t *testing.T) (a, b *clockNode) {
	t.Helper()
	program(t, "ktsn-ptp")
	for _, name := range []string{"ptp4l", "pmc"} {
		if _, err := exec.LookPath("/usr/sbin/" + name); err != nil {
			testlab.Missing(t, name+" is missing; install Debian's package linuxptp")
		}
	}
	nodes, err := topology.Create(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if err := nodes.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return &clockNode{nodes.NodeA, filepath.Join(nodes.Dir, "a")}, &clockNode{nodes.NodeB, filepath.Join(nodes.Dir, "b")}
}

// keep starts a ktsn-ptp with short intervals, which logs to standard error.
func (n *clockNode) keep(t *testing.T, options ...string) *process.Process {
	t.Helper()
	all := slices.Concat([]string{"--device", topology.PhysicalInterface, "--run-dir", n.runDir, "--log-announce-interval", "-2", "--log-sync-interval", "-3",
		"--log-delay-interval", "-3"}, noClockIsSet, options)
	// The test reads its log and its error as one text.
	shell := exec.Command("/bin/sh", append([]string{"-c", `exec "$@" 1>&2`, "sh", program(t, "ktsn-ptp")}, all...)...)
	return start(t, n.Namespace, "ktsn-ptp", shell)
}

// ask queries ptp4l with Debian's pmc, like an operator.
func (n *clockNode) ask(t *testing.T, domain int, question string) string {
	t.Helper()
	var output []byte
	err := n.Do(func() (err error) {
		output, err = exec.CommandContext(t.Context(), "/usr/sbin/pmc", "-u", "-b", "0", "-d", strconv.Itoa(domain), "-s", filepath.Join(n.runDir, "ptp4l"),
			"-i", filepath.Join(n.runDir, "ktsn-ptp.pmc"), question).Output()
		return err
	})
	if err != nil {
		t.Fatalf("pmc: %v", err)
	}
	return string(output)
}

// field returns the value after a name in pmc's output.
func field(answer, name string) string {
	match := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(name) + `\s+(\S+)$`).FindStringSubmatch(answer)
	if match == nil {
		return ""
	}
	return match[1]
}

// awaitProbe waits until ktsn-ptp reports that its ptp4l answers.
func (n *clockNode) awaitProbe(t *testing.T, kept *process.Process, domain int) {
	t.Helper()
	testlab.Eventually(t, patience, 50*time.Millisecond, func() error {
		output, err := exec.CommandContext(t.Context(), program(t, "ktsn-ptp"), "probe", "--run-dir", n.runDir, "--domain", strconv.Itoa(domain)).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-kept.Done():
			t.Fatal(kept.Ended())
		default:
		}
		return fmt.Errorf("the probe reports %s", output)
	})
}

// awaitFollowing waits until a node follows a grandmaster and has measured its path delay.
func (n *clockNode) awaitFollowing(t *testing.T, kept *process.Process, grandmaster string, domain int, delay string) {
	t.Helper()
	testlab.Eventually(t, patience, 100*time.Millisecond, func() error {
		status := n.ask(t, domain, "GET TIME_STATUS_NP")
		port := n.ask(t, domain, "GET PORT_DATA_SET")
		current := n.ask(t, domain, "GET CURRENT_DATA_SET")
		measured := field(current, "meanPathDelay") + field(port, "peerMeanPathDelay")
		if field(status, "gmIdentity") == grandmaster && field(status, "gmPresent") == "true" && regexp.MustCompile(delay).MatchString(measured) {
			return nil
		}
		return fmt.Errorf("node b does not follow %s:\n%s%s%s\nits log: %s", grandmaster, status, port, current, kept.Stderr())
	})
}

// ptp4lOf returns the only child of a ktsn-ptp.
func ptp4lOf(t *testing.T, kept *process.Process) int {
	t.Helper()
	all, err := process.Children(kept.PID())
	if err != nil || len(all) != 1 {
		t.Fatalf("ktsn-ptp has the children %v, %v, want ptp4l", all, err)
	}
	return all[0]
}

// checkNothingLeft fails the test if a ktsn-ptp has left anything behind.
func (n *clockNode) checkNothingLeft(t *testing.T, ptp4l int) {
	t.Helper()
	if err := syscall.Kill(ptp4l, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("ptp4l, process %d, is still there: %v", ptp4l, err)
	}
	entries, err := os.ReadDir(n.runDir)
	must(t, err)
	for _, entry := range entries {
		t.Errorf("%s is left in the folder", entry.Name())
	}
}

// settings returns the settings of this machine that a clock daemon would change.
func settings(t *testing.T) string {
	t.Helper()
	var clock unix.Timex
	if _, err := unix.Adjtimex(&clock); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("frequency %d, tick %d, TAI offset %d", clock.Freq, clock.Tick, clock.Tai)
}

func TestPtpElectsGrandmasterAndMeasuresClocks(t *testing.T) {
	timing(t)
	for name, test := range map[string]struct {
		domain  int
		options []string
		delay   string
	}{
		"by the default profile over UDP": {0, nil, `^[1-9][0-9.]*0$`},
		"over Ethernet in another domain": {20, []string{"--transport", "L2", "--domain", "20"}, `^[1-9][0-9.]*0$`},
		"by gPTP":                         {3, []string{"--profile", "gptp", "--domain", "3"}, `^0\.0[1-9][0-9]*$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newClockNodes(t)
			before := settings(t)
			master, follower := a.keep(t, append(test.options, "--priority1", "10")...), b.keep(t, append(test.options, "--role", "receiver")...)
			a.awaitProbe(t, master, test.domain)
			b.awaitProbe(t, follower, test.domain)
			grandmaster := field(a.ask(t, test.domain, "GET PARENT_DATA_SET"), "grandmasterIdentity")
			b.awaitFollowing(t, follower, grandmaster, test.domain, test.delay)
			properties := b.ask(t, test.domain, "GET TIME_PROPERTIES_DATA_SET")
			if field(properties, "currentUtcOffset") != "37" || field(properties, "currentUtcOffsetValid") != "1" || field(properties, "timeTraceable") != "0" {
				t.Errorf("node b receives of TAI - UTC\n%s", properties)
			}
			for node, kept := range map[*clockNode]*process.Process{a: master, b: follower} {
				ptp4l := ptp4lOf(t, kept)
				must(t, syscall.Kill(kept.PID(), syscall.SIGTERM))
				if err := kept.Wait(); err != nil {
					t.Errorf("it ended with %v", err)
				}
				node.checkNothingLeft(t, ptp4l)
			}
			if after := settings(t); after != before {
				t.Errorf("this machine's clock has %s, before it had %s", after, before)
			}
		})
	}
}

func TestKtsnPtpEndsWithItsPtp4l(t *testing.T) {
	content(t)
	a, _ := newClockNodes(t)
	kept := a.keep(t)
	a.awaitProbe(t, kept, 0)
	ptp4l := ptp4lOf(t, kept)
	must(t, syscall.Kill(ptp4l, syscall.SIGKILL))
	if err := kept.Wait(); err == nil || !strings.Contains(kept.Stderr(), "ktsn-ptp: ptp4l ended by itself (signal: killed); it said last: ptp4l[") {
		t.Errorf("it ended with %v", err)
	}
	a.checkNothingLeft(t, ptp4l)
}

// TestKilledKtsnPtpEndsPtp4l checks that no ptp4l outlives a killed ktsn-ptp and that the next one starts.
func TestKilledKtsnPtpEndsPtp4l(t *testing.T) {
	content(t)
	a, _ := newClockNodes(t)
	kept := a.keep(t)
	a.awaitProbe(t, kept, 0)
	ptp4l := ptp4lOf(t, kept)
	must(t, syscall.Kill(kept.PID(), syscall.SIGKILL))
	<-kept.Done()
	// Init is now ptp4l's parent and reaps it.
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if !hasEnded(ptp4l) {
			return fmt.Errorf("ptp4l, process %d, continues", ptp4l)
		}
		return nil
	})
	must(t, os.WriteFile(filepath.Join(a.runDir, "ktsn-ptp.1"), nil, 0o600))
	next := a.keep(t)
	a.awaitProbe(t, next, 0)
	ptp4l = ptp4lOf(t, next)
	if err := next.Stop(patience); err != nil {
		t.Error(err)
	}
	a.checkNothingLeft(t, ptp4l)
}

func TestKtsnPtpReportsObstacles(t *testing.T) {
	content(t)
	a, _ := newClockNodes(t)
	// Not a real process: other tests search this machine's /proc for that name.
	proc := t.TempDir()
	must(t, os.Mkdir(filepath.Join(proc, "411"), 0o700))
	for name, text := range map[string]string{"comm": "chronyd\n", "cmdline": "/usr/sbin/chronyd\x00-F\x001\x00", "stat": "411 (chronyd) S 1 411",
		"uid_map": "0 0 4294967295\n", "status": "CapEff:\t0000000002000000\n"} {
		must(t, os.WriteFile(filepath.Join(proc, "411", name), []byte(text), 0o600))
	}
	kept := a.keep(t)
	a.awaitProbe(t, kept, 0)
	elsewhere := filepath.Join(t.TempDir(), "ptp")
	for name, test := range map[string]struct {
		options []string
		want    string
	}{
		// None of these may start ptp4l: the path does not exist.
		"another master of the clock": {[]string{"--device", topology.PhysicalInterface, "--run-dir", elsewhere, "--proc", proc}, "chronyd (process 411) keeps this node's clock already"},
		"another instance":            {[]string{"--device", topology.PhysicalInterface, "--run-dir", a.runDir}, "another ktsn-ptp runs on this node"},
		"no such interface":           {[]string{"--device", "eth9", "--run-dir", elsewhere}, "there is no interface eth9 on this node; it has " + topology.PhysicalInterface},
		"no clock in hardware":        {[]string{"--device", topology.PhysicalInterface, "--run-dir", elsewhere, "--time-stamping", "hardware"}, "interface " + topology.PhysicalInterface + " has no clock"},
	} {
		t.Run(name, func(t *testing.T) {
			ended, err := process.Start(a.Namespace, "ktsn-ptp", exec.Command(program(t, "ktsn-ptp"), append(test.options, "--ptp4l", "/nowhere/ptp4l")...))
			must(t, err)
			if err := ended.Wait(); err == nil || !strings.Contains(ended.Stderr(), test.want) || strings.Count(ended.Stderr(), "\n") != 1 {
				t.Errorf("it ended with %v, want %q", err, test.want)
			}
		})
	}
	a.awaitProbe(t, kept, 0) // the first one continues
}

// TestPtp4lAcceptsConfigurations runs ptp4l with the printed configurations for machines outside the cluster, including
// the example. Without a card with a clock it uses software timestamps and sets nothing.
func TestPtp4lAcceptsConfigurations(t *testing.T) {
	content(t)
	guest, err := os.ReadFile("../../examples/ptp4l-guest.conf")
	must(t, err)
	printed := func(options ...string) string {
		output, err := exec.CommandContext(t.Context(), program(t, "ktsn"), append([]string{"clock", "config", "--device", topology.PhysicalInterface}, options...)...).Output()
		if err != nil {
			t.Fatalf("ktsn clock config %q: %v", options, err)
		}
		return string(output)
	}
	for name, text := range map[string]string{
		"the example":               strings.Replace(string(guest), "[eth1]", "["+topology.PhysicalInterface+"]", 1),
		"a switch":                  printed("--role", "switch", "--transport", "L2"),
		"a receiver":                printed("--role", "receiver", "--servo", "linreg", "--delay-mechanism", "P2P", "--log-delay-interval", "-2"),
		"a grandmaster":             printed("--role", "grandmaster", "--priority1", "1", "--utc-offset", "38"),
		"a switch of gPTP":          printed("--role", "switch", "--profile", "gptp", "--domain", "7"),
		"a receiver of gPTP":        printed("--role", "receiver", "--profile", "gptp", "--log-delay-interval", "1"),
		"one with everything given": printed("--priority2", "9", "--log-sync-interval", "-3", "--log-announce-interval", "0", "--set", "step_threshold=0.5"),
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := newClockNodes(t)
			config, socket := filepath.Join(t.TempDir(), "ptp4l.conf"), filepath.Join(publicDir(t), "ptp4l")
			must(t, os.WriteFile(config, []byte(text), 0o600))
			// Command-line options override those of the file.
			ptp4l := start(t, a.Namespace, "ptp4l", exec.Command("/bin/sh", "-c", `exec "$@" 1>&2`, "sh", "/usr/sbin/ptp4l", "--free_running=1",
				"--time_stamping=software", "--uds_address="+socket, "-f", config, "-m", "-q"))
			testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
				if !strings.Contains(ptp4l.Stderr(), "port 1: INITIALIZING to LISTENING") {
					select {
					case <-ptp4l.Done():
						t.Fatal(ptp4l.Ended())
					default:
					}
					return fmt.Errorf("got %s", ptp4l.Stderr())
				}
				return nil
			})
		})
	}
}
