// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestInspectErrors(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "netns")
	noFolder := filepath.Join(t.TempDir(), "file")
	testlab.Must(t, os.WriteFile(noFolder, nil, 0o600))
	for message, inspect := range map[string]func(*Machine){
		"the pod's network namespace cannot be read": func(m *Machine) { m.inspectTap(gone) },
		"the socket of vhost-user cannot be read":    func(m *Machine) { m.inspectSocket(filepath.Join(noFolder, "socket")) },
		"there is no socket":                         func(m *Machine) { m.inspectSocket(gone) },
	} {
		m := &Machine{Interface: "tsn0"}
		inspect(m)
		if len(m.Faults) != 1 || !strings.HasPrefix(m.Faults[0].Text, message) || m.Faults[0].Mend == "" {
			t.Errorf("%s: got %+v", message, m.Faults)
		}
	}
}
