// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// saved saves the plan of a cluster that does not exist otherwise.
func saved(t *testing.T, name, root string) *plan.Plan {
	t.Helper()
	p, err := plan.New(fmt.Sprintf("%s-%d", name, os.Getpid()), root, 1, netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDeadClusterIsRemovedUnlessLocked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: who removes a cluster looks for its network namespaces and mounts")
	}
	root := t.TempDir()
	first, dead, locked := saved(t, "own", root), saved(t, "dead", root), saved(t, "locked", root)
	unlock, err := lock(locked.Name, locked.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	var logged []string
	removeDead(t.Context(), first.Name, root, func(format string, arguments ...any) { logged = append(logged, fmt.Sprintf(format, arguments...)) })
	for p, want := range map[*plan.Plan]bool{first: true, dead: false, locked: true} {
		if _, err := os.Stat(p.Dir); (err == nil) != want {
			t.Errorf("cluster %s is left: %t, want %t", p.Name, err == nil, want)
		}
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "removed cluster "+dead.Name) {
		t.Errorf("it says %q", logged)
	}
}
