// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
)

// tools are the programs that a cluster needs on this machine, and their Debian packages.
var tools = []struct{ program, packages string }{
	{"runc", "runc"}, {"containerd", "containerd"}, {"etcd", "etcd-server"}, {"nft", "nftables"}, {"ip", "iproute2"},
	{"iptables", "iptables"}, {"tini", "tini"}, {"runsvdir", "runit"}, {"gcc", "gcc"}, {"sysctl", "procps"},
}

// ErrMachine means that this machine cannot run a cluster.
var ErrMachine = errors.New("this machine cannot carry a cluster")

// checkMachine returns an error for requirements that this machine does not meet.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: namespaces, mounts and cgroups are made by root only; run it as root", ErrMachine)
	}
	var missing []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.program); err != nil {
			missing = append(missing, tool.packages)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: programs are missing; on Debian 12, apt-get install --no-install-recommends %s", ErrMachine, strings.Join(missing, " "))
	}
	if _, err := cgroups.Version(); err != nil {
		return fmt.Errorf("%w: %w", ErrMachine, err)
	}
	return nil
}
