// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"io/fs"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// Whoever can write to it makes and removes endpoints.
func TestControlSocketIsPrivate(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	info, err := os.Stat(lab.control)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode.Type() != fs.ModeSocket || mode.Perm() != 0o600 {
		t.Errorf("the control socket has mode %v, want a socket of 0600", mode)
	}
}

// A pod that has a socket of another network namespace, handed over by one of its programs, cannot send in that one's name.
func TestSocketOfOtherNamespaceIsRejected(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	// From pod b, through the file system: the socket that it hands over is of pod b's namespace.
	ip(t, lab.PodB, "link", "set", "lo", "up")
	asked := startAt(t, lab.PodB, enemy.socket, "foreign", netip.AddrPortFrom(topology.PodAddressA, listenPort), time.Second)
	if results := asked.achieved(t); results["refused"] != 1 || results["errno"] != 1 {
		t.Errorf("a socket of another network namespace: %v; want it refused with EPERM (1)", results)
	}
}
