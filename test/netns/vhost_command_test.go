// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// A front end that fits what `ktsn vm relay` prints is served, also by the relay that is started when the first one has ended.
func TestVhostRelayFromCommandLine(t *testing.T) {
	timing(t)
	rig := newGuestRig(t, 2, true)
	_, client := rig.startDaemon(t)
	var output bytes.Buffer
	command := exec.Command(program(t, "ktsn"), "vm", "relay", "--netns", rig.PodA.Path(), "--interface", topology.PodInterface, "--socket", rig.socket,
		"--vhost-socket", rig.path, "--queues", strconv.Itoa(rig.pairs), "--vcpus", "2", "--class", "queue", "--records",
		"--relay-binary", rig.relayProgram, "--relay-user", strconv.Itoa(nobody))
	command.Stdout = &output
	attach := start(t, rig.NodeA, "ktsn vm relay", command)
	rig.relay = attach
	rig.startGuest(t)
	there := listenFrames(t, rig.PodB, carriedEtherType)
	for i := range 2 {
		text := strconv.Itoa(i)
		rig.send(t, 1, recorded(rig.frame(rig.podA, text), nowTAI(t)+int64(50*time.Millisecond)))
		if arrived := arrivedText(t, there); arrived != text {
			t.Fatalf("%q arrives, want %q", arrived, text)
		}
		if i == 0 {
			killChild(t, attach.PID())
			rig.awaitLine(t, "down")
			rig.awaitLine(t, "up")
		}
	}
	awaitSent(t, client, 2)
	if err := attach.Stop(patience); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"mac=" + net.HardwareAddr(rig.podA).String() + ",mq=on", "path='" + rig.path + "' mode='server'", "queues=2"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, output.String())
		}
	}
}

// killChild ends the only child of a process.
func killChild(t *testing.T, pid int) {
	t.Helper()
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		children, _ := os.ReadFile(file) // its thread may have ended
		for child := range strings.FieldsSeq(string(children)) {
			if err := exec.Command("kill", "-KILL", child).Run(); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("there is no relay")
}
