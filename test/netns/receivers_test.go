// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const receiverIdentity = "receiver"

var (
	receiverAddress = netip.MustParseAddr("10.42.1.4")
	receiverGroup   = netip.MustParseAddr("239.1.1.1")
	everybody       = netip.MustParseAddr("10.42.255.255")
)

// receiverLoad is a third pod on node a with sockets that make each received frame expensive, and the rate of frames to
// it.
type receiverLoad struct {
	sockets  int
	filtered bool // each with a filter of about 20 us
	to       netip.Addr
	every    time.Duration
}

// receiverModes are the neighbour's modes of sending to such a pod. "few" is a harmless sender.
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

// farReceiver is a mode in which the third pod is pod b on the other node.
const farReceiver = "receivers-far"

// addReceiver attaches the third pod and makes it reachable for the neighbour.
func (h *hostile) addReceiver(t *testing.T, client *control.Client) {
	t.Helper()
	h.receiver = addPod(t, h.lab.NodeA, "3", receiverAddress)
	for _, pod := range []*topology.Namespace{h.pod, h.receiver} {
		ip(t, pod, "route", "replace", "239.0.0.0/8", "dev", topology.PodInterface)
	}
	onBridge(t, client, hostileIdentity, h.pod)
	onBridge(t, client, receiverIdentity, h.receiver)
}

// startSending opens the sockets and then sends to them from the neighbour for a while.
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

// on runs a command on the neighbour's CPUs.
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

// TestReceiverDelaysNoDepartures checks departures next to 1,000 members with filters, which were 7 ms late at p90 in
// each turn when messages to pods of the node had no threads of their own. Next to 5,000 sockets they were 20 us late,
// too little for a limit on a busy machine: make chaos alone measures that mode.
func TestReceiverDelaysNoDepartures(t *testing.T) {
	timing(t)
	if runtime.NumCPU() < 2 {
		t.Skip("one processor: the receiver has the one that ktsnd has")
	}
	const turns, length = 2, 300 * time.Millisecond
	modes := []string{alone, "receivers-filter-1000"}
	checkP90(t, withNeighbor(t, modes, turns, length, 0, (*hostile).addReceiver))
}

// TestExpensiveReceiverIsLimited also checks that messages waiting for such a receiver are counted when it ends.
func TestExpensiveReceiverIsLimited(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	enemy.addReceiver(t, client)
	receiving, sending := enemy.startSending(t, receiverModes["receivers-filter-1000"], time.Second)
	if results := sending.results(t); results["messages"] == 0 {
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

// alsoPodAddressB is a second address of pod b.
var alsoPodAddressB = topology.PodAddressB.Next()

// shapedDatagram is the information that ktsn-test-shapes puts into each datagram, and that of the receiver.
type shapedDatagram struct {
	label string
	// txtimeTAI is 0 for a datagram without a time, port 0 if the sender did not know it.
	txtimeTAI int64
	port      uint16
	to        netip.Addr

	source      netip.AddrPort
	destination netip.Addr
	// stampTAI is the kernel's time of the arrival, readTAI that of reading it.
	stampTAI, readTAI int64
}

// shapedReceiver receives datagrams on both addresses of pod b.
type shapedReceiver struct {
	mu        sync.Mutex
	datagrams []shapedDatagram
	err       error
}

// addAddress adds the second address of pod b.
func (l *lab) addAddress(t *testing.T) {
	t.Helper()
	command := exec.Command("ip", "address", "add", alsoPodAddressB.String()+"/16", "dev", topology.PodInterface)
	must(t, finish(t, start(t, l.PodB, "ip", command)))
}

// listenShaped receives until the end of the test.
func (l *lab) listenShaped(t *testing.T) *shapedReceiver {
	t.Helper()
	receiver := &shapedReceiver{}
	for _, address := range []netip.Addr{topology.PodAddressB, alsoPodAddressB} {
		conn := l.listenStamped(t, address)
		var done sync.WaitGroup
		done.Go(func() { receiver.run(conn, address) })
		t.Cleanup(func() {
			conn.Close()
			done.Wait()
		})
	}
	return receiver
}

// listenStamped opens a socket in pod b with the kernel's receive stamps.
func (l *lab) listenStamped(t *testing.T, address netip.Addr) *net.UDPConn {
	t.Helper()
	conn := listen(t, l.PodB, "udp", netip.AddrPortFrom(address, listenPort))
	raw, err := conn.SyscallConn()
	must(t, err)
	var optionErr error
	err = raw.Control(func(fd uintptr) {
		optionErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	must(t, errors.Join(err, optionErr))
	return conn
}

func (r *shapedReceiver) run(conn *net.UDPConn, address netip.Addr) {
	buffer, control := make([]byte, 2000), make([]byte, 256)
	for {
		length, controlLength, _, source, err := conn.ReadMsgUDPAddrPort(buffer, control)
		if err != nil {
			return
		}
		datagram := shapedDatagram{source: source, destination: address, readTAI: testlab.ClockNow(unix.CLOCK_TAI)}
		datagram.stampTAI, err = stampOf(control[:controlLength])
		if err == nil {
			err = datagram.read(string(buffer[:length]))
		}
		r.mu.Lock()
		if err != nil {
			r.err = fmt.Errorf("datagram %q: %w", buffer[:length], err)
		}
		r.datagrams = append(r.datagrams, datagram)
		r.mu.Unlock()
	}
}

// read parses the sender's information from the text of a datagram.
func (d *shapedDatagram) read(text string) error {
	var to string
	_, err := fmt.Sscan(text, &d.label, &d.txtimeTAI, &d.port, &to)
	if err == nil {
		d.to, err = netip.ParseAddr(to)
	}
	return err
}

func (r *shapedReceiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.datagrams)
}

// take waits for count datagrams until a timeout, and a little longer for unexpected ones. It returns them in the order
// of arrival.
func (r *shapedReceiver) take(t *testing.T, count int, allowed time.Duration) []shapedDatagram {
	t.Helper()
	for deadline := time.Now().Add(allowed); r.count() < count && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		t.Error(r.err)
	}
	slices.SortStableFunc(r.datagrams, func(a, b shapedDatagram) int { return int(a.stampTAI - b.stampTAI) })
	taken := r.datagrams
	r.datagrams, r.err = nil, nil
	return taken
}

// stampOf returns the kernel's stamp of CLOCK_REALTIME, converted to CLOCK_TAI.
func stampOf(control []byte) (int64, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	for _, message := range messages {
		if message.Header.Type == unix.SCM_TIMESTAMPNS && len(message.Data) == 16 {
			seconds := int64(binary.NativeEndian.Uint64(message.Data))
			nanoseconds := int64(binary.NativeEndian.Uint64(message.Data[8:]))
			return seconds*int64(time.Second) + nanoseconds + testlab.TAIOffset(), nil
		}
	}
	return 0, fmt.Errorf("it carries no time stamp")
}
