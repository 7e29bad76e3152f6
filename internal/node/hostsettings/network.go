// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"fmt"
	"strings"
	"time"
)

// Card has settings of a network card.
type Card struct {
	// EEE: Energy-Efficient Ethernet (IEEE Std 802.3, clause 78) is on; nil: unknown to the driver.
	EEE *bool
	// Coalescing delays interrupts; nil: unknown to the driver.
	Coalescing *Coalescing
	// GRO, LRO: received packets are joined.
	GRO, LRO bool
}

// Coalescing is how long a card may delay interrupts.
type Coalescing struct {
	ReceiveUs, TransmitUs uint32
	Adaptive              bool
}

// hardware reports whether the uplink is the interface of a hardware device.
func (r *reader) hardware() bool {
	_, present := r.text("sys/class/net/%s/device/uevent", r.ktsnd.Interface)
	return r.ktsnd.Interface != "" && present
}

// card returns the settings of the uplink's card, nil for a software interface.
func (r *reader) card() *Card {
	if !r.hardware() {
		return nil
	}
	return r.Card(r.ktsnd.Interface)
}

func (r *reader) cardNode() {
	const name = "NUMA node of the uplink"
	node, known := r.number("sys/class/net/%s/device/numa_node", r.ktsnd.Interface)
	local := r.nodeOf(r.ktsnd.CPU)
	switch {
	case !r.severalNodes():
		r.good(name, "the machine has one node")
	case !known || node < 0:
		r.good(name, "unknown")
	case local < 0:
		r.costs(name, fmt.Sprintf("%d, and ktsnd may run on all", node), "what the loop and the card exchange crosses the machine's interconnect",
			fmt.Sprintf("give ktsnd a processor of node %d", node))
	case int64(local) != node:
		r.costs(name, fmt.Sprintf("%d, and ktsnd's processor is of node %d", node, local),
			"what the loop and the card exchange crosses the machine's interconnect",
			fmt.Sprintf("give ktsnd a processor of node %d; kubelet does with topologyManagerPolicy: single-numa-node", node))
	default:
		r.good(name, fmt.Sprintf("%d, as that of ktsnd's processor", node))
	}
}

func (r *reader) link() {
	const name = "link speed"
	speed, known := r.number("sys/class/net/%s/speed", r.ktsnd.Interface)
	switch {
	case r.ktsnd.Interface == "":
		r.good(name, "no ktsnd says which interface is the uplink")
	case !known || speed <= 0:
		r.good(name, r.ktsnd.Interface+" does not say; give ktsnd --link-speed where schedules need it")
	case speed < 1000:
		r.costs(name, fmt.Sprintf("%s has %d Mbit/s", r.ktsnd.Interface, speed), "a frame of 1522 bytes occupies the link for "+wireTime(speed)+", and others wait for it",
			"see the cable and the negotiation (`ethtool "+r.ktsnd.Interface+"`)")
	default:
		r.good(name, fmt.Sprintf("%s has %d Mbit/s: a frame of 1522 bytes takes %s", r.ktsnd.Interface, speed, wireTime(speed)))
	}
}

// wireTime returns the time on the wire of the longest tagged frame, with preamble and gap.
func wireTime(mbps int64) string {
	const bits = (1522 + 20) * 8
	return (time.Duration(bits) * time.Microsecond / time.Duration(mbps)).String()
}

func (r *reader) energyEfficient() {
	const name = "Energy-Efficient Ethernet"
	card := r.card()
	switch {
	case card == nil || card.EEE == nil:
		r.good(name, "the uplink's driver has none, or does not say")
	case *card.EEE:
		r.costs(name, "on", "the first frame after a pause waits until the link is awake: 30 µs at 100 Mbit/s, 16.5 µs at 1 Gbit/s, 7.4 µs at 10 Gbit/s",
			"`ethtool --set-eee "+r.ktsnd.Interface+" eee off`")
	default:
		r.good(name, "off")
	}
}

func (r *reader) coalescing() {
	const name = "interrupt coalescing"
	card := r.card()
	if card == nil || card.Coalescing == nil {
		r.good(name, "the uplink's driver has none, or does not say")
		return
	}
	c := card.Coalescing
	state := fmt.Sprintf("receive %d µs, transmit %d µs, adaptive %v", c.ReceiveUs, c.TransmitUs, c.Adaptive)
	if c.ReceiveUs <= latencyUs && !c.Adaptive {
		r.good(name, state)
		return
	}
	cost := fmt.Sprintf("a message that arrives waits up to %d µs in the card", c.ReceiveUs)
	if c.Adaptive {
		cost = "a message that arrives waits in the card, for as long as the driver finds right at the time"
	}
	r.costs(name, state, cost+"; departures do not wait", "`ethtool -C "+r.ktsnd.Interface+" adaptive-rx off rx-usecs 0`, at the cost of more interrupts")
}

func (r *reader) offloads() {
	const name = "receive offloads"
	card := r.card()
	if card == nil {
		r.good(name, "the uplink's driver does not say")
		return
	}
	var on []string
	if card.GRO {
		on = append(on, "gro")
	}
	if card.LRO {
		on = append(on, "lro")
	}
	switch {
	case card.LRO:
		r.costs(name, strings.Join(on, ", ")+" on", "the card may keep a frame back to join it with the next one, and bridges do not forward joined frames rightly",
			"`ethtool -K "+r.ktsnd.Interface+" lro off`")
	case card.GRO:
		r.good(name, "gro on: the kernel joins only what is there already")
	default:
		r.good(name, "off")
	}
}
