// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Options are the options of the command line.
type Options struct {
	// Node is the name of the node.
	Node string
	// Networks is the file of networks.
	Networks string
	// FromCluster takes networks and schedules from the cluster's TSNNetworks instead.
	FromCluster bool
	// Control is ktsnd's control socket; pods' folders are next to it.
	Control  string
	StateDir string
	// IPAMDir is host-local's folder of allocated addresses.
	IPAMDir string
	// Kubelet is kubelet's folder.
	Kubelet string
	// Host is the mount point of the node's file system, into which files are installed.
	Host string
	// Etc is the mount point of the node's /etc, for settings of managers of network devices; "" leaves them alone.
	Etc string
	// PluginDir is the node's folder of network plugins, ConfDir Multus' folder of configurations.
	PluginDir, ConfDir string
	// Programs is this container's folder with tsn-cni and libktsn.so.
	Programs string
	// Relays configures ktsn-relay and ktsn-relay-vhost.
	Relays relay.Programs
	// Proc is the node's process file system; "" disables the inspection of processes.
	Proc string
	// Health and Metrics are listen addresses; "0" disables them.
	Health, Metrics string
	// EncryptedPort is the UDP port of the tunnels of encrypted networks.
	EncryptedPort uint16
	// Minimum is the minimum encryption of networks and links.
	Minimum tsnnetwork.EncryptionMinimum
	// NoChecksumOffload disables the offload of transmit checksums of tunnels.
	NoChecksumOffload bool
	// SweepEvery is the time between two sweeps for the remains of pods.
	SweepEvery time.Duration
	// OVS describes the Open vSwitch through which the node's ktsnd sends; nil if there is none.
	OVS     *ovsOptions
	Version string
}

// defaultIPAMDir is host-local's own default.
const defaultIPAMDir = "/var/lib/cni/networks"

const usage = `Usage: ktsn-agent --node NAME [OPTION]...
       ktsn-agent remove OPTION...
       ktsn-agent clean-node OPTION...

Serves one node of a Kubernetes cluster: gives pods their volumes with libktsn.so and a socket of ktsnd, installs the
network plugin and its configuration, tells kernel and ktsnd of the other nodes, removes what pods left, and says how
all of that is. The chart kubernetsn starts it. The other two take the project off a cluster; --help of each lists its
options.

Options:
`

// Parse parses the command line of the agent.
func Parse(arguments []string, stdout io.Writer) (*Options, error) {
	o := &Options{}
	flags := flag.NewFlagSet("ktsn-agent", flag.ContinueOnError)
	flags.StringVar(&o.Node, "node", "", "`NAME` of the node (required)")
	flags.StringVar(&o.Networks, "networks", "/etc/kubernetsn/networks.yaml", "`FILE` of the networks")
	flags.BoolVar(&o.FromCluster, "from-cluster", false, "networks and schedules are the cluster's TSNNetworks instead; ktsn-operator must run")
	flags.StringVar(&o.Control, "control", control.DefaultPath, "ktsnd's control socket; pods' folders stand beside it")
	flags.StringVar(&o.StateDir, "state-dir", overlay.DefaultStateDir, "tsn-cni's state `FOLDER`")
	flags.StringVar(&o.IPAMDir, "ipam-dir", defaultIPAMDir, "host-local's `FOLDER`")
	flags.StringVar(&o.Kubelet, "kubelet-dir", "/var/lib/kubelet", "kubelet's `FOLDER`, the same here and on the node")
	flags.StringVar(&o.Host, "host", "/", "`FOLDER` where the node's plugin and configuration folders are mounted")
	flags.StringVar(&o.Etc, "etc", "", "`FOLDER` where the node's /etc is mounted; NetworkManager and systemd-networkd get a setting there to leave devices tsn* alone")
	flags.StringVar(&o.PluginDir, "plugin-dir", "/opt/cni/bin", "the node's `FOLDER` of network plugins")
	flags.StringVar(&o.ConfDir, "conf-dir", "/etc/cni/multus/net.d", "the node's `FOLDER` in which Multus looks for configurations")
	flags.StringVar(&o.Programs, "programs", "/usr/lib/ktsn", "`FOLDER` with tsn-cni and libktsn.so")
	flags.StringVar(&o.Proc, "proc", "", "`FOLDER` with the node's /proc; empty: look at no processes")
	flags.StringVar(&o.Health, "health-address", "127.0.0.1:9471", "`ADDRESS` of /healthz and /readyz, 0 for none")
	flags.StringVar(&o.Metrics, "metrics-address", ":9470", "`ADDRESS` of /metrics, 0 for none")
	flags.DurationVar(&o.SweepEvery, "sweep-every", time.Minute, "look so often for what pods left; it is removed at the second look")
	flags.BoolVar(&o.NoChecksumOffload, "disable-checksum-offload", false, "disable the offload of transmit checksums of all tunnels")
	encryptedPort := flags.Uint("encrypted-port", overlay.EncryptedPort, "UDP `PORT` of the tunnels of encrypted networks; ktsnd has the same")
	o.Minimum.AddFlags(flags)
	relayUser := relay.DefaultUser
	flags.StringVar(&o.Relays.Captured.Path, "relay-binary", "/usr/lib/ktsn/ktsn-relay", "`PATH` of ktsn-relay, which takes captured frames to ktsnd")
	flags.StringVar(&o.Relays.Guests.Path, "vhost-relay-binary", "/usr/lib/ktsn/ktsn-relay-vhost", "`PATH` of ktsn-relay-vhost, which serves virtual machines by vhost-user")
	flags.IntVar(&o.Relays.Guests.Most, "vhost-relays", 16, "how many of these may run; each takes some 9 MiB of this program's memory")
	flags.IntVar(&o.Relays.Guests.MostOfNamespace, "vhost-relays-per-namespace", 8, "how many of these may run for pods of one namespace")
	flags.StringVar(&relayUser, "relay-user", relayUser, "`UID[:GID]` as which they run")
	ovs := addOVSOptions(flags)
	if err := commandline.Parse(flags, usage, arguments, stdout); err != nil {
		return nil, err
	}
	var err error
	if o.OVS, err = ovs.validate(); err != nil {
		return nil, fmt.Errorf("%w; %w", err, commandline.ErrUsage)
	}
	user, err := relay.ParseUser(relayUser)
	if err != nil {
		return nil, fmt.Errorf("--relay-user %w; %w", err, commandline.ErrUsage)
	}
	o.Relays.Captured.User, o.Relays.Guests.User = user, user
	if o.Node == "" {
		return nil, fmt.Errorf("--node is missing; %w", commandline.ErrUsage)
	}
	if o.Relays.Guests.Most < 1 {
		return nil, fmt.Errorf("--vhost-relays %d: give at least 1; %w", o.Relays.Guests.Most, commandline.ErrUsage)
	}
	if o.Relays.Guests.MostOfNamespace < 1 {
		return nil, fmt.Errorf("--vhost-relays-per-namespace %d: give at least 1; %w", o.Relays.Guests.MostOfNamespace, commandline.ErrUsage)
	}
	if *encryptedPort < 1 || *encryptedPort > math.MaxUint16 || *encryptedPort == network.DefaultPort {
		return nil, fmt.Errorf("--encrypted-port %d: give 1 to %d, but not %d, which is that of clear tunnels; %w", *encryptedPort, math.MaxUint16,
			network.DefaultPort, commandline.ErrUsage)
	}
	o.EncryptedPort = uint16(*encryptedPort)
	if o.SweepEvery < time.Second {
		return nil, fmt.Errorf("--sweep-every %v: give at least 1s; %w", o.SweepEvery, commandline.ErrUsage)
	}
	for name, path := range map[string]string{"--control": o.Control, "--kubelet-dir": o.Kubelet, "--plugin-dir": o.PluginDir, "--conf-dir": o.ConfDir, "--relay-binary": o.Relays.Captured.Path,
		"--vhost-relay-binary": o.Relays.Guests.Path} {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("%s %q: give an absolute path; %w", name, path, commandline.ErrUsage)
		}
	}
	return o, nil
}

// runDir returns ktsnd's folder on the node.
func (o *Options) runDir() string { return filepath.Dir(o.Control) }

func (o *Options) endpoint() string {
	return filepath.Join(o.Kubelet, "plugins", csi.DriverName, "csi.sock")
}

func (o *Options) registry() string {
	return filepath.Join(o.Kubelet, "plugins_registry", csi.DriverName+"-reg.sock")
}
