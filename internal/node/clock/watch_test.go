// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	facebook "github.com/facebook/time/ptp/protocol"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l/ptp4ltest"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// patience is how long something may take on a machine that is busy.
const patience = 20 * time.Second

// bench is a folder with the socket of a ptp4l of the test, and nobody else who knows of clocks.
func bench(t *testing.T) Options {
	t.Helper()
	folder, err := os.MkdirTemp("", "clock")
	testlab.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return Options{PTPSockets: []string{filepath.Join(folder, "ptp4l")}, LocalDir: filepath.Join(folder, "local"),
		ChronyAddresses: []string{filepath.Join(folder, "chronyd.sock")}, Proc: "-", Interval: 50 * time.Millisecond,
		Card: func(string) (phc.Device, error) { return nil, errors.New("no card") }}
}

func watch(t *testing.T, options Options) *Watcher {
	t.Helper()
	w, err := Watch(t.Context(), options)
	testlab.Must(t, err)
	t.Cleanup(w.Close)
	return w
}

// ticking is a ptp4l that gets a Sync message each 20 ms.
func ticking(t *testing.T, options Options) *ptp4ltest.Server {
	t.Helper()
	server := ptp4ltest.Start(t, options.PTPSockets[0], ptp4ltest.Clock{Own: 1, Grandmaster: 2, OffsetNs: 300, IngressNs: 1, PathDelayNs: 4000,
		StepsRemoved: 1, Class: 6, Accuracy: 0x20, Ports: []ptp4ltest.Port{{Interface: "eth0", State: facebook.PortStateSlave}}})
	var quiet atomic.Bool
	t.Cleanup(func() { quiet.Store(true) })
	go func() {
		for !quiet.Load() {
			time.Sleep(20 * time.Millisecond)
			server.Change(func(c *ptp4ltest.Clock) { c.IngressNs++ })
		}
	}()
	return server
}

// await waits for an estimate.
func await(t *testing.T, w *Watcher, what string, holds func(Estimate) bool) Estimate {
	t.Helper()
	var e Estimate
	timeout := time.After(patience)
	for {
		select {
		case e = <-w.Changes():
			if holds(e) {
				return e
			}
		case <-timeout:
			t.Fatalf("not seen: %s; the last estimate is %+v", what, e)
		}
	}
}

func synchronized(e Estimate) bool { return e.Source == PTP && e.Lost.IsZero() && e.Bound > 4*us }

func lostBy(reason string) func(Estimate) bool {
	return func(e Estimate) bool { return e.Why.Reason == reason }
}

func TestAPtp4lIsFollowedThroughItsEndAndReturn(t *testing.T) {
	t.Parallel()
	options := bench(t)
	w := watch(t, options)
	await(t, w, "nobody", lostBy(ReasonNobody))
	server := ticking(t, options)
	e := await(t, w, "a ptp4l that was started", synchronized)
	if e.Parts.PathDelay != 4*us || e.Parts.Accuracy != 25 || e.Offset != 300 || e.Grandmaster != "000000.0000.000002" || len(e.Ports) != 1 {
		t.Errorf("got %+v", e)
	}
	server.Stop()
	if e := await(t, w, "its end", lostBy(ReasonPTPGone)); e.Source != PTP || e.Lost.IsZero() || e.Bound < 4*us {
		t.Errorf("got %+v", e)
	}
	testlab.Must(t, os.Remove(options.PTPSockets[0]))
	ticking(t, options)
	await(t, w, "its return", synchronized)
}

func TestAChangeIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	options := bench(t)
	options.Interval = time.Hour
	server := ticking(t, options)
	w := watch(t, options)
	deadline := time.Now().Add(patience)
	server.Change(func(c *ptp4ltest.Clock) { c.Ports[0].State = facebook.PortStateListening })
	for !server.Notify() {
		if time.Now().After(deadline) {
			t.Fatal("nobody has subscribed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	await(t, w, "a port that listens", lostBy(ReasonPortLost))
}

func TestASocketThatIsNotBelievedIsNamed(t *testing.T) {
	t.Parallel()
	options := bench(t)
	ticking(t, options)
	testlab.Must(t, os.Chmod(options.PTPSockets[0], 0o666))
	w := watch(t, options)
	if e := <-w.Changes(); e.Source != None || e.Why.Reason != ReasonSocketRefused || !strings.Contains(e.Why.Sentence, "mode 0666") {
		t.Errorf("got %+v", e)
	}
}

func TestAPtp4lThatDoesNotAnswerIsLostAndAnotherChangeOfItsSocketIsTried(t *testing.T) {
	t.Parallel()
	options := bench(t)
	server := ticking(t, options)
	w := watch(t, options)
	await(t, w, "a ptp4l", synchronized)
	silent := time.Now()
	server.Change(func(c *ptp4ltest.Clock) { c.Silent = true })
	await(t, w, "its silence", lostBy(ReasonPTPGone))
	if took := time.Since(silent); took > patience/2 {
		t.Errorf("it took %v", took)
	}
	server.Change(func(c *ptp4ltest.Clock) { c.Silent = false })
	await(t, w, "its answers", synchronized)
}

func TestASocketThatAnotherProgramLeftBehindHidesNoPtp4l(t *testing.T) {
	t.Parallel()
	options := bench(t)
	left := options.PTPSockets[0] + ".left"
	ptp4ltest.Start(t, left, ptp4ltest.Clock{}).Stop()
	ticking(t, options)
	options.PTPSockets = []string{left, options.PTPSockets[0]}
	await(t, watch(t, options), "the one that runs", synchronized)
}

// simulated is a card's clock.
type simulated struct {
	ahead  time.Duration
	broken bool
	closed *atomic.Int32
}

func (s *simulated) Compare() (phc.Reading, error) {
	if s.broken {
		return phc.Reading{}, errors.New("device is gone")
	}
	return phc.Reading{Ahead: s.ahead, Exact: 50}, nil
}

func (s *simulated) Close() { s.closed.Add(1) }

func TestTheClockOfACardIsComparedWithTheSystems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		card  *simulated
		part  time.Duration
		fault string
	}{
		"one that can be read": {&simulated{ahead: -700}, 750, ""},
		"one that cannot":      {&simulated{broken: true}, 0, "card of eth0, which cannot be compared with the system's: device is gone"},
		"one without a device": {nil, 0, "no such device; nor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := bench(t)
			var closed atomic.Int32
			options.Card = func(interfaceName string) (phc.Device, error) {
				if test.card == nil || interfaceName != "eth0" {
					return nil, errors.New("no such device")
				}
				test.card.closed = &closed
				return test.card, nil
			}
			server := ticking(t, options)
			server.Change(func(c *ptp4ltest.Clock) { c.Ports[0].Hardware = true })
			w := watch(t, options)
			if test.fault == "" {
				if e := await(t, w, "the card's part", synchronized); e.Parts.Card != test.part {
					t.Errorf("the card's part is %v, want %v", e.Parts.Card, test.part)
				}
			} else if e := await(t, w, "a fault", lostBy(ReasonCardClock)); !strings.Contains(e.Why.Sentence, test.fault) {
				t.Errorf("got %q", e.Why.Sentence)
			}
			w.Close()
			if test.card != nil && closed.Load() == 0 {
				t.Error("the card was not closed")
			}
		})
	}
}

func TestWhatIsPublishedOfACardCountsWhereItCannotBeOpened(t *testing.T) {
	t.Parallel()
	options := bench(t)
	server := ticking(t, options)
	server.Change(func(c *ptp4ltest.Clock) { c.Ports[0].Hardware = true })
	testlab.Must(t, phc.Publish(filepath.Dir(options.PTPSockets[0]), "eth0", phc.Reading{Ahead: 600, Exact: 100}))
	w := watch(t, options)
	if e := await(t, w, "the card's part", synchronized); e.Parts.Card < 700 || e.Parts.Card > 4*us {
		t.Errorf("the card's part is %v", e.Parts.Card)
	}
	e := await(t, w, "that nobody publishes it any more", lostBy(ReasonCardClock))
	if !strings.Contains(e.Why.Sentence, "no card; nor") || !strings.Contains(e.Why.Sentence, "is ktsn-ptp still running?") {
		t.Errorf("got %q", e.Why.Sentence)
	}
}

func TestTwoMastersAreNamed(t *testing.T) {
	t.Parallel()
	options := bench(t)
	options.Proc = t.TempDir()
	for pid, name := range map[string]string{"12": "chronyd", "34": "phc2sys"} {
		folder := filepath.Join(options.Proc, pid)
		for file, text := range map[string]string{"comm": name + "\n", "cmdline": name + "\x00", "uid_map": "0 0 4294967295\n",
			"status": "CapEff:\t000001ffffffffff\n", "stat": pid + " (x) S 1"} {
			testlab.Must(t, errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600)))
		}
	}
	e := <-watch(t, options).Changes()
	if len(e.Faults) != 1 || e.Faults[0].Reason != ReasonTwoClockMasters ||
		!strings.Contains(e.Faults[0].Sentence, "chronyd (process 12), phc2sys (process 34) all set CLOCK_REALTIME") {
		t.Errorf("got %+v", e.Faults)
	}
}
