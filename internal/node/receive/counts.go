// SPDX-License-Identifier: Apache-2.0

package receive

import "fmt"

// reasons are the entries of the map `counts`, in order: enum ktsn_receive_count of datapath/receive/receive_maps.h.
var reasons = []struct{ name, text string }{
	{"received", "put into a ring"},
	{"full", "dropped, because the ring had no space"},
	{"redirected", "handed to the pod's interface, past tunnel and bridge"},
	{"no-endpoint", "for no pod that asked, or not for its tunnel"},
	{"not-host", "the uplink overheard them"},
	{"segments", "several packets in one"},
	{"tunnel", "the tunnel's headers are not those of a peer's packets"},
	{"peer", "of no peer, or with a source that is not behind it"},
	{"protocol", "no UDP over IP inside, or a VLAN tag"},
	{"fragment", "fragments"},
	{"options", "options of IPv4"},
	{"length", "lengths that contradict each other"},
	{"header", "the checksum of the header inside is wrong"},
	{"destination", "not to an address of the pod"},
	{"source", "from an address that nobody can have, or a link-local one"},
	{"no-socket", "for no socket with a ring"},
	{"foreign", "the socket is another pod's by now, or bound to a device"},
	{"packet-filter", "the pod has packet filters, which the kernel asks"},
	{"policy", "the pod has policies of IPsec, which the kernel asks"},
	{"cgroup-program", "the socket's cgroup has BPF programs, which the kernel asks"},
	{"reuseport-program", "a program chooses among sockets that share the port, which the kernel asks"},
	{"no-ring", "the ring has gone, or nobody reads it"},
	{"too-long", "longer than any record of a ring"},
	{"checksum", "the checksum of UDP is wrong, or missing with IPv6 or where the tunnel has one"},
}

const (
	countReceived = 0
	countFull     = 1
	countRedirect = 2
)

// Counts has the number of tunnel frames by outcome since the program's maps were created.
type Counts struct {
	// Received went into rings; Full were dropped because a ring had no space.
	Received uint64 `json:"received"`
	Full     uint64 `json:"full"`
	// Redirected went to the pod's interface, past tunnel and bridge.
	Redirected uint64 `json:"redirected"`
	// Left were left to the kernel, by reason.
	Left map[string]uint64 `json:"left"`
}

// Counts reads the counters.
func (m *Maps) Counts() (*Counts, error) {
	counts := &Counts{Left: map[string]uint64{}}
	for place, reason := range reasons {
		var each []uint64
		if err := m.counts.Lookup(uint32(place), &each); err != nil {
			return nil, fmt.Errorf("read the counters of the program for receive rings: %w", err)
		}
		var sum uint64
		for _, count := range each {
			sum += count
		}
		switch {
		case place == countReceived:
			counts.Received = sum
		case place == countFull:
			counts.Full = sum
		case place == countRedirect:
			counts.Redirected = sum
		case sum > 0:
			counts.Left[reason.name] = sum
		}
	}
	return counts, nil
}

// Explain describes a reason for which frames were left to the kernel.
func Explain(reason string) string {
	for _, known := range reasons {
		if known.name == reason {
			return known.text
		}
	}
	return reason
}
