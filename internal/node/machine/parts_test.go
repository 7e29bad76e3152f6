// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatCannotBeLookedAtIsSaidWithWhatToDo(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "netns")
	noFolder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(noFolder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for sentence, look := range map[string]func(*Machine){
		"the pod's network namespace could not be looked at": func(m *Machine) { m.lookAtTap(gone) },
		"the socket of vhost-user could not be looked at":    func(m *Machine) { m.lookAtSocket(filepath.Join(noFolder, "socket")) },
		"there is no socket": func(m *Machine) { m.lookAtSocket(gone) },
	} {
		m := &Machine{Interface: "tsn0"}
		look(m)
		if len(m.Faults) != 1 || !strings.HasPrefix(m.Faults[0].Text, sentence) || m.Faults[0].Mend == "" {
			t.Errorf("%s: got %+v", sentence, m.Faults)
		}
	}
}
