// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// examples is the folder of the programs of docs/guide/applications.md.
const examples = "../../examples"

// example is a pair of programs in one language.
type example struct {
	sender, receiver []string
	// cycle is the unit of the sender's cycle: microseconds, but for Go.
	cycle string
	// reports: libktsn serves the sender, which gets reports of dropped datagrams.
	reports bool
}

// builtExamples returns the pairs by language, in a folder that every user can enter.
func builtExamples(t *testing.T) map[string]example {
	t.Helper()
	dir := publicDir(t)
	build := func(name, compiler string, arguments ...string) string {
		t.Helper()
		path, err := exec.LookPath(compiler)
		if err != nil {
			testlab.Missing(t, compiler+" is missing; scripts/install-deps.sh test")
		}
		built := filepath.Join(dir, name)
		output, err := exec.Command(path, append(arguments, "-o", built)...).CombinedOutput()
		if err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, output)
		}
		must(t, os.Chmod(built, 0o755)) // whatever the umask
		return built
	}
	c := func(name string) string {
		return build("c-"+name, "cc", "-O2", "-Wall", "-Wextra", "-Werror", examples+"/c/"+name+".c")
	}
	// The package comes last in a command of Go.
	golang := func(name string) string {
		t.Helper()
		built := filepath.Join(dir, "go-"+name)
		output, err := exec.Command("go", "build", "-o", built, examples+"/go/"+name).CombinedOutput()
		if err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, output)
		}
		must(t, os.Chmod(built, 0o755)) // whatever the umask
		return built
	}
	rust := func(name string) string {
		return build("rust-"+name, "rustc", "--edition", "2021", "-O", examples+"/rust/"+name+".rs")
	}
	script := func(name string) []string { return []string{python(t), examples + "/python/" + name + ".py"} }
	c("minimal")
	return map[string]example{
		"C":      {[]string{c("sender")}, []string{c("receiver")}, "", true},
		"Go":     {[]string{golang("send")}, []string{golang("receive")}, "us", false},
		"Python": {script("sender"), script("receiver"), "", true},
		"Rust":   {[]string{rust("sender")}, []string{rust("receiver")}, "", true},
	}
}

func commandOf(words []string, further ...string) *exec.Cmd {
	return exec.Command(words[0], append(words[1:len(words):len(words)], further...)...)
}

// receive starts the receiver in pod b, which uses the kernel.
func (e *example) receive(t *testing.T, c *captured, count int) dialogue {
	t.Helper()
	receiver := startDialogue(t, c.PodB, "receiver", commandOf(e.receiver, strconv.Itoa(listenPort), strconv.Itoa(count)))
	if line := receiver.line(t); line != "listening" {
		t.Fatalf("the receiver prints %q", line)
	}
	return receiver
}

// send starts the sender in pod a as a user without privileges. The interpreter of Python may be in a folder of root.
func (e *example) send(t *testing.T, c *captured, to netip.Addr, count int, cycle time.Duration) dialogue {
	t.Helper()
	command := commandOf(e.sender, to.String(), strconv.Itoa(listenPort), strconv.Itoa(count),
		strconv.FormatInt(cycle.Microseconds(), 10)+e.cycle)
	command.Env = c.preloadedForNobody(t)
	if len(e.sender) == 1 {
		asNobody(command)
	}
	return startDialogue(t, c.PodA, "sender", command)
}

var (
	arrivalLine = regexp.MustCompile(`^([0-9]+): arrived at ([0-9]+), latency (-?[0-9.]+) us$`)
	summaryLine = regexp.MustCompile(`^([0-9]+) datagrams: ([0-9]+) not sent, (?:([0-9]+) dropped, )?([0-9]+) handed over after their time$`)
)

// TestExamples runs the programs of docs/guide/applications.md as a user without privileges.
func TestExamples(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.Timed)
	c.openSocket(t)
	built := builtExamples(t)
	for language, programs := range built {
		for family, address := range map[string]netip.Addr{"IPv4": topology.PodAddressB, "IPv6": podAddress6B} {
			t.Run(language+" over "+family, func(t *testing.T) { programs.checkOnTime(t, c, address) })
		}
		t.Run(language+" before the peer listens", func(t *testing.T) { programs.checkAwaitsPeer(t, c) })
	}
	for language, programs := range built {
		if programs.reports {
			t.Run(language+" to an address of no pod", func(t *testing.T) {
				t.Parallel()
				programs.checkReports(t, c)
			})
		}
	}
}

// checkOnTime checks that all datagrams leave in order and not early, and that the receiver prints them.
func (e *example) checkOnTime(t *testing.T, c *captured, to netip.Addr) {
	t.Helper()
	const count = 100
	receiver := e.receive(t, c, count)
	tap := c.openTap(t, count)
	sender := e.send(t, c, to, count, 2*time.Millisecond)
	for number := range count {
		fields := arrivalLine.FindStringSubmatch(receiver.line(t))
		if fields == nil || fields[1] != strconv.Itoa(number) || strings.HasPrefix(fields[3], "-") {
			t.Fatalf("in place %d the receiver printed %q", number, receiver.stdout.Text())
		}
	}
	receiver.awaitEnd(t)
	fields := summaryLine.FindStringSubmatch(sender.line(t))
	if fields == nil || fields[1] != strconv.Itoa(count) || fields[2] != "0" || fields[3] != "0" && e.reports {
		t.Errorf("the sender printed %q; its log: %s", sender.stdout.Text(), sender.Stderr())
	}
	sender.awaitEnd(t)
	checkInOrder(t, awaitMarks(t, tap, count), count, unix.CLOCK_TAI)
}

// checkAwaitsPeer checks that the sender survives the time in which nobody listens: the peer's node answers that the
// port is closed.
func (e *example) checkAwaitsPeer(t *testing.T, c *captured) {
	t.Helper()
	sender := e.send(t, c, topology.PodAddressB, 10000, 10*time.Millisecond)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if log := sender.Stderr(); !strings.Contains(strings.ToLower(log), "connection refused") {
			return fmt.Errorf("the sender logs %q", log)
		}
		return nil
	})
	receiver := e.receive(t, c, 20)
	receiver.awaitEnd(t)
	must(t, sender.Stop(patience))
}

// checkReports checks that the sender prints reports of datagrams to an address that no pod has.
func (e *example) checkReports(t *testing.T, c *captured) {
	t.Helper()
	const count = 40 // longer than the kernel looks for the neighbour
	sender := e.send(t, c, topology.PodAddressB.Next(), count, 100*time.Millisecond)
	if line := sender.line(t); !strings.HasPrefix(line, "dropped: the datagram at ") || !strings.HasSuffix(line, " missed its time") {
		t.Errorf("the sender printed %q; its log: %s", line, sender.Stderr())
	}
	must(t, sender.Stop(patience))
}
