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

// DefaultDriftFloorPPB is the smallest assumed drift of an oscillator within a minute: that of a change of temperature by one degree.
const DefaultDriftFloorPPB = 200

// Options configure a Watcher. Zero values stand for defaults.
type Options struct {
	// PTPSockets are the possible paths of ptp4l's management socket; the first that exists is used.
	PTPSockets []string
	// LocalDir is the folder for the watcher's own sockets.
	LocalDir string
	// ChronyAddresses are the possible addresses of chronyd: the path of its socket, or host:port of its command port. By default the port
	// is used only while Proc has a chronyd that may set the clock.
	ChronyAddresses []string
	provenChrony    bool
	// Proc is the machine's /proc; "-": programs that set the clock are not searched for.
	Proc string
	// DriftFloorPPB is the smallest assumed drift. UnknownAccuracy is the assumed error of a grandmaster that announces none: 0, because
	// the time of a domain is its grandmaster's.
	DriftFloorPPB   int64
	UnknownAccuracy time.Duration
	// Interval is the time between two observations.
	Interval time.Duration
	// Card opens the clock of an interface's card.
	Card func(name string) (phc.Device, error)
	// Log gets changes and errors.
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
