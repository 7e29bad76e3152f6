// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/rest"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/agent"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/peers"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Seat is what a node's agent is started with.
type Seat struct {
	// Node is the name of the Node, Local its tunnel address.
	Node, Local string
	// Token is that of the agent's pod.
	Token string
	// Number tells the nodes of the process apart.
	Number int
	// Up is for how long the machine has been up.
	Up time.Duration
}

// node is one, with its agent.
type node struct {
	Seat
	dir string
	// booted is when the machine was.
	booted  time.Time
	ktsnd   *ktsnd
	clock   *playedClock
	traffic *traffic
	stop    context.CancelFunc
	// ended is closed when the agent was stopped and has ended.
	ended chan struct{}
	// restarts counts how often kubelet restarted it, and why is its last error.
	restarts atomic.Int64
	why      atomic.Pointer[error]
	// ready is when the agent was first seen to be.
	ready time.Time
}

// tunnels plays the kernel's side: it has what ktsnd has.
type tunnels struct{ ktsnd *ktsnd }

func (t tunnels) Peers() ([]control.Peer, error) { return t.ktsnd.listPeers(), nil }

func (t tunnels) FloodTargets() (map[uint32]map[netip.Addr]bool, error) { return nil, nil }

func (t tunnels) Guard(context.Context) ([]string, error) { return nil, nil }

func (t tunnels) ChangePeers(_ context.Context, changes []overlay.Change, _ overlay.Timed) error {
	t.ktsnd.changePeers(changes)
	return nil
}

func (t tunnels) Close() {}

// startNode starts ktsnd, kubelet and agent of a node. Programs has what the agent installs.
func startNode(root, programs string, seat Seat, server *rest.Config, log io.Writer) (*node, error) {
	n := &node{Seat: seat, dir: filepath.Join(root, fmt.Sprintf("n%d", seat.Number)), ended: make(chan struct{}), traffic: &traffic{},
		clock: newPlayedClock()}
	n.booted = time.Now().Add(-seat.Up)
	for _, folder := range []string{"run", "pods"} {
		if err := os.MkdirAll(filepath.Join(n.dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if n.ktsnd, err = startKtsnd(filepath.Join(n.dir, "run", "control.sock"), seat.Local); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	go n.register(ctx, filepath.Join(n.dir, "kubelet", "plugins_registry", csi.DriverName+"-reg.sock"))
	go n.run(ctx, programs, server, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})).With("node", seat.Node))
	return n, nil
}

// firstRestart is kubelet's delay before it restarts a container; it doubles each time.
const firstRestart = 10 * time.Second

// run keeps the agent running, as kubelet does.
func (n *node) run(ctx context.Context, programs string, server *rest.Config, log *slog.Logger) {
	defer close(n.ended)
	for pause := firstRestart; ; pause *= 2 {
		err := n.agent(ctx, programs, server, log)
		if ctx.Err() != nil {
			return
		}
		n.restarts.Add(1)
		n.why.Store(&err)
		log.Error("the agent has ended", "error", err)
		_ = retry.Pause(ctx, pause)
	}
}

func (n *node) agent(ctx context.Context, programs string, server *rest.Config, log *slog.Logger) error {
	options, err := agent.Parse(n.arguments(programs), io.Discard)
	if err != nil {
		return err
	}
	options.Version = "scale"
	return agent.Run(ctx, options, &agent.Platform{
		Reduce:   func(...privilege.Capability) error { return nil },
		Overlay:  func() (peers.Overlay, error) { return tunnels{n.ktsnd}, nil },
		Registry: prometheus.NewRegistry(), Shared: true,
		Uptime: func() time.Duration { return time.Since(n.booted) },
		Clock:  n.clock.watch,
	}, n.traffic.count(server, n.Token), log)
}

// arguments are those of the chart, with folders of the node's own.
func (n *node) arguments(programs string) []string {
	in := func(name string) string { return filepath.Join(n.dir, name) }
	return []string{
		"--node", n.Node, "--from-cluster", "--control", in("run/control.sock"), "--state-dir", in("state"), "--ipam-dir", "/ipam",
		"--kubelet-dir", in("kubelet"), "--host", in("host"), "--programs", programs,
		"--health-address", n.health(), "--metrics-address", "0",
	}
}

// health is an address of this node alone.
func (n *node) health() string {
	return fmt.Sprintf("127.%d.%d.%d:9471", 1+n.Number>>16, n.Number>>8&255, n.Number&255)
}

// register is kubelet, as far as it registers drivers.
func (n *node) register(ctx context.Context, socket string) {
	for ctx.Err() == nil {
		if err := register(ctx, socket); err == nil {
			return
		}
		_ = retry.Pause(ctx, 500*time.Millisecond)
	}
}

func register(ctx context.Context, socket string) error {
	if _, err := os.Stat(socket); err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := registerapi.NewRegistrationClient(conn)
	if _, err := client.GetInfo(ctx, &registerapi.InfoRequest{}); err != nil {
		return err
	}
	_, err = client.NotifyRegistrationStatus(ctx, &registerapi.RegistrationStatus{PluginRegistered: true})
	return err
}

// probes are as kubelet's: a connection each.
var probes = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// probe asks the agent whether it is ready.
func (n *node) probe() error {
	reply, err := probes.Get("http://" + n.health() + "/readyz?verbose")
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", reply.Status, text)
	}
	return nil
}

// end stops agent and ktsnd.
func (n *node) end() {
	n.stop()
	<-n.ended
	n.ktsnd.stop()
}
