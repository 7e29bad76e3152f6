// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"net"
	"slices"
	"strings"
	"testing"
)

func TestAGuestThatCannotBeIsRefusedWithAReason(t *testing.T) {
	fits := Guest{VhostSocket: "/run/v.sock", Queues: 4, Processors: 2, Class: "queue"}
	for name, test := range map[string]struct {
		change func(*Guest)
		reason string
	}{
		"valid":                 {func(*Guest) {}, ""},
		"one processor":         {func(g *Guest) { g.Processors = 1 }, "several need a virtual machine with two processors or more"},
		"no queue":              {func(g *Guest) { g.Queues = 0 }, "1 to 8"},
		"too many queues":       {func(g *Guest) { g.Queues = 9 }, "1 to 8"},
		"unknown class":         {func(g *Guest) { g.Class = "dscp" }, `class "dscp" is none of [record pcp queue]`},
		"class of single queue": {func(g *Guest) { g.Queues = 1 }, "all frames would be of one class"},
		"relative path":         {func(g *Guest) { g.VhostSocket = "v.sock" }, "no absolute path"},
	} {
		guest := fits
		test.change(&guest)
		err := guest.Check()
		if (err == nil) != (test.reason == "") || err != nil && !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: %v, want %q", name, err, test.reason)
		}
	}
}

func TestGuestArguments(t *testing.T) {
	guest := Guest{Socket: "/run/ktsn/pods/x/app.sock", VhostSocket: "/run/a&b.sock", Queues: 4, Processors: 4, Class: "pcp", Records: true}
	address := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	qemu := strings.Join(guest.QEMU(address), "\n")
	for _, want := range []string{"share=on", "path=/run/a&b.sock,server=on", "queues=4", "mac=02:00:00:00:00:01,mq=on,vectors=10"} {
		if !strings.Contains(qemu, want) {
			t.Errorf("QEMU's arguments lack %q:\n%s", want, qemu)
		}
	}
	libvirt := guest.Libvirt(address)
	for _, want := range []string{"path='/run/a&amp;b.sock' mode='server'", "queues='4'", "access mode='shared'"} {
		if !strings.Contains(libvirt, want) {
			t.Errorf("libvirt's elements lack %q:\n%s", want, libvirt)
		}
	}
	given := &guestFiles{counters: &counters{}}
	arguments := guest.order(&Program{}, given).arguments
	for _, want := range []string{"--connect", "--records", "pcp", "app.sock"} {
		if !slices.Contains(arguments, want) {
			t.Errorf("the relay's arguments lack %q: %q", want, arguments)
		}
	}
	guest.RelayListens = true
	if strings.Contains(strings.Join(guest.QEMU(address), " "), "server=on") || !strings.Contains(guest.Libvirt(address), "mode='client'") ||
		slices.Contains(guest.order(&Program{}, given).arguments, "--connect") {
		t.Error("both listen")
	}
}
