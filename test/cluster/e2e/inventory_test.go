// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// listing prints everything on a node that failing pods could leave: interfaces, network namespaces, assigned
// addresses, the plugins' records, cgroups, mounts, folders, the runtime's processes, and files and processes of Kata's
// machines. It skips Flannel's bridge, which comes with a node's first pod and stays.
const listing = `
ip -o link | awk -F': ' '{ sub(/@.*/, "", $2); if ($2 != "cni0") print "interface " $2 }'
ls /run/netns | sed 's/^/network namespace /'
find /var/lib/cni /run/ktsn/pods ! -type d ! -name 'last_reserved_ip*' ! -name lock 2>/dev/null
find /var/lib/kubelet/pods -mindepth 1 -maxdepth 1
find /sys/fs/cgroup/kubepods /sys/fs/cgroup/cpu/kubepods /sys/fs/cgroup/memory/kubepods -type d 2>/dev/null
awk '{ print "mount " $5 }' /proc/self/mountinfo
pgrep -a containerd-shim | sed 's/.* -id \([0-9a-f]*\).*/shim \1/'
find /run/kata /run/kata-containers/dans /run/kata-containers/shared/sandboxes -mindepth 1 -maxdepth 1 2>/dev/null
pgrep qemu-system | sed 's/^/machine /'
pgrep -f '[k]tsn vm clock' | sed 's/^/clock of machine /'
`

// inventory returns the listing of a node, without names of the system's own pods: those may be replaced meanwhile,
// under other names.
func inventory(ctx context.Context, host string) (map[string]bool, error) {
	text, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", listing)
	if err != nil {
		return nil, err
	}
	owners, err := systemPods(ctx, host)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		thing := strings.TrimSpace(line)
		if !slices.ContainsFunc(owners, func(owner string) bool { return strings.Contains(thing, owner) }) {
			all[thing] = true
		}
	}
	return all, nil
}

// systemPods returns the UIDs of the system's pods on a node, and the IDs of their containers.
func systemPods(ctx context.Context, host string) ([]string, error) {
	containers := []string{"ctr", "--namespace=k8s.io", "containers", "list", "--quiet"}
	var owners []string
	for _, namespace := range []string{metav1.NamespaceSystem, "kube-flannel", chartSystem} {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + host})
		if err != nil {
			return nil, err
		}
		for _, pod := range pods.Items {
			owners = append(owners, string(pod.UID))
		}
		containers = append(containers, `labels."io.kubernetes.pod.namespace"==`+namespace)
	}
	text, err := node.Output(ctx, under.Place(host), nil, containers...)
	return append(owners, strings.Fields(text)...), err
}

// inventories returns the inventory of all nodes.
func inventories(ctx context.Context, t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, host := range under.Nodes {
		things, err := inventory(ctx, host.Name)
		if err != nil {
			t.Fatal(err)
		}
		all[host.Name] = things
	}
	return all
}

// isSeen fails the test unless the inventory shows that many pods more than before, each with everything that a pod
// has: a listing that misses them would miss leftovers, too.
func isSeen(ctx context.Context, t *testing.T, before map[string]map[string]bool, pods int) {
	t.Helper()
	for _, kind := range []string{"interface ", "network namespace ", "shim ", "mount ", "/var/lib/kubelet/pods/", "/var/lib/cni/"} {
		more := 0
		for host, now := range inventories(ctx, t) {
			for thing := range now {
				if strings.HasPrefix(thing, kind) && !before[host][thing] {
					more++
				}
			}
		}
		if more < pods {
			t.Errorf("of %d pods, %d things are seen that begin with %q", pods, more, kind)
		}
	}
}

// leavesNothing fails the test unless the nodes have, after a while, no more than before.
func leavesNothing(ctx context.Context, t *testing.T, before map[string]map[string]bool) {
	t.Helper()
	for host, had := range before {
		await(ctx, t, func(ctx context.Context) error {
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
	}
}

// isAttachment reports whether a thing belongs to a pod's attachment to the TSN network.
func isAttachment(thing string) bool {
	for _, prefix := range []string{"interface tsn", "/var/lib/cni/networks/tsn/", "/var/lib/cni/tsn-cni/attachments/", "/run/ktsn/pods/"} {
		if strings.HasPrefix(thing, prefix) {
			return true
		}
	}
	return false
}
