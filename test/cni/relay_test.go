// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// unit is the systemd unit that runs relays on a node without Kubernetes.
const unit = "../../packaging/systemd/ktsn-relay.service"

// boundingSet returns the unit's bounding set in the syntax of setpriv.
func boundingSet(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(unit)
	must(t, err)
	_, line, ok := strings.Cut(string(text), "\nCapabilityBoundingSet=")
	if !ok {
		t.Fatalf("%s has no CapabilityBoundingSet", unit)
	}
	line, _, _ = strings.Cut(line, "\n")
	set := []string{"-all"}
	for _, capability := range strings.Fields(line) {
		set = append(set, "+"+strings.ToLower(strings.TrimPrefix(capability, "CAP_")))
	}
	return strings.Join(set, ",")
}

// runRelays starts `ktsn node relay` with the privileges of the unit.
func (n *node) runRelays(t *testing.T) *process.Process {
	t.Helper()
	command := exec.Command("setpriv", "--bounding-set", boundingSet(t), "--inh-caps", "-all", "--no-new-privs", program(t, "ktsn"), "node", "relay",
		"--state-dir", filepath.Join(n.dir, "state"), "--relay-binary", program(t, "ktsn-relay"), "--vhost-relay-binary", program(t, "ktsn-relay-vhost"))
	n.relays = start(t, n, "ktsn node relay", command)
	return n.relays
}

// checkRelays fails the test early if relays cannot be started.
func (n *node) checkRelays(t *testing.T) {
	t.Helper()
	if n.relays == nil {
		return
	}
	if log := n.relays.Stderr(); strings.Contains(log, "permission denied") {
		t.Fatalf("relays cannot be started: %s", log)
	}
}

// taps returns the devices of the node's relays. Each existing device has a reader.
func (n *node) taps(t *testing.T) map[string]int {
	t.Helper()
	taps := map[string]int{}
	must(t, n.Do(func() error {
		links, err := netlink.LinkList()
		for _, link := range links {
			if name := link.Attrs().Name; strings.HasPrefix(name, "ktsnr") {
				taps[name] = link.Attrs().Index
			}
		}
		if errors.Is(err, netlink.ErrDumpInterrupted) { // the caller retries
			return nil
		}
		return err
	}))
	return taps
}

// awaitTaps waits until the node has count devices of relays and the programs at the pods' ports use them.
func (n *node) awaitTaps(t *testing.T, pods ...*pod) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		taps, known := n.taps(t), 0
		for _, pod := range pods {
			for _, index := range taps {
				if index == pod.port(t).RelayIfindex {
					known++
				}
			}
		}
		if len(taps) == len(pods) && known == len(pods) {
			return nil
		}
		n.checkRelays(t)
		return fmt.Errorf("there are the taps %v, and the programs of %d of %d pods know theirs", taps, known, len(pods))
	})
}

func TestRelaysFollowPods(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	config := lab.a.config(nil)
	first, second := lab.a.newPod(t), lab.a.newPod(t)
	first.add(t, config)
	relays := lab.a.runRelays(t)
	lab.a.awaitTaps(t, first)
	second.add(t, config)
	lab.a.awaitTaps(t, first, second)
	must(t, lab.a.runtime.DelNetworkList(t.Context(), list(t, config), first.attachment()))
	lab.a.awaitTaps(t, second)

	// A killed supervisor leaves nothing, and the next one starts from the beginning.
	must(t, unix.Kill(relays.PID(), unix.SIGKILL))
	_ = relays.Wait()
	lab.a.awaitTaps(t)
	relays = lab.a.runRelays(t)
	lab.a.awaitTaps(t, second)
	must(t, relays.Stop(patience))
	lab.a.awaitTaps(t)
}
