// SPDX-License-Identifier: Apache-2.0

// Package kernelconfig lists the options that the kernel of a virtual machine needs for time-sensitive networking, writes them as a
// fragment of a kernel's configuration, and compares a configuration with them.
package kernelconfig

// Part is a feature that needs options.
type Part string

// Parts of time-sensitive networking in a virtual machine.
const (
	// Held is for frames that the host holds until their time: the program of ktsn-guest.
	Held Part = "held"
	// Released is for frames that the machine's own queueing disciplines release.
	Released Part = "released"
	// Clock is for the machine's clock: PTP on a card of its own, and that of the host.
	Clock Part = "clock"
	// Card is for passed-through network cards.
	Card Part = "card"
)

// Parts lists all parts.
var Parts = []Part{Held, Released, Clock, Card}

// Option is a kernel option.
type Option struct {
	// Name is the name without CONFIG_.
	Name string
	Part Part
	// For describes what does not work without the option.
	For string
	// Comfort is set if the option is not required.
	Comfort bool
}

// Options lists all options, in the order of the fragment.
var Options = []Option{
	{Name: "VIRTIO_NET", Part: Held, For: "the machine's network device"},
	{Name: "NET_SCHED", Part: Held, For: "queueing disciplines"},
	{Name: "NET_CLS_ACT", Part: Held, For: "the program's place at the interface (clsact)"},
	{Name: "NET_SCH_INGRESS", Part: Held, For: "the program's place at the interface (clsact)"},
	{Name: "NET_CLS_BPF", Part: Held, For: "the program at the interface"},
	{Name: "BPF_SYSCALL", Part: Held, For: "the program at the interface"},
	{Name: "BPF_JIT", Part: Held, For: "the program at the interface"},
	{Name: "PERF_EVENTS", Part: Held, For: "BPF_EVENTS"},
	{Name: "FTRACE", Part: Held, For: "BPF_EVENTS, with uprobes or with these", Comfort: true},
	{Name: "KPROBES", Part: Held, For: "BPF_EVENTS, with uprobes or with these", Comfort: true},
	{Name: "KPROBE_EVENTS", Part: Held, For: "BPF_EVENTS, with uprobes or with these", Comfort: true},
	{Name: "BPF_EVENTS", Part: Held, For: "the program's look at a socket's clock"},
	{Name: "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT", Part: Held, For: "DEBUG_INFO_BTF, with this or another form", Comfort: true},
	{Name: "DEBUG_INFO_BTF", Part: Held, For: "the program's look at a socket's clock"},
	{Name: "VIRTIO_CONSOLE", Part: Held, For: "the port by which ktsn-guest asks for the host's time"},
	{Name: "VSOCKETS", Part: Held, For: "sockets to the host (vsock)", Comfort: true},
	{Name: "VIRTIO_VSOCKETS", Part: Held, For: "sockets to the host (vsock)", Comfort: true},

	{Name: "NET_SCH_TAPRIO", Part: Released, For: "the gates of 802.1Qbv (taprio)"},
	{Name: "NET_SCH_ETF", Part: Released, For: "transmit times (etf)"},
	{Name: "NET_SCH_MQPRIO", Part: Released, For: "a queue for each class without gates (mqprio)"},
	{Name: "VLAN_8021Q", Part: Released, For: "VLAN devices, whose tags have priorities"},

	{Name: "PTP_1588_CLOCK", Part: Clock, For: "the clock of a network card"},
	{Name: "NETWORK_PHY_TIMESTAMPING", Part: Clock, For: "time stamps of a network card's transceiver"},
	{Name: "PTP_1588_CLOCK_KVM", Part: Clock, For: "the host's clock as a device (ptp_kvm)"},

	{Name: "IGB", Part: Card, For: "Intel's I210 and I350"},
	{Name: "IGC", Part: Card, For: "Intel's I225 and I226"},

	{Name: "IKCONFIG", Part: Held, For: "ktsn-guest kernel check, which then needs no file", Comfort: true},
	{Name: "IKCONFIG_PROC", Part: Held, For: "ktsn-guest kernel check, which then needs no file", Comfort: true},
}
