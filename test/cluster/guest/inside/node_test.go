// SPDX-License-Identifier: Apache-2.0

//go:build guest

package inside

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

const (
	manifestDir = "/etc/kubernetes/manifests"
	networkDir  = "/etc/cni/net.d"
	pluginDir   = "/opt/cni/bin"
	// readOnlyPort is kubelet's port without authentication.
	readOnlyPort = 10255
	// exclusiveProcessor can be assigned exclusively; processor 0 is for everything else.
	exclusiveProcessor = 1
)

const runtimeConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "kubernetsn.io/pause:cluster"
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + pluginDir + `"
    conf_dir = "` + networkDir + `"
`

// With seccompDefault, containers get the runtime's seccomp profile: the strictest that kubelet can be.
var kubeletConfig = fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
staticPodPath: %s
fileCheckFrequency: 1s
readOnlyPort: %d
seccompDefault: true
cpuManagerPolicy: static
reservedSystemCPUs: "0"
evictionHard: {memory.available: 100Mi, nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%"}
`, manifestDir, readOnlyPort)

// podNetwork is the only network of the node's pods. As in a cluster, the agent has ktsnd create their sockets.
const podNetwork = `{
  "cniVersion": "1.0.0",
  "name": "tsn",
  "plugins": [{
    "type": "tsn-cni",
    "vni": 42,
    "socketDir": "/run/ktsn/pods",
    "createSocket": false,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.42.0.0/16", "rangeStart": "10.42.1.2", "rangeEnd": "10.42.1.254"}]]}
  }]
}
`

// makeUplink creates an interface like the one that the chart names, whose cable leads nowhere.
func makeUplink() error {
	for _, arguments := range [][]string{
		{"ip", "link", "add", "eth0", "type", "veth", "peer", "name", "wire"},
		{"ip", "address", "add", "192.0.2.1/24", "dev", "eth0"},
		{"ip", "link", "set", "wire", "up"},
		{"ip", "link", "set", "eth0", "up"},
	} {
		if err := run(arguments...); err != nil {
			return err
		}
	}
	return nil
}

func writeFiles() error {
	for path, content := range map[string]string{
		"/etc/containerd/config.toml":                runtimeConfig,
		"/etc/kubernetes/kubelet.yaml":               kubeletConfig,
		filepath.Join(networkDir, "10-tsn.conflist"): podNetwork,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(manifestDir, 0o755); err != nil {
		return err
	}
	plugins := os.Getenv("KTSN_PLUGINS")
	return run("cp", filepath.Join(plugins, "host-local"), filepath.Join(plugins, "loopback"), pluginDir)
}

func startRuntime() error {
	if err := background("containerd", "containerd", "--config=/etc/containerd/config.toml"); err != nil {
		return err
	}
	return eventually(func() error { return run("ctr", "--connect-timeout=2s", "version") })
}

// importImages imports on both processors at once.
func importImages() error {
	images := os.Getenv("KTSN_IMAGES")
	var all errgroup.Group
	for _, archive := range []string{os.Getenv("KTSN_PAUSE"), filepath.Join(images, "ktsn-agent.tar"), filepath.Join(images, "ktsnd.tar"),
		filepath.Join(images, "tsnperf.tar")} {
		all.Go(func() error { return run("ctr", "--namespace=k8s.io", "images", "import", archive) })
	}
	return all.Wait()
}

func startKubelet() error {
	return background("kubelet", filepath.Join(os.Getenv("KTSN_KUBERNETES_DIR"), "kubelet"),
		"--config=/etc/kubernetes/kubelet.yaml", "--hostname-override="+hostname, "--v=2")
}

const hostname = "guest"
