// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// arrival is one datagram as a plain UDP socket in pod b saw it.
type arrival struct {
	text   string
	source netip.AddrPort
	at     time.Time
}

// receive listens in pod b, lets send happen, and returns count datagrams in the order of arrival.
func (l *lab) receive(t *testing.T, count int, send func()) []arrival {
	t.Helper()
	listener := listen(t, l.PodB, "udp4", netip.AddrPortFrom(topology.PodAddressB, listenPort))
	defer listener.Close()
	send()
	var arrivals []arrival
	buffer := make([]byte, 2000)
	for range count {
		_ = listener.SetReadDeadline(time.Now().Add(patience))
		length, source, err := listener.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatalf("after %d of %d datagrams: %v", len(arrivals), count, err)
		}
		arrivals = append(arrivals, arrival{string(buffer[:length]), source, time.Now()})
	}
	return arrivals
}

func TestMessagesLeaveInTimeOrder(t *testing.T) {
	content(t)
	lab := newLab(t)
	sender := program(t, "ktsn-test-send")
	_, client := lab.startDaemon(t)
	// So far apart that no disturbance of the machine keeps the program from the calls until the first has left.
	for name, test := range map[string]struct {
		options  []string
		messages []string
		want     []string
	}{
		"the last call leaves first": {nil,
			[]string{"900000:third", "600000:second", "300000:first"}, []string{"first", "second", "third"}},
		"calls in order stay in order": {nil,
			[]string{"300000:first", "600000:second", "900000:third"}, []string{"first", "second", "third"}},
		"on a socket that is not connected": {[]string{"--unconnected"},
			[]string{"900000:third", "300000:first", "600000:second"}, []string{"first", "second", "third"}},
		"on a socket with a port of its own": {[]string{"--bind", "6100"},
			[]string{"600000:second", "300000:first"}, []string{"first", "second"}},
		"on one with neither": {[]string{"--unconnected", "--bind", "6101"},
			[]string{"600000:second", "300000:first"}, []string{"first", "second"}},
		"a time that has passed leaves at once": {nil,
			[]string{"500000:later", "-1000:late"}, []string{"late", "later"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := counters(t, client)
			arguments := append(slices.Clone(test.options), topology.PodAddressB.String(), "7788")
			command := exec.Command(sender, append(arguments, test.messages...)...)
			command.Env = lab.preloaded(t)
			var began time.Time
			arrivals := lab.receive(t, len(test.messages), func() {
				began = time.Now()
				if err := finish(t, start(t, lab.PodA, "ktsn-test-send", command)); err != nil {
					t.Fatal(err)
				}
			})
			var texts []string
			for _, arrival := range arrivals {
				texts = append(texts, arrival.text)
				if arrival.source.Addr() != topology.PodAddressA {
					t.Errorf("%q came from %s", arrival.text, arrival.source)
				}
			}
			if !slices.Equal(texts, test.want) {
				t.Errorf("arrived in the order %q, want %q", texts, test.want)
			}
			if last := arrivals[len(arrivals)-1]; last.at.Sub(began) < 500*time.Millisecond {
				t.Errorf("%q arrived after %v", last.text, last.at.Sub(began))
			}
			if taken := awaitSettled(t, client).Taken - before.Taken; taken != uint64(len(test.messages)) {
				t.Errorf("ktsnd took %d messages, want %d", taken, len(test.messages))
			}
		})
	}
}
