// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// replacements are what came of a flow's messages while ktsnd was replaced several times.
type replacements struct {
	*flow
	counted sum
	// pauses are how long no message left, as the successors say; gaps how long none arrived.
	pauses, gaps []time.Duration
	// log is what all ktsnds logged.
	log string
}

// gapsIn are the longest times between arrivals in each of the periods.
func gapsIn(received []tsnperf.Received, periods [][2]int64) []time.Duration {
	gaps := make([]time.Duration, len(periods))
	for i := 1; i < len(received); i++ {
		from, to := received[i-1].Arrival, received[i].Arrival
		for n, period := range periods {
			if to > period[0] && from < period[1] {
				gaps[n] = max(gaps[n], time.Duration(to-from))
			}
		}
	}
	return gaps
}

// replaceUnderLoad has a talker send a message a millisecond while ktsnd is replaced so many times, by one that says that.
func (l *lab) replaceUnderLoad(t *testing.T, daemon *process.Process, client *control.Client, times int, says string, options ...string) *replacements {
	t.Helper()
	result := &replacements{flow: l.startFlow(t, "--cycle", "1ms", "--lead", "20ms")}
	var periods [][2]int64
	for range times {
		awaitTaken(t, client, 200)
		begin, before := clockTAI(), daemon
		daemon, client = l.takeOver(t, daemon, options...)
		result.pauses = append(result.pauses, paused(t, daemon))
		awaitLog(t, daemon, says)
		result.log += before.Stderr()
		periods = append(periods, [2]int64{begin, clockTAI()})
	}
	awaitTaken(t, client, 200)
	result.counted.add(result.end(t, client))
	result.log += daemon.Stderr()
	result.gaps = gapsIn(result.received, periods)
	return result
}

func (r *replacements) record(t *testing.T, port string) {
	t.Helper()
	name := "replaced in place over " + port + ": "
	record(t,
		reported(name+"pause in departures, p50", milliseconds(quantile(r.pauses, 0.5)), "ms"),
		reported(name+"pause in departures, max", milliseconds(quantile(r.pauses, 1)), "ms"),
		reported(name+"gap between arrivals, p50", milliseconds(quantile(r.gaps, 0.5)), "ms"),
		reported(name+"gap between arrivals, max", milliseconds(quantile(r.gaps, 1)), "ms"),
		reported(name+"messages lost", float64(len(r.lost(t))), ""))
}

// Open vSwitch is connected to the successor before its predecessor lets go, and its predecessor ends when Open vSwitch has fetched
// all: nothing is lost.
func TestReplaceUnderLoadKeepsOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	result := lab.replaceUnderLoad(t, daemon, client, shortOrLong(3, 25), "Open vSwitch is connected", lab.uplink()...)
	if counted := result.counted; counted.uncertain != 0 || counted.dropped != 0 || counted.astray != 0 {
		t.Errorf("%d messages are uncertain, %d dropped, %d went the kernel's way", counted.uncertain, counted.dropped, counted.astray)
	}
	// Where Open vSwitch stands still for --stale-after, as on a busy machine, frames are withdrawn, and the next message, which the
	// port refused first, is dropped.
	frames, times := withdrawnIn(t, result.log)
	if lost := result.lost(t); len(lost) > frames+times {
		t.Errorf("of %d messages %d were lost, %d frames of them withdrawn in %d standstills: %d", len(result.sent), len(lost), frames, times, lost)
	}
	if strings.Contains(result.log, "has not fetched") {
		t.Errorf("a ktsnd that was replaced did not wait until Open vSwitch had fetched all; they say: %s", result.log)
	}
	if strings.Contains(result.log, "is not connected") {
		t.Errorf("Open vSwitch was not connected when a ktsnd took over; they say: %s", result.log)
	}
	lab.awaitConnected(t)
	result.record(t, "OVS")
}

// notFetched is what a ktsnd says of the frames that Open vSwitch had not fetched when it ended.
var notFetched = regexp.MustCompile(`Open vSwitch has not fetched the last (\d+) frames`)

func TestReplacedKtsndReportsFramesNotFetched(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	talker := lab.startTalker(t, filepath.Join(lab.Dir, "talker.csv"), "--cycle", "20ms", "--lead", "40ms")
	awaitCounters(t, client, "messages are sent", func(c control.Counters) bool { return c.Sent >= 5 })
	lab.stopAnswering(t)
	// It waits for Open vSwitch, in vain, and goes on.
	lab.takeOver(t, daemon, lab.uplink()...)
	interrupt(t, talker)
	match := notFetched.FindStringSubmatch(daemon.Stderr())
	if match == nil {
		t.Fatalf("it does not say so but: %s", daemon.Stderr())
	}
	// It notices within --stale-after that nothing is fetched, and puts no more frames into the queue.
	const queue = 512
	if count, err := strconv.Atoi(match[1]); err != nil || count < 1 || count > queue {
		t.Errorf("with a message each 20 ms, it is %s frames", match[1])
	}
}

// As an older version of `ktsn ovs setup` left it: Open vSwitch knows one name of a socket only, and connects to the successor when
// it has lost the predecessor.
func TestTakeOverWithSingleOpenVSwitchSocket(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	lab.vsctl(t, "del-port", ovs.BridgeInternal, "ktsnd2")
	daemon, client := lab.startOVSDaemon(t)
	awaitLog(t, daemon, "Open vSwitch is connected")
	result := lab.replaceUnderLoad(t, daemon, client, 1, "Open vSwitch is connected to "+lab.node.VhostSocket()+"\n", lab.uplink()...)
	output, err := lab.ktsn(t, "status")
	if err == nil || !strings.Contains(output, "there is no port ktsnd2 on br-int") {
		t.Errorf("status does not say what is missing but %v: %s", err, output)
	}
	t.Logf("%d sent, %d lost", len(result.sent), len(result.lost(t)))
	result.checkWentOn(t, 20)
	if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil {
		t.Errorf("it cannot be set up again: %v: %s", err, output)
	}
	lab.awaitConnected(t)
}
