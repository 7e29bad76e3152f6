// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"log/slog"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
)

// Defaults of Options.
var (
	// DefaultPTPSockets are those of the chart's ptp4l, and of one that Debian's package starts.
	DefaultPTPSockets = []string{"/run/ktsn/ptp/ptp4l", "/run/ptp4l", "/var/run/ptp4l"}
	// DefaultChronyAddresses are chronyd's socket, and its command port, which a container without that socket reaches.
	DefaultChronyAddresses = []string{"/run/chrony/chronyd.sock", "127.0.0.1:323"}
)

// DefaultLocalDir is where sockets to ptp4l are, for ptp4l to answer to.
const DefaultLocalDir = "/run/ktsn/clock"

// DefaultDriftFloorPPB is the least drift of an oscillator that is left alone for a minute: that of a change of temperature by one degree.
const DefaultDriftFloorPPB = 200

// Options of a Watcher. What is empty has the default.
type Options struct {
	// PTPSockets are where ptp4l's management socket may be: the first that exists is used.
	PTPSockets []string
	// LocalDir is a folder of the watcher's own.
	LocalDir string
	// ChronyAddresses are where chronyd may be: the path of its socket, or host:port of its command port. By default the port is asked only
	// while a chronyd that may set the clock is seen in Proc.
	ChronyAddresses []string
	provenChrony    bool
	// Proc is where the machine's processes are; "-": nobody looks there for programs that set the clock.
	Proc string
	// DriftFloorPPB is the least drift that is reckoned with; UnknownAccuracy the error of a grandmaster that announces none: 0, because
	// the time of a domain is its grandmaster's.
	DriftFloorPPB   int64
	UnknownAccuracy time.Duration
	// Interval between two looks.
	Interval time.Duration
	// Card opens the clock of an interface's card.
	Card func(name string) (phc.Device, error)
	// Log is told what changed, and what does not work.
	Log *slog.Logger
}

func (o *Options) complete() {
	if len(o.PTPSockets) == 0 {
		o.PTPSockets = DefaultPTPSockets
	}
	if o.LocalDir == "" {
		o.LocalDir = DefaultLocalDir
	}
	if len(o.ChronyAddresses) == 0 {
		o.ChronyAddresses, o.provenChrony = DefaultChronyAddresses, true
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.DriftFloorPPB == 0 {
		o.DriftFloorPPB = DefaultDriftFloorPPB
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Card == nil {
		o.Card = phc.Open
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
