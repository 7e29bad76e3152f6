// SPDX-License-Identifier: Apache-2.0

// Package throughput is the experiment of figures 3 and 4 of Osmani, Kauppinen, Komu, Tarkoma (Multi-Cloud Connectivity
// for Kubernetes in 5G Networks): throughput of TCP and UDP by iperf3, and latency by ping, over several networks and
// with several MTUs of the link, repeatedly and with standard errors, and the processor time of the networks'
// components.
package throughput

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/iperf3"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ping"
)

// Name is the experiment's name in profiles.
const Name = "throughput"

// The tests.
const (
	tcp  = "tcp"
	udp  = "udp"
	sctp = "sctp"
	echo = "ping"
)

// The underlays between the nodes.
const (
	flat   = "flat"
	routed = "routed"
)

// Experiment has the settings of a profile.
type Experiment struct {
	Tests []string `json:"tests"`
	// Underlays are one link, or a router, like between nodes of two clusters.
	Underlays []string `json:"underlays"`
	// MTUs are those of the link between the nodes; a tunnel uses part of them.
	MTUs []int `json:"mtus"`
	// Duration is how long each transfer is counted, after a second that is not.
	Duration time.Duration `json:"duration"`
	// BufferBytes is the size of a UDP datagram.
	BufferBytes int `json:"buffer"`
	// MessageBytes is the size of an SCTP message.
	MessageBytes int `json:"message"`
	// Pings of PingBytes each are sent every PingInterval.
	Pings        int           `json:"pings"`
	PingBytes    int           `json:"ping-bytes"`
	PingInterval time.Duration `json:"ping-interval"`
}

// New returns the paper's settings with shorter durations.
func New() engine.Experiment {
	return &Experiment{Tests: []string{tcp, udp, echo}, Underlays: []string{flat}, MTUs: []int{1500, 8900}, Duration: 3 * time.Second,
		BufferBytes: 60_000, MessageBytes: 1400, Pings: 200, PingBytes: 56, PingInterval: 10 * time.Millisecond}
}

// Fields are the settings below `with`.
func (e *Experiment) Fields() engine.Fields {
	return engine.Fields{
		"tests":         engine.Words(&e.Tests, tcp, udp, sctp, echo),
		"underlays":     engine.Words(&e.Underlays, flat, routed),
		"mtus":          engine.Numbers(&e.MTUs, 1500, 9000),
		"duration":      engine.Within(&e.Duration, time.Second, 10*time.Minute),
		"buffer":        engine.Within(&e.BufferBytes, 16, iperf3.MaxUDPBytes),
		"message":       engine.Within(&e.MessageBytes, 16, mostMessageBytes),
		"pings":         engine.Within(&e.Pings, 2, 100_000),
		"ping-bytes":    engine.Within(&e.PingBytes, 16, 8900),
		"ping-interval": engine.Within(&e.PingInterval, 2*time.Millisecond, 10*time.Second),
	}
}

// Check rejects settings that cannot be measured.
func (e *Experiment) Check(profile *engine.Profile) error {
	if err := e.checkTarget(profile); err != nil {
		return err
	}
	if e.Duration%time.Second != 0 {
		return fmt.Errorf("duration: %v; iperf3 knows whole seconds, such as 3s", e.Duration)
	}
	for _, mtu := range e.MTUs {
		if most := mtu - testbed.EncapsulationBytes - ping.HeaderBytes; e.PingBytes > most {
			return fmt.Errorf("ping-bytes: %d do not fit an MTU of %d through a tunnel; give at most %d", e.PingBytes, mtu, most)
		}
	}
	return nil
}

// checkTarget rejects settings that need namespaces.
func (e *Experiment) checkTarget(profile *engine.Profile) error {
	switch {
	case slices.Contains(e.Underlays, routed) && slices.Contains(profile.Paths, testbed.FlannelHostGW):
		return fmt.Errorf("underlays: path %s needs both nodes on one link; leave it or %s out", testbed.FlannelHostGW, routed)
	case profile.Target != engine.Cluster.Name:
		return nil
	case slices.Contains(e.Tests, sctp):
		return fmt.Errorf("tests: %s is measured between network namespaces only; leave it out", sctp)
	case slices.Contains(e.Underlays, routed):
		return fmt.Errorf("underlays: a bench leaves the nodes of a cluster where they are; leave %s out", routed)
	}
	return nil
}

// Compared are throughput and round trips.
func (*Experiment) Compared() []string { return []string{ValueBps, ValueMean, ValueP50} }

// Means are the networks to measure over.
func (*Experiment) Means(target string) *engine.Means { return testbed.PointToPoint(target) }

// omitted is the time that iperf3 does not count, in which TCP finds its rate.
const omitted = time.Second

// Cases returns all tests with each underlay and MTU; networks are innermost.
func (e *Experiment) Cases(profile *engine.Profile) []engine.Case {
	var all []engine.Case
	for _, c := range e.cells(profile, e.Tests) {
		lasts := e.Duration + omitted + 500*time.Millisecond
		if c.test == echo {
			lasts = time.Duration(e.Pings)*e.PingInterval + 300*time.Millisecond
		}
		for _, path := range profile.Paths {
			all = append(all, engine.Case{Name: c.name(), Path: path, LastsNs: lasts.Nanoseconds()})
		}
	}
	return all
}

// asItIs is the MTU of a cluster, which a bench does not change.
const asItIs = 0

func (e *Experiment) mtus(profile *engine.Profile) []int {
	if profile.Target == engine.Cluster.Name {
		return []int{asItIs}
	}
	return e.MTUs
}

// cell is what is measured over each network.
type cell struct {
	test, underlay string
	mtu            int
}

func (c cell) name() string {
	name := fmt.Sprintf("%s-%d", c.test, c.mtu)
	if c.underlay == routed {
		name += "-" + routed
	}
	return name
}

// cells returns those of some tests, ordered to change the networks as rarely as possible.
func (e *Experiment) cells(profile *engine.Profile, tests []string) []cell {
	var all []cell
	for _, underlay := range e.Underlays {
		for _, mtu := range e.mtus(profile) {
			for _, test := range tests {
				all = append(all, cell{test, underlay, mtu})
			}
		}
	}
	return all
}

// The names of values.
const (
	ValueBps         = "received_bps"
	valueLost        = "lost_share"
	valueRetransmits = "retransmits"
	valueClient      = "iperf3_client_cores"
	valueServer      = "iperf3_server_cores"
	ValueMean        = "round_trip_mean_ns"
	ValueP50         = "round_trip_p50_ns"
	ValueP99         = "round_trip_p99_ns"
	valueUnanswered  = "unanswered"
	valueMTU         = "network_mtu_bytes"
	sampleRoundTrips = "round_trip_ns"
)

// Perform performs one test.
func (e *Experiment) Perform(ctx context.Context, target engine.Target, profile *engine.Profile, c *engine.Case) (*engine.Outcome, error) {
	here, err := testbed.From(target)
	if err != nil {
		return nil, err
	}
	cells := e.cells(profile, e.Tests)
	at := slices.IndexFunc(cells, func(other cell) bool { return other.name() == c.Name })
	if at < 0 {
		return nil, fmt.Errorf("the profile has no case %s", c.Name)
	}
	test := cells[at]
	if router, ok := here.(testbed.Router); ok {
		router.Route(test.underlay == routed)
	}
	near, far, err := here.Ends(ctx, c.Path, test.mtu, 1)
	if err != nil {
		return nil, err
	}
	outcome := &engine.Outcome{Values: map[string]float64{}, Said: map[string]string{}}
	if mtu := near.MTU(); mtu > 0 {
		outcome.Values[valueMTU] = float64(mtu)
	}
	err = testbed.Observe(ctx, here, outcome, func() error {
		switch test.test {
		case echo:
			return e.ping(ctx, near, far[0], outcome)
		case sctp:
			return e.associate(ctx, near, far[0], outcome)
		default:
			return e.transfer(ctx, near, far[0], test.test == udp, outcome)
		}
	})
	if err != nil {
		return nil, err
	}
	return outcome, nil
}

func (e *Experiment) ping(ctx context.Context, near, far testbed.End, outcome *engine.Outcome) error {
	test := ping.Test{To: far.Address(), Count: e.Pings, Interval: e.PingInterval, PayloadBytes: e.PingBytes}
	program, err := near.Start(ctx, &testbed.Command{Name: "ping", Program: ping.Program, Package: ping.Package, Arguments: test.Arguments()})
	if err != nil {
		return err
	}
	output, errEnd := program.Wait(ctx)
	result, err := ping.Parse(strings.NewReader(output))
	if err != nil {
		return testbed.Because(err, errEnd)
	}
	outcome.Said[ping.Program] = output
	outcome.Samples = map[string][]int64{sampleRoundTrips: result.RoundTripsNs}
	outcome.Values[ValueMean], outcome.Values[valueUnanswered] = result.MeanNs(), float64(result.Sent-result.Received)
	outcome.Values[ValueP50], outcome.Values[ValueP99] = float64(result.Percentile(50)), float64(result.Percentile(99))
	return nil
}

// port is the server's: its namespace is its own or, on path host, is shared with others.
const port = 5201

func (e *Experiment) transfer(ctx context.Context, near, far testbed.End, datagrams bool, outcome *engine.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, e.Duration+omitted+time.Minute)
	defer cancel()
	server, err := far.Start(ctx, command("iperf3 server", iperf3.ServerArguments(far.Address(), port)))
	if err != nil {
		return err
	}
	defer func() { _, _ = server.Stop() }()
	test := iperf3.Test{Server: far.Address(), Port: port, UDP: datagrams, BufferBytes: e.BufferBytes, Duration: e.Duration, Omit: omitted}
	result, output, err := connect(ctx, near, &test)
	if err != nil {
		return err
	}
	outcome.Said[iperf3.Program] = output
	outcome.Values[ValueBps], outcome.Values[valueClient], outcome.Values[valueServer] = result.ReceivedBps, result.ClientCores, result.ServerCores
	if datagrams {
		outcome.Values[valueLost] = result.LostShare
	} else {
		outcome.Values[valueRetransmits] = float64(result.Retransmits)
	}
	return nil
}

func command(name string, arguments []string) *testbed.Command {
	return &testbed.Command{Name: name, Program: iperf3.Program, Package: iperf3.Package, Arguments: arguments}
}

// connect runs the client, again while the server does not listen yet, which is not reported.
func connect(ctx context.Context, near testbed.End, test *iperf3.Test) (*iperf3.Result, string, error) {
	const attempts, pause = 40, 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		client, err := near.Start(ctx, command("iperf3 client", test.ClientArguments()))
		if err != nil {
			return nil, "", err
		}
		output, errEnd := client.Wait(ctx)
		result, err := iperf3.Parse(strings.NewReader(output))
		if err == nil {
			return result, output, nil
		}
		if attempt == attempts || !iperf3.NotListening(err) {
			return nil, output, testbed.Because(err, errEnd)
		}
		if err := retry.Pause(ctx, pause); err != nil {
			return nil, output, err
		}
	}
}
