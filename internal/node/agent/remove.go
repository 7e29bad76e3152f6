// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/removal"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const removeUsage = `Usage: ktsn-agent remove [OPTION]...

Takes KuberneTSN off a cluster: refuses while pods use it, ends ktsnd and the agents, and cleans each node. Runs in a
pod, before helm uninstalls the chart.

Options:
`

// The chart's DaemonSets and the labels of their pods.
const (
	defaultDaemonSets = "ktsnd,ktsnd-ovs,ktsn-agent,ktsn-agent-ovs,ktsn-clock"
	defaultSelector   = "app.kubernetes.io/name=kubernetsn,app.kubernetes.io/component in (ktsnd,agent,clock)"
)

// remove implements the command of the chart's hook.
func remove(ctx context.Context, arguments []string, stdout io.Writer) error {
	c := &removal.Cluster{Driver: csi.DriverName, Out: stdout}
	flags := flag.NewFlagSet("ktsn-agent remove", flag.ContinueOnError)
	flags.StringVar(&c.Namespace, "namespace", "kubernetsn-system", "`NAME` of the project's namespace")
	daemonSets := flags.String("daemonset", defaultDaemonSets, "`NAMES` of its DaemonSets, between commas")
	flags.StringVar(&c.Selector, "selector", defaultSelector, "`LABELS` of its pods")
	networks := flags.String("networks", "/etc/kubernetsn/networks.yaml", "`FILE` of the networks")
	namespaces := flags.String("attachment-namespaces", "", "`NAMES` of further namespaces with attachments, between commas")
	pod := flags.String("pod", "/etc/kubernetsn-removal/pod.yaml", "`FILE` with the pod that cleans a node")
	timeout := flags.Duration("timeout", 4*time.Minute, "how long all of it may take")
	if err := commandline.Parse(flags, removeUsage, arguments, stdout); err != nil {
		return err
	}
	c.DaemonSets = strings.Split(*daemonSets, ",")
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	networkList, err := network.File{Path: *networks}.Networks(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range append(strings.Split(*namespaces, ","), c.Namespace) {
		for _, network := range networkList {
			c.Networks = append(c.Networks, removal.Network{Namespace: namespace, Name: network.Name})
		}
	}
	if c.Pod, err = readPod(*pod); err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; this command runs in a pod with a service account", err)
	}
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	return c.Remove(ctx)
}

func readPod(path string) (*corev1.Pod, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the pod that cleans a node: %w", err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		return nil, fmt.Errorf("read the pod that cleans a node, %s: %w", path, err)
	}
	return pod, nil
}

// detachTimeout is how long to wait for runtimes to detach ended pods, as long as kubelet's grace period.
const detachTimeout = 30 * time.Second

const cleanNodeUsage = `Usage: ktsn-agent clean-node [OPTION]...

Removes from this node what the agent installed there: the network plugin, configurations, what they remember, folders.
Refuses while a pod has a volume, and when a pod is still attached, or an address given away, after half a minute
(but see --no-pods).

Options:
`

// cleanNode implements the command of the pod that cleans a node.
func cleanNode(ctx context.Context, arguments []string, stdout io.Writer) error {
	n := &removal.Node{Out: stdout, Installed: &install.Node{List: install.DefaultList}, Wait: detachTimeout}
	flags := flag.NewFlagSet("ktsn-agent clean-node", flag.ContinueOnError)
	flags.StringVar(&n.StateDir, "state-dir", overlay.DefaultStateDir, "tsn-cni's state `FOLDER`")
	flags.StringVar(&n.RunDir, "run-dir", "/run/ktsn", "ktsnd's `FOLDER`")
	flags.StringVar(&n.IPAMDir, "ipam-dir", defaultIPAMDir, "host-local's `FOLDER`")
	flags.StringVar(&n.PluginDir, "plugin-dir", "/opt/cni/bin", "the node's `FOLDER` of network plugins")
	flags.StringVar(&n.ConfDir, "conf-dir", "/etc/cni/multus/net.d", "the node's `FOLDER` of Multus' configurations")
	flags.StringVar(&n.Installed.Root, "host", "/", "`FOLDER` where the node's files are mounted")
	etc := flags.String("etc", "", "`FOLDER` where the node's /etc is mounted; empty: below --host")
	flags.BoolVar(&n.NoPods, "no-pods", false, "no pod of the cluster is known to be on a network: detach what is still attached after half a minute")
	pods := flags.String("pods", "", "`UIDS` of the node's pods, between commas: fail in spite of --no-pods if one is attached")
	kubelet := flags.String("kubelet-dir", "/var/lib/kubelet", "kubelet's `FOLDER`")
	ovsRunDir := flags.String("ovs-run-dir", "", "`FOLDER` of the sockets of the node's Open vSwitch, if it has one; empty: leave that alone")
	if err := commandline.Parse(flags, cleanNodeUsage, arguments, stdout); err != nil {
		return err
	}
	n.Pods, n.Installed.Mounts = strings.Split(*pods, ","), addedMounts(*etc)
	options := Options{Kubelet: *kubelet}
	n.Further = []string{filepath.Dir(options.endpoint()), options.registry()}
	if *ovsRunDir != "" {
		n.Teardown = func(ctx context.Context) error { return teardownOVS(ctx, *ovsRunDir) }
	}
	return n.Clean(ctx)
}
