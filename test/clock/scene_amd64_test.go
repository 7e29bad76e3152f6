// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/test/clock/lab"
	"github.com/kubernetsn/kubernetsn/test/clock/shared"
)

const (
	// exchanges of counters, before and after all scenarios.
	exchanges = 10_000
	// step is the initial error of the subject's clock, ppm its permanent rate error.
	step = 3 * time.Second
	ppm  = 100
)

// strict is the need for figures.
var strict = clock.Need{MaxError: time.Millisecond, Holdover: 10 * time.Second}

// needs returns the needs for the subject's clock: the guest evaluates normal, the test evaluates patient from the same
// estimates. The short form's needs tolerate any load of the machine: it only checks the order of events.
func needs() (normal, patient clock.Need) {
	normal = clock.Need{MaxError: 5 * time.Millisecond, Holdover: 10 * time.Second}
	if testing.Short() {
		normal = clock.Need{MaxError: time.Second, Holdover: 10 * time.Second}
	}
	return normal, clock.Need{MaxError: normal.MaxError, Holdover: time.Hour}
}

// scene has the guests on a network, one of which is monitored.
type scene struct {
	// t is the test of the scenario, whole the test of all.
	t, whole *testing.T
	machine  *lab.Machine
	network  *lab.Network
	// main and second can be grandmasters; second is nil until it is started. subject follows.
	main, second, subject *lab.Guest
	believer              *lab.Believer
	truths                map[string]*lab.Truth
	rows                  []row
	normal, patient       clock.Need
}

// newScene boots the guests.
func newScene(t *testing.T) *scene {
	t.Helper()
	machine := machine(t)
	if err := machine.Pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	network, err := lab.NewNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &scene{t: t, whole: t, machine: machine, network: network}
	s.normal, s.patient = needs()
	s.boot(map[**lab.Guest]lab.Plan{
		&s.main:    {Name: "main", Address: "10.9.0.1/24"},
		&s.subject: {Name: "subject", Address: "10.9.0.2/24", PPM: ppm},
	})
	s.exchange(s.guests()...)
	return s
}

// machine prepares the virtual machines.
func machine(t *testing.T) *lab.Machine {
	t.Helper()
	testlab.Root(t)
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		testlab.Missing(t, "qemu-system-x86_64 is missing; run scripts/install-deps.sh conformance")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "../../scripts/guest-kernel.sh")
	command.Stderr = os.Stderr
	folder, err := command.Output()
	if err != nil {
		testlab.Missing(t, "scripts/guest-kernel.sh: "+err.Error())
	}
	return &lab.Machine{Base: strings.TrimSpace(string(folder)), First: testlab.Program(t, "ktsn-clock-guest"),
		Programs: []string{testlab.Program(t, "ktsn"), testlab.Program(t, "ktsn-ptp")}, Dir: t.TempDir()}
}

// boot boots all guests in parallel.
func (s *scene) boot(plans map[**lab.Guest]lab.Plan) {
	s.t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for guest, plan := range plans {
		all.Go(func() {
			booted, err := s.machine.Boot(s.whole.Context(), s.network, plan)
			mu.Lock()
			defer mu.Unlock()
			*guest, failed = booted, errors.Join(failed, err)
		})
	}
	all.Wait()
	for at := range plans {
		guest := *at
		if guest == nil {
			continue
		}
		s.favour(guest)
		s.whole.Cleanup(func() {
			if console := guest.End(); s.whole.Failed() {
				s.whole.Logf("the console of %s: %s", guest.Name, console)
				s.whole.Log(tail(guest.Said("ptp"), 30))
			}
			if table := os.Getenv("KTSN_CLOCKS_TABLE"); table != "" {
				s.record(filepath.Join(filepath.Dir(table), guest.Name+".log"), guest)
			}
		})
	}
	s.must(failed)
}

// record writes the output of all programs of a guest.
func (s *scene) record(path string, guest *lab.Guest) {
	var text strings.Builder
	for _, name := range []string{"ptp", "clock"} {
		for _, message := range guest.Said(name) {
			fmt.Fprintln(&text, message.Line, message.Error)
		}
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		s.t.Error(err)
	}
}

func tail(messages []shared.Message, lines int) string {
	var text strings.Builder
	for _, message := range messages[max(0, len(messages)-lines):] {
		fmt.Fprintln(&text, message.Line, message.Error)
	}
	return text.String()
}

func (s *scene) guests() []*lab.Guest {
	var guests []*lab.Guest
	for _, guest := range []*lab.Guest{s.main, s.second, s.subject} {
		if guest != nil {
			guests = append(guests, guest)
		}
	}
	return guests
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) exchange(guests ...*lab.Guest) {
	s.t.Helper()
	for _, guest := range guests {
		s.must(guest.Exchange(s.t.Context(), exchanges))
	}
}

// favour gives a guest priority. If the kernel refuses, the bounds have to cover the machine's jitter as well. In the
// short form they have to anyway, and parallel tests are not disturbed.
func (s *scene) favour(guest *lab.Guest) {
	if testing.Short() {
		return
	}
	if err := guest.Favour(); err != nil {
		s.t.Log(err)
	}
}

// keep synchronises a guest's clock by PTP.
func (s *scene) keep(guest *lab.Guest, options ...string) {
	s.t.Helper()
	s.must(guest.Start(s.t.Context(), "ptp", append([]string{"/bin/ktsn-ptp", "--device", "eth0"}, options...)...))
}

// awaitLine waits until ktsn-ptp or its ptp4l logs words.
func (s *scene) awaitLine(guest *lab.Guest, words string) {
	s.t.Helper()
	for until := time.Now().Add(settles); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		for _, message := range guest.Said("ptp") {
			if strings.Contains(message.Line, words) {
				return
			}
		}
	}
	s.t.Fatalf("ptp4l of %s did not log %q; its log:\n%s", guest.Name, words, tail(guest.Said("ptp"), 10))
}

// watch monitors the subject's clock.
func (s *scene) watch() {
	s.t.Helper()
	s.believer = &lab.Believer{Guest: s.subject, Name: "clock"}
	s.must(s.subject.Start(s.t.Context(), s.believer.Name, "/bin/ktsn", "node", "clock", "--follow", "-o", "json",
		"--max-error", s.normal.MaxError.String(), "--holdover", s.normal.Holdover.String()))
}

// beliefs returns the beliefs so far, for a need.
func (s *scene) beliefs(need clock.Need) []lab.Belief {
	s.t.Helper()
	beliefs, err := s.believer.Beliefs()
	s.must(err)
	if need != s.normal {
		beliefs = lab.Judge(beliefs, need)
	}
	return beliefs
}

// now returns the number of the next belief.
func (s *scene) now() int {
	s.t.Helper()
	return len(s.beliefs(s.normal))
}

// await waits for the first belief from a number on that satisfies so, and returns its number.
func (s *scene) await(what string, need clock.Need, from int, patience time.Duration, so func(belief *lab.Belief) bool) int {
	s.t.Helper()
	for until := time.Now().Add(patience); ; {
		beliefs := s.beliefs(need)
		for i := from; i < len(beliefs); i++ {
			if so(&beliefs[i]) {
				return i
			}
		}
		if time.Now().After(until) {
			last := "nothing"
			if len(beliefs) > from {
				last = describe(&beliefs[len(beliefs)-1])
			}
			s.t.Fatalf("%s: not within %v; the last belief: %s", what, patience, last)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func describe(belief *lab.Belief) string {
	return fmt.Sprintf("%s (%s), bound %v (%+v), %s %s: %s", belief.State, belief.Reason, time.Duration(belief.BoundNs), belief.Parts, belief.Source,
		belief.Grandmaster, belief.Sentence)
}

func is(state clock.State) func(*lab.Belief) bool {
	return func(belief *lab.Belief) bool { return belief.State == state }
}

// wrong returns the current error of the subject's clock relative to the main guest's.
func (s *scene) wrong() time.Duration {
	s.t.Helper()
	time.Sleep(4 * guestclock.SampleEvery)
	readings := s.subject.Readings(0)
	truth := lab.NewTruth(s.main.Readings(0))
	for i := len(readings) - 1; i >= 0; i-- {
		if wrong, _, known := truth.Error(readings[i]); known {
			return wrong
		}
	}
	s.t.Fatal("no reading of the subject's clock is beside two of the main guest's")
	return 0
}
