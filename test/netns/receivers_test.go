// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"net/netip"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const receiverIdentity = "receiver"

var (
	receiverAddress = netip.MustParseAddr("10.42.1.4")
	receiverGroup   = netip.MustParseAddr("239.1.1.1")
	everybody       = netip.MustParseAddr("10.42.255.255")
)

// receiverLoad is sockets of a third pod on node a that make each frame expensive to receive, and how often it is sent one.
type receiverLoad struct {
	sockets  int
	filtered bool // each with a filter that takes some 20 us
	to       netip.Addr
	every    time.Duration
}

// receiverModes are what the neighbour sends to such a pod. "few" is a sender that means no harm.
var receiverModes = map[string]receiverLoad{
	"receivers-5000":          {5000, false, receiverAddress, time.Millisecond},
	"receivers-20000":         {20000, false, receiverAddress, time.Millisecond},
	"receivers-broadcast":     {2000, false, everybody, time.Millisecond},
	"receivers-group":         {2000, false, receiverGroup, time.Millisecond},
	"receivers-filter":        {1, true, receiverAddress, time.Millisecond},
	"receivers-filter-50":     {50, true, receiverGroup, 2 * time.Millisecond},
	"receivers-filter-1000":   {1000, true, receiverGroup, 20 * time.Millisecond},
	"receivers-filter-second": {1000, true, receiverGroup, time.Second},
	"receivers-filter-few":    {1000, true, receiverGroup, 100 * time.Millisecond},
	farReceiver:               {8000, false, topology.PodAddressB, time.Millisecond},
}

// farReceiver is a mode in which the third pod is pod b, on the other node.
const farReceiver = "receivers-far"

// addReceiver attaches the third pod, and has the neighbour reach it.
func (h *hostile) addReceiver(t *testing.T, client *control.Client) {
	t.Helper()
	h.receiver = addPod(t, h.lab.NodeA, "3", receiverAddress)
	for _, pod := range []*topology.Namespace{h.pod, h.receiver} {
		ip(t, pod, "route", "replace", "239.0.0.0/8", "dev", topology.PodInterface)
	}
	onBridge(t, client, hostileIdentity, h.pod)
	onBridge(t, client, receiverIdentity, h.receiver)
}

// startSending opens the sockets and then has the neighbour send to them for a while.
func (h *hostile) startSending(t *testing.T, to receiverLoad, duration time.Duration) (receiving, sending *attack) {
	t.Helper()
	mode := "receivers"
	if to.filtered {
		mode = "receivers-filter"
	}
	at := netip.AddrPortFrom(to.to, hostilePort+1)
	receiving = startAttack(t, h.receiver, mode, h.on(withCount(attackOf(t, h.socket, mode, at, duration+patience), to.sockets)))
	awaitLog(t, receiving.Process, "begun")
	sending = startAttack(t, h.pod, "steady", h.on(withCount(attackOf(t, h.socket, "steady", at, duration), int(to.every/time.Microsecond))))
	return receiving, sending
}

// on runs a command on the processors that the neighbour may have.
func (h *hostile) on(command *exec.Cmd) *exec.Cmd {
	if h.cpus == "" {
		return command
	}
	return exec.Command("taskset", append([]string{"-c", h.cpus}, command.Args...)...)
}

func withCount(command *exec.Cmd, count int) *exec.Cmd {
	command.Args = append(command.Args, strconv.Itoa(count))
	return command
}

// Before messages to pods of the node had threads of their own, departures were 7 ms late at p90 beside 1,000 members with filters, in
// each turn. Beside 5,000 sockets they were 20 us late: a limit that a busy machine keeps cannot tell that from nothing, so make chaos
// alone measures that mode.
func TestReceiverDelaysNoDepartures(t *testing.T) {
	timing(t)
	if runtime.NumCPU() < 2 {
		t.Skip("one processor: the receiver has the one that ktsnd has")
	}
	const turns, length = 2, 300 * time.Millisecond
	modes := []string{alone, "receivers-filter-1000"}
	checkP90(t, withNeighbor(t, modes, turns, length, 0, (*hostile).addReceiver))
}

// TestExpensiveReceiverIsLimited checks also that what waits for such a receiver is counted when it goes.
func TestExpensiveReceiverIsLimited(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	enemy.addReceiver(t, client)
	receiving, sending := enemy.startSending(t, receiverModes["receivers-filter-1000"], time.Second)
	if results := sending.achieved(t); results["messages"] == 0 {
		t.Errorf("the neighbour sent nothing: %v", results)
	}
	if counted := awaitSettled(t, client); counted.ShareReceiver == 0 {
		t.Error("the receiver never had more than its share")
	}
	kill(t, receiving.Process)
	ip(t, lab.NodeA, "link", "del", "pod3")
	awaitCounters(t, client, "what waited for the receiver is counted", func(counted control.Counters) bool { return counted.DeliveryFailed > 0 })
	checkBooks(t, awaitSettled(t, client))
}
