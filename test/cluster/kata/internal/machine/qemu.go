// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// Files of a machine's folder.
const (
	agentSocket = "agent.sock"
	clockSocket = "clock.sock"
	console     = "console.log"
)

// command returns the QEMU command, in the pod's network namespace with the taps. A single thread emulates all
// processors: with a thread for each, machines have hung.
func (o *Options) command() *exec.Cmd {
	arguments := []string{"--net=" + o.Netns, o.Path, "-nodefaults", "-display", "none", "-no-reboot", "-machine", "pc", "-accel", "tcg,thread=single",
		"-cpu", "max", "-smp", strconv.Itoa(o.Processors), "-m", strconv.Itoa(o.MemoryMiB), "-kernel", o.Kernel, "-initrd", o.Initrd,
		"-append", "console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check cryptomgr.notests", "-serial", "file:" + o.path(console),
		"-fsdev", "local,id=shared,path=" + o.Shared + ",security_model=none,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=shared,mount_tag=" + protocol.SharedTag, "-device", "virtio-serial"}
	for name, socket := range map[string]string{protocol.AgentPort: agentSocket, protocol.ClockPort: clockSocket} {
		arguments = append(arguments, "-chardev", "socket,id="+socket+",server=on,wait=off,path="+o.path(socket),
			"-device", "virtserialport,chardev="+socket+",name="+name)
	}
	for i, card := range o.Cards {
		backend := fmt.Sprintf("tap,id=card%d,ifname=%s,script=no,downscript=no,vhost=off", i, card.Tap)
		device := fmt.Sprintf("virtio-net-pci,netdev=card%d,mac=%s", i, card.Interface.Address)
		if card.Queues > 1 {
			backend += fmt.Sprintf(",queues=%d", card.Queues)
			device += ",mq=on"
		}
		arguments = append(arguments, "-netdev", backend, "-device", device)
	}
	command := exec.Command("nsenter", arguments...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return command
}
