// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"errors"
	"slices"
	"testing"
	"time"

	facebook "github.com/facebook/time/ptp/protocol"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/chrony"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/masters"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l/ptp4ltest"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// newObserver returns one as a Watcher has it.
func newObserver(t *testing.T, options Options) *observer {
	t.Helper()
	options.complete()
	o := &observer{options: options, wake: func() {}}
	t.Cleanup(o.close)
	return o
}

func TestLooksGoOnWhileASilentPtp4lIsAsked(t *testing.T) {
	t.Parallel()
	options := bench(t)
	server := ptp4ltest.Start(t, options.PTPSockets[0], ptp4ltest.Clock{Domain: 77, Own: 1, Grandmaster: 1, Silent: true,
		Ports: []ptp4ltest.Port{{Interface: "eth0", State: facebook.PortStateMaster}}})
	o := newObserver(t, options)
	looks := 0
	for deadline := time.Now().Add(patience); looks == 0 || o.tried[options.PTPSockets[0]].dialing != nil; looks++ {
		if seen := o.observe(t.Context()); seen.ptp != nil || seen.noPTP.Reason != ReasonPTPGone {
			t.Fatalf("got %+v", seen)
		}
		if time.Now().After(deadline) {
			t.Fatal("it is still being asked")
		}
		time.Sleep(time.Millisecond)
	}
	if asked := server.Asked(facebook.IDDefaultDataSet); asked == 0 || looks < 4 {
		t.Errorf("%d looks while it was asked %d times", looks, asked)
	}

	asked := server.Asked(facebook.IDDefaultDataSet)
	tried := o.tried[options.PTPSockets[0]]
	for tried.nextTry = (time.Time{}); tried.nextTry.IsZero(); time.Sleep(time.Millisecond) {
		o.observe(t.Context())
	}
	if again := server.Asked(facebook.IDDefaultDataSet); again != asked {
		t.Error("it was asked in all domains a second time")
	}

	server.Change(func(c *ptp4ltest.Clock) { c.Silent = false })
	tried.nextTry, tried.searched = time.Time{}, time.Time{}
	awaitPTP(t, o)
}

// awaitPTP observes until ptp4l has answered.
func awaitPTP(t *testing.T, o *observer) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		if o.ptp == nil {
			o.observe(t.Context())
			return errors.New("ptp4l has not answered")
		}
		return nil
	})
}

func TestAPtp4lWhoseDomainIsKnownIsFoundThereAgain(t *testing.T) {
	t.Parallel()
	options := bench(t)
	ptp4ltest.Start(t, options.PTPSockets[0], ptp4ltest.Clock{Domain: 77, Own: 1, Grandmaster: 1,
		Ports: []ptp4ltest.Port{{Interface: "eth0", State: facebook.PortStateMaster}}})
	o := newObserver(t, options)
	awaitPTP(t, o)
	o.hangUp()
	o.tried[options.PTPSockets[0]].searched = time.Now().Add(time.Hour) // other domains are not asked
	awaitPTP(t, o)
}

func TestChronysPortIsAskedOnlyWhereAChronydRuns(t *testing.T) {
	t.Parallel()
	const socket, port = "/run/chrony/chronyd.sock", "127.0.0.1:323"
	runs := []masters.Master{{Program: "chronyd", PID: 5}}
	for name, test := range map[string]struct {
		given   []string
		masters []masters.Master
		want    []string
	}{
		"where one runs":                  {nil, runs, []string{socket, port}},
		"where none does":                 {nil, nil, []string{socket}},
		"where another program does":      {nil, []masters.Master{{Program: "ntpd", PID: 5}}, []string{socket}},
		"where somebody names the port":   {[]string{port}, nil, []string{port}},
		"where somebody names the socket": {[]string{"/other"}, nil, []string{"/other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserver(t, Options{ChronyAddresses: test.given})
			o.masters = test.masters
			if got := o.chronyAddresses(); !slices.Equal(got, test.want) {
				t.Errorf("it asks %v, want %v", got, test.want)
			}
		})
	}
}

func TestOneAnswerOfChronydThatIsMissedIsNoLoss(t *testing.T) {
	t.Parallel()
	var o observer
	answer := &chrony.Tracking{}
	asked := time.Unix(1, 0)
	o.hearChrony(answer, asked)
	if o.hearChrony(nil, asked.Add(time.Second)); o.tracking != answer || !o.chronyAsked.Equal(asked) || o.askedChrony.Equal(asked) {
		t.Errorf("one missed: %+v", o)
	}
	if o.hearChrony(nil, asked.Add(2*time.Second)); o.tracking != nil {
		t.Errorf("two missed: %+v", o)
	}
	o.hearChrony(answer, asked)
	if o.hearChrony(nil, asked.Add(time.Second)); o.tracking != answer {
		t.Errorf("one missed after an answer: %+v", o)
	}
}
