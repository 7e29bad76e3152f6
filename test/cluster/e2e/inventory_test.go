// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// listing prints, on a node, all that pods leave when something goes wrong: interfaces, network namespaces, addresses
// that were given away, what the plugins remember, cgroups, mounts, folders, and the runtime's processes.
const listing = `
ip -o link | awk -F': ' '{ sub(/@.*/, "", $2); print "interface " $2 }'
ls /run/netns | sed 's/^/network namespace /'
find /var/lib/cni /run/ktsn/pods ! -type d ! -name 'last_reserved_ip*' ! -name lock 2>/dev/null
find /var/lib/kubelet/pods -mindepth 1 -maxdepth 1
find /sys/fs/cgroup/cpu/kubepods /sys/fs/cgroup/memory/kubepods -type d
awk '{ print "mount " $5 }' /proc/self/mountinfo
pgrep -a containerd-shim | sed 's/.* -id \([0-9a-f]*\).*/shim \1/'
`

// inventory is what there is on a node.
func inventory(ctx context.Context, host string) (map[string]bool, error) {
	text, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", listing)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		all[strings.TrimSpace(line)] = true
	}
	return all, nil
}

// inventories is what there is on all nodes.
func inventories(ctx context.Context, t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, host := range under.Nodes {
		of, err := inventory(ctx, host.Name)
		if err != nil {
			t.Fatal(err)
		}
		all[host.Name] = of
	}
	return all
}

// leavesNothing fails the test unless the nodes have, after a while, no more than before.
func leavesNothing(ctx context.Context, t *testing.T, before map[string]map[string]bool) {
	t.Helper()
	for host, had := range before {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := kube.Wait(ctx, func(ctx context.Context) error {
			has, err := inventory(ctx, host)
			if err != nil {
				return err
			}
			for thing := range had {
				delete(has, thing)
			}
			if len(has) > 0 {
				return fmt.Errorf("left on %s: %s", host, strings.Join(slices.Sorted(maps.Keys(has)), ", "))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// isTSNLeftover tells things of the TSN network, of which there are none when no pod is on it.
func isTSNLeftover(thing string) bool {
	for _, prefix := range []string{"interface tsn", "/var/lib/cni/networks/tsn/", "/var/lib/cni/tsn-cni/attachments/", "/run/ktsn/pods/"} {
		if strings.HasPrefix(thing, prefix) {
			return true
		}
	}
	return false
}
