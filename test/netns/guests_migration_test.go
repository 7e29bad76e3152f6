// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

// The relay offers no log of dirty memory, without which QEMU refuses to move a machine away from the frames that its relay holds.
// The machine's processors do not even run here.
func TestGuestsByVhostUserAreNotMigrated(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	rig := newGuestRig(t, 1, true)
	rig.startRelay(t)
	control := filepath.Join(publicDir(t), "qmp.sock")
	qemu := append(guestmachine.QEMU(t, root), "-nodefaults", "-display", "none", "-S", "-machine", "q35,accel=tcg", "-m", "64",
		"-object", "memory-backend-memfd,id=mem,size=64M,share=on", "-numa", "node,memdev=mem",
		"-chardev", "socket,id=tsn,server=on,path="+rig.path, "-netdev", "vhost-user,id=tsn,chardev=tsn",
		"-device", "virtio-net-pci,netdev=tsn,mac="+net.HardwareAddr(rig.podA).String(),
		"-qmp", "unix:"+control+",server=on,wait=off")
	machine := start(t, rig.NodeA, "qemu", exec.Command("sh", append([]string{"-c", `umask 0; exec "$0" "$@"`}, qemu...)...))
	conn := testlab.EventuallyValue(t, patience, 10*time.Millisecond, func() (net.Conn, error) {
		conn, err := net.Dial("unix", control)
		if err != nil {
			return nil, fmt.Errorf("%w; QEMU says: %s; the relay says: %s", err, machine.Stderr(), rig.relay.Stderr())
		}
		return conn, nil
	})
	defer conn.Close()
	q := newQMP(t, conn)
	refused := q.try(t, "migrate", map[string]any{"uri": "exec:cat >/dev/null"})
	if !strings.Contains(refused, "vhost-user backend lacks") {
		t.Errorf("QEMU says %q of a migration", refused)
	}
	t.Log(refused)
}
